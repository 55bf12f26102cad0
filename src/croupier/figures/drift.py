"""``drift``: preferences that move, and what it is worth to forget."""

from __future__ import annotations

from dataclasses import replace

from croupier.figures.data import (
    CurvePanel,
    Figure,
    arms_words,
    epsilon_words,
    noise_words,
)
from croupier.simulation.compare import BATCHED, VECTOR, Arena, enter
from croupier.simulation.jobs import SweepJob
from croupier.simulation.moving import Drifting, Seasonal
from croupier.simulation.problem import Problem

FAST, SLOW = 1e-3, 3e-4
"""How far theta moves per user and coordinate."""

PERIODS = 2
"""Seasons within the horizon."""

TURN = 1e-3
"""What is declared for seasons: a turn that is taken for a walk."""

MODELS = {"shuffle": VECTOR, "non-private": BATCHED}
DECLARED = {True: "drift declared", False: "nothing forgotten"}


def drift(arena: Arena) -> Figure:
    """Regret of plans that forget and of those that do not, on walks and on seasons."""
    period = arena.horizon // PERIODS
    problems: dict[str, tuple[Problem, float]] = {
        f"a walk of {FAST:g}": (Drifting(arena.dim, arena.arms, FAST), FAST),
        f"a walk of {SLOW:g}": (Drifting(arena.dim, arena.arms, SLOW), SLOW),
        f"seasons of {period:,} users": (Seasonal(arena.dim, arena.arms, period), TURN),
    }
    panels = tuple(_panel(title, arena, *of) for title, of in problems.items())
    setting = f"d = {arena.dim}, {arms_words(arena)}, {epsilon_words(arena)}, {noise_words(arena)}"
    return Figure("drift", f"Preferences that move, {setting}", panels)


def _panel(title: str, arena: Arena, problem: Problem, moved: float) -> CurvePanel:
    """Labels name the problem, because plans of two panels may be the same."""
    jobs = [
        _job(f"{name}, {words}, {title}", replace(arena, drift=moved if told else 0.0), name)
        for name in MODELS
        for told, words in DECLARED.items()
    ]
    return CurvePanel(title, tuple(replace(job, problem=problem) for job in jobs), log=True)


def _job(label: str, arena: Arena, model: str) -> SweepJob:
    return enter(MODELS[model], arena, label)
