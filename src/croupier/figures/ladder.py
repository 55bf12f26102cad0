"""``ladder``: what each ingredient buys between the paper's constants and the default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from croupier.figures.data import DELTA, DotPanel, Figure, Row, arms_words, epsilon_words
from croupier.simulation.compare import (
    BATCHED_CENTRAL,
    LINUCB,
    VECTOR,
    Arena,
    Entry,
    enter,
    uniform_play,
)

SETTINGS = {"sphere": 100, "contextual": 20}
"""Arms of the problems: one common set, and fresh sets in every round (MATH 6.5)."""

UCB_FIXED = {"policy": "ucb", "batches": "fixed"}
SAMPLING_FIXED = {"policy": "sampling", "batches": "fixed"}
DEFAULT = {"policy": "sampling", "batches": "growing"}

RUNGS: dict[str, tuple[Entry, dict[str, Any]]] = {
    "theorem's constants": (VECTOR, {**UCB_FIXED, "calibration": "theorem"}),
    "certified noise": (VECTOR, UCB_FIXED),
    "+ growing batches": (VECTOR, {**UCB_FIXED, "batches": "growing"}),
    "+ sampling": (VECTOR, SAMPLING_FIXED),
    "+ both, no constant declared": (VECTOR, {**DEFAULT, "declared": False}),
    "+ both: the default": (VECTOR, DEFAULT),
    "central, the same batches": (BATCHED_CENTRAL, DEFAULT),
    "non-private, sampling, B = 1": (LINUCB, SAMPLING_FIXED),
}


def ladder(arena: Arena) -> Figure:
    """Regret at the horizon, rung by rung, on a common arm set and on fresh ones."""
    panels = tuple(
        _panel(replace(arena, problem=name, arms=arms)) for name, arms in SETTINGS.items()
    )
    budget = f"{epsilon_words(arena)}, {DELTA} = {arena.delta:g}"
    setting = f"d = {arena.dim}, T = {arena.horizon:,}, {budget}"
    return Figure("ladder", f"What each step buys: {setting}", panels)


def _panel(arena: Arena) -> DotPanel:
    return DotPanel(arms_words(arena), tuple(_rows(arena)))


def _rows(arena: Arena) -> Iterator[Row]:
    """Labels name the problem, because both panels have the same plans."""
    yield Row("uniform play", uniform_play(arena, f"uniform play, {arena.problem}"))
    for name, (entry, changes) in RUNGS.items():
        setting = replace(arena, **changes)
        yield Row(name, enter(entry, setting, f"{name}, {arena.problem}"))
