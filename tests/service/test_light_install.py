"""What an installation without simulations or services can import, and what it says if not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import croupier

SOURCE = Path(croupier.__file__).parents[1]

WITHOUT = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
sys.path.insert(0, {source})
"""

SERVICE = [
    "croupier.service.device.device",
    "croupier.service.shuffler.app",
    "croupier.service.analyzer.app",
    "croupier.service.admin.commands",
    "croupier.service.console",
    "croupier.service.demo.demo",
    "croupier.service.demo.simulated_users",
]
COMMANDS = ["croupier.cli.serving", "croupier.cli.keys", "croupier.cli.demonstrating"]
SERVERS = ("prometheus_client", "psycopg", "starlette", "structlog", "uvicorn")


def run(code: str, *missing: str) -> subprocess.CompletedProcess[str]:
    """The code in a fresh interpreter that cannot find the missing modules."""
    head = WITHOUT.format(missing=missing, source=repr(str(SOURCE)))
    return subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", [*SERVICE, *COMMANDS])
def test_nothing_that_is_deployed_needs_the_compiler_of_simulations(module: str) -> None:
    done = run(f"importlib.import_module({module!r})", "numba", "llvmlite")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", SERVICE)
def test_nothing_that_is_deployed_imports_simulations(module: str) -> None:
    code = f"importlib.import_module({module!r})\n"
    code += "print(*(name for name in sys.modules if name.startswith('croupier.simulation')))"
    done = run(code, "numba")
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_an_app_needs_nothing_that_only_a_server_does() -> None:
    done = run("from croupier.service import Device, DeviceSettings, UploadOutcome", *SERVERS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("missing", ["httpx", "cryptography"])
@pytest.mark.parametrize(
    "line",
    ["from croupier.service import Device", "from croupier.service.device.device import Device"],
)
def test_a_device_says_which_extra_it_needs(line: str, missing: str) -> None:
    done = run(line, missing)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert f"{missing} is not installed" in last
    assert "pip install 'croupier[service]'" in last


@pytest.mark.parametrize("module", SERVICE[1:4])
@pytest.mark.parametrize("missing", ["starlette", "structlog", "cryptography"])
def test_a_service_says_which_extra_it_needs(module: str, missing: str) -> None:
    done = run(f"importlib.import_module({module!r})", missing)
    assert "pip install 'croupier[service]'" in done.stderr.strip().splitlines()[-1]
