"""docs/theorems.md names every statement of the paper, code that exists and tests that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "theorems.md"

LABELS = [
    "def:DP",
    "def:LDP",
    "alg:BOFUL",
    "ass:bounded",
    "thm:amp-main",
    "cor:best_reg_amp",
    "thm:vec-main",
    "lem:subG-main",
    "def:return_def",
    "thm:return-main",
    "prop:JDP-return",
    "ass:reg",
    "thm:general",
    "ass:subG",
    "cor:subG",
    "clm:dif",
    "alg:Ramp",
    "alg:Samp",
    "alg:Aamp",
    "thm:amp",
    "cor:amp_util",
    "cor:amp_priv",
    "lem:shuffle_amp",
    "alg:Rvec",
    "alg:Svec",
    "alg:Avec",
    "thm:vec",
    "cor:vec_util",
    "cor:vec_priv",
    "def:generalDP",
    "def:JDP",
    "def:JDP-user",
    "ass:return",
    "thm:composition",
    "thm:amp_return",
    "cor:amp_util_return",
    "thm:vec_return",
]

WITHOUT_LABEL = [
    "SDP (definition without label)",
    "M-batch SDP (definition without label)",
    "corollary to `thm:vec_return`",
    "restatement of `prop:JDP-return`",
    "`sec:batched`, local proposition",
    "`sec:batched`, central proposition",
]


def rows() -> list[list[str]]:
    """The cells of every table row below a header."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "paper" and set(row[0]) != {"-"}]


ROWS = rows()


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def resolve(name: str) -> object:
    """The object with a dotted name: the longest importable module, then attributes."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return found
    raise ModuleNotFoundError(name)


def test_every_statement_of_the_paper_has_its_own_row_in_the_papers_order() -> None:
    named = [row[0].strip("`") for row in ROWS if re.fullmatch(r"`\w+:[\w-]+`", row[0])]
    assert named == LABELS


@pytest.mark.parametrize("place", WITHOUT_LABEL)
def test_statements_without_a_label_have_a_row_too(place: str) -> None:
    assert [row[0] for row in ROWS].count(place) == 1


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_a_row_has_no_empty_cell_and_code_that_imports(row: list[str]) -> None:
    assert len(row) == 4
    assert all(row)
    names = quoted(row[2])
    assert names
    for name in names:
        assert name.startswith("croupier.")
        assert resolve(name) is not None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0]))
def test_a_row_names_tests_that_exist(row: list[str]) -> None:
    tests = quoted(row[3])
    assert tests
    for test in tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^def {name or 'test_'}", text, re.MULTILINE), test


def test_names_that_do_not_exist_are_noticed() -> None:
    with pytest.raises(AttributeError):
        resolve("croupier.theory.regret.no_such_bound")
    with pytest.raises(ModuleNotFoundError):
        resolve("no_such_package.module")
