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
from croupier.simulation.problem import Problem
from croupier.simulation.synthetic import Drifting, Seasonal

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
    problems: dict[str, tuple[Problem, float]] = {
        f"a walk of {FAST:g} a user": (Drifting(arena.dim, arena.arms, FAST), FAST),
        f"a walk of {SLOW:g} a user": (Drifting(arena.dim, arena.arms, SLOW), SLOW),
        f"seasons of {arena.horizon // PERIODS:,} users": (
            Seasonal(arena.dim, arena.arms, arena.horizon // PERIODS),
            TURN,
        ),
    }
    panels = tuple(_panel(title, arena, *of) for title, of in problems.items())
    setting = f"d = {arena.dim}, {arms_words(arena)}, {epsilon_words(arena)}, {noise_words(arena)}"
    return Figure("drift", f"Preferences that move, {setting}", panels)


def _panel(title: str, arena: Arena, problem: Problem, moved: float) -> CurvePanel:
    jobs = [
        _job(f"{name}, {words}", replace(arena, drift=moved if told else 0.0), problem, name)
        for name in MODELS
        for told, words in DECLARED.items()
    ]
    return CurvePanel(title, tuple(jobs), log=True)


def _job(label: str, arena: Arena, problem: Problem, model: str) -> SweepJob:
    return replace(enter(MODELS[model], arena, f"{label}, {problem.name}"), problem=problem)
