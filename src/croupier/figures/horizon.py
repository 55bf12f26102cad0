"""``horizon``: how regret grows with the number of users, beside the rates of theory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from croupier.arguments import whole
from croupier.figures.data import (
    Figure,
    PointPanel,
    Rate,
    Series,
    arms_words,
    epsilon_words,
    noise_words,
)
from croupier.policies.ucb import Ucb
from croupier.privacy.budget import Budget
from croupier.schedules import FixedBatches
from croupier.simulation.compare import BATCHED_CENTRAL, VECTOR, Arena, Entry, enter
from croupier.theory.batch_sizes import vector_sum_for_utility
from croupier.theory.trees import best_batch_size, regret_exponent

SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Of the largest horizon."""

LEAST_HORIZON = 10_000
"""A hundredth of it still has batches enough for a tree."""

LEVELS = 3
TREE = Entry("tree", "concurrent-tree", levels=LEVELS)

RATES = (
    Rate("fresh noise", float(regret_exponent(1))),
    Rate(f"tree of {LEVELS} levels", float(regret_exponent(LEVELS))),
    Rate("central", 0.5),
)


def horizon(arena: Arena) -> Figure:
    """Regret at T against T up to the arena's horizon, with fitted slopes."""
    whole("horizon", arena.horizon, LEAST_HORIZON)
    series = (
        _along("paper's batches, ucb", VECTOR, arena, _papers),
        _along("default", VECTOR, arena, _default),
        _along(f"tree of {LEVELS} levels", TREE, arena, _tree),
        _along("central", BATCHED_CENTRAL, arena, _default),
    )
    title = f"d = {arena.dim}, {arms_words(arena)}, {noise_words(arena)}"
    panel = PointPanel(title, "users T", series, rates=RATES, log=True)
    heading = f"Regret against the number of users, {epsilon_words(arena)}"
    return Figure("horizon", heading, (panel,))


def _along(name: str, entry: Entry, arena: Arena, fitted: Callable[[Arena], Arena]) -> Series:
    horizons = tuple(round(arena.horizon * share) for share in SHARES)
    arenas = (fitted(replace(arena, horizon=rounds)) for rounds in horizons)
    return Series(name, tuple(enter(entry, one, name) for one in arenas), horizons)


def _papers(arena: Arena) -> Arena:
    """Algorithm 1 with the batches that the paper's corollary chooses for T^(3/5)."""
    budget = Budget(arena.epsilon, arena.delta)
    size = vector_sum_for_utility(arena.horizon, arena.dim, budget).batch_size
    return replace(arena, policy=Ucb.name, batches=FixedBatches.name, batch_size=size)


def _default(arena: Arena) -> Arena:
    return arena


def _tree(arena: Arena) -> Arena:
    """Batches that balance waiting for them against the noise of that many."""
    size = round(best_batch_size(arena.horizon, LEVELS))
    return replace(arena, batches=FixedBatches.name, batch_size=size)
