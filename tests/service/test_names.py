from __future__ import annotations

import subprocess
import sys

import pytest

import croupier.service


def test_every_public_name_is_there() -> None:
    for name in croupier.service.__all__:
        assert getattr(croupier.service, name).__name__ == name


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Devise'"):
        _ = croupier.service.Devise


def test_an_app_does_not_import_what_only_a_server_needs() -> None:
    code = "import sys, croupier.service; croupier.service.Device; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"starlette", "uvicorn", "structlog", "psycopg", "prometheus_client"}
