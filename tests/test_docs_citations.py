"""The documents that code cites are there, and name what is there."""

from __future__ import annotations

import importlib
import re
import runpy
from functools import reduce
from pathlib import Path

import pytest

from croupier.privacy import shuffled_bits

ROOT = Path(__file__).parent.parent
CHECK = runpy.run_path(str(ROOT / "docs" / "check.py"))
PAGE = (ROOT / "docs" / "guarantees.md").read_text()
NAMED = re.findall(
    r"`((?:croupier\.)?\w+(?:\.\w+)+)`",
    "\n".join(line for line in PAGE.splitlines() if re.match(r"\| \d", line)),
)


def test_every_citation_has_an_anchor() -> None:
    assert list(CHECK["broken_citations"]()) == []
    assert ("MATH", "4") in CHECK["sections"]()
    assert ("MATH", "6.5") in CHECK["sections"]()


def test_a_citation_without_an_anchor_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 97
    place = tmp_path / "src"
    place.mkdir()
    (place / "module.py").write_text(f'"""As MATH {number} says."""\n')
    (tmp_path / "docs").mkdir()
    for name in ("math.md", "guarantees.md"):
        (tmp_path / "docs" / name).write_text("## 1. The problem\n\n**1. Order.**\n")
    monkeypatch.setitem(CHECK["broken_citations"].__globals__, "ROOT", tmp_path)
    assert list(CHECK["broken_citations"]()) == [(Path("src/module.py"), f"MATH {number}")]


@pytest.mark.parametrize("name", NAMED)
def test_the_page_of_the_proof_names_the_function_of_each_step(name: str) -> None:
    path = name if name.startswith("croupier.") else f"{shuffled_bits.__name__}.{name}"
    parts = path.split(".")
    size = next(n for n in range(len(parts), 0, -1) if _is_module(".".join(parts[:n])))
    found = reduce(getattr, parts[size:], importlib.import_module(".".join(parts[:size])))
    assert callable(found) or isinstance(found, property)


def test_every_step_of_the_proof_has_its_row() -> None:
    steps = {number for kind, number in CHECK["sections"]() if kind == "PROOF"}
    rows = {
        number for row in re.findall(r"(?m)^\| ([\d, ]+) \|", PAGE) for number in row.split(", ")
    }
    assert steps <= rows


def _is_module(path: str) -> bool:
    try:
        importlib.import_module(path)
    except ModuleNotFoundError:
        return False
    return True
