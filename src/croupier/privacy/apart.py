"""What releases that differ tell of a user, each by a curve of its own (PROOF 9e).

Followed together, releases share the worst of each other: the widest, the longest, whichever comes.
Curves of each, composed with those of the others, know that a wide release is there once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

import numpy as np

from croupier.privacy.journeys import covering
from croupier.privacy.pace import Pace
from croupier.privacy.several import Part, composed, gathered, worst
from croupier.privacy.shuffled_bits.binomial_tails import Floats
from croupier.privacy.shuffled_reports.loss_distribution import Losses, dominating, together
from croupier.privacy.shuffled_reports.loss_distribution import composed as repeated

FINENESS = 32
"""Cells of a curve per mu, at least: they add less than 1e-4 to it."""
HIGHEST = 13.0
"""Levels up to which curves are tabled: beyond are chances below 1e-37."""
LARGEST_MU = 16.0
"""Of all releases, so that exp(epsilon) is a number everywhere."""
MOST_KINDS = 32
"""Releases whose curves are tabled: they take some hundredths of a second each."""


def _length(part: Part) -> float:
    return part.leg.length


def _mu(part: Part) -> float:
    return part.mu


ORDERS = (_length, _mu)
"""Which releases are the worst, near the median and deep down."""


@dataclass(frozen=True)
class Smallest:
    """Losses that all bound the same releases."""

    losses: tuple[Losses, ...]

    def delta(self, epsilon: float) -> float:
        """The smallest of their deltas."""
        return min(losses.delta(epsilon) for losses in self.losses)


def apart(
    parts: Sequence[tuple[Part, int]], tau: float, number: int | None = None
) -> Smallest | None:
    """The losses of a user in these releases, as ``composed`` has their pace.

    None where they are not known, or known to be no better.
    """
    kinds = gathered(parts)
    every = sum(times for _, times in kinds)
    number = number or every
    mu = max(part.mu for part, _ in kinds) * math.sqrt(number)
    coarse = any(part.shows for part, _ in kinds)
    if not (coarse and 1 < len(kinds) <= MOST_KINDS and mu < LARGEST_MU):
        return None
    orders = ORDERS if number < every else ORDERS[:1]
    found = [_placed(covering(kinds, number, order, worst), tau) for order in orders]
    return Smallest(tuple(filter(None, found))) if any(found) else None


def _placed(places: Sequence[tuple[Part, int]], tau: float) -> Losses | None:
    """The losses of all places."""
    return reduce(_both, (_block(part, times, tau) for part, times in gathered(places)))


def _both(first: Losses | None, second: Losses | None) -> Losses | None:
    return together(first, second) if first and second else None


def _block(part: Part, times: int, tau: float) -> Losses | None:
    """So many releases of one kind, or whichever may come in its place.

    Several of them are followed together as well; the better of both counts at every epsilon.
    """
    grid = fitting(part.mu)
    once = grid.losses(np.maximum.reduce([_table(grid, pace) for pace in part.paces]))
    if once is None or times == 1:
        return once
    journey = composed([(part, times)], tau)
    wider = fitting(journey.mu)
    both = wider.tabled(repeated(once, times).delta), _table(wider, journey)
    return wider.losses(np.minimum(*both))


@dataclass(frozen=True)
class Grid:
    """Epsilons at which curves are tabled, for a mu from ``unit`` to twice as much."""

    unit: float

    @property
    def step(self) -> float:
        """From one epsilon to the next, a power of two: a coarser grid is part of a finer one."""
        return self.unit / FINENESS

    def tabled(self, delta: Callable[[float], float]) -> Floats:
        """A curve, from 0 on as far as it matters."""
        cells = math.ceil(2 * FINENESS * (HIGHEST + self.unit))
        return np.array([delta(cell * self.step) for cell in range(cells + 1)])

    def losses(self, table: Floats) -> Losses | None:
        """The losses of a pair that is no better than this table."""
        return dominating(table, self.step)


def fitting(mu: float) -> Grid:
    """The grid for ``mu``."""
    return Grid(2.0 ** math.floor(math.log2(mu)))


@lru_cache(maxsize=256)
def _table(grid: Grid, pace: Pace) -> Floats:
    return grid.tabled(pace.delta)
