from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_prints_something(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_is_short_enough_to_read_at_once(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 40


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 3
