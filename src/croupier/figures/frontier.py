"""``frontier``: what a privacy loss costs, in each of the three trust models."""

from __future__ import annotations

from dataclasses import replace

from croupier.figures.data import (
    EPSILON,
    Figure,
    PointPanel,
    Series,
    arms_words,
    batches_words,
    noise_words,
)
from croupier.simulation.compare import (
    BATCHED,
    BATCHED_CENTRAL,
    BATCHED_LOCAL,
    VECTOR,
    Arena,
    Entry,
    enter,
    uniform_play,
)

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
MODELS = {"central": BATCHED_CENTRAL, "shuffle": VECTOR, "local": BATCHED_LOCAL}


def frontier(arena: Arena) -> Figure:
    """Regret at the horizon against epsilon; uniform and non-private play as level lines."""
    series = tuple(_along(name, entry, arena) for name, entry in MODELS.items())
    levels = (uniform_play(arena), enter(BATCHED, arena, "non-private"))
    title = f"d = {arena.dim}, T = {arena.horizon:,}, {arms_words(arena)}, {noise_words(arena)}"
    panel = PointPanel(title, EPSILON, series, levels, log=True)
    return Figure("frontier", f"What privacy costs, {batches_words(arena)}", (panel,))


def _along(name: str, entry: Entry, arena: Arena) -> Series:
    jobs = tuple(enter(entry, replace(arena, epsilon=epsilon), name) for epsilon in EPSILONS)
    return Series(name, jobs, EPSILONS)
