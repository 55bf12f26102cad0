"""No room of ``croupier.privacy`` is left out of the mutation pass."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

MUTANTS = runpy.run_path(str(Path(__file__).parent.parent / "mutants.py"))
ROOMS = sorted(map(MUTANTS["room"], MUTANTS["PRIVACY"].rglob("[!_]*.py")))


def test_every_room_is_mutated_and_none_that_is_gone() -> None:
    assert sorted(MUTANTS["TESTS"]) == ROOMS


@pytest.mark.parametrize("room", ROOMS)
def test_the_tests_that_judge_a_room_are_there(room: str) -> None:
    missing = [name for name in MUTANTS["TESTS"][room] if not (MUTANTS["ROOT"] / name).exists()]
    assert not missing
