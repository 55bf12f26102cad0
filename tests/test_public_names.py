from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

import croupier

DESIGNED = {
    "Plan",
    "Client",
    "Shuffler",
    "Analyzer",
    "Model",
    "Guarantee",
    "shuffle",
    "contribution",
}


def test_every_public_name_exists_and_is_listed_in_order() -> None:
    assert croupier.__all__ == sorted(croupier.__all__)
    assert all(hasattr(croupier, name) for name in croupier.__all__)


def test_the_names_of_the_design_are_public() -> None:
    assert set(croupier.__all__) >= DESIGNED


def test_the_package_docstring_runs() -> None:
    assert doctest.testmod(croupier).failed == 0


def test_import_loads_no_drawing_or_command_line_library() -> None:
    heavy = ("typer", "matplotlib", "pandas")
    code = f"import croupier, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_devices_and_roles_never_touch_seeded_randomness() -> None:
    """A deployed role draws from the operating system only (SystemCoins)."""
    source = Path(croupier.__file__).parent
    for name in ("client.py", "shuffler.py", "analyzer.py"):
        text = (source / name).read_text()
        assert not re.search(r"import random|np\.random|default_rng|SeededCoins", text), name
