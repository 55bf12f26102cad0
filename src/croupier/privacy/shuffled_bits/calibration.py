"""How few bits per label meet a budget (MATH 4): the search behind ``certified``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import fraction, positive, whole
from croupier.errors import GuaranteeError
from croupier.privacy.budget import Budget
from croupier.privacy.gdp import mu_of
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve

GRID_POWER = 16
GRID_UNITS = 1 << GRID_POWER
"""A grid is a multiple of 2**-16, so that a device can round with integers."""
MOST_COINS = 2**40
"""Coins per label up to which a search goes on; a certificate then takes a fifth of a second."""

LOOK_BACK = 4


@dataclass(frozen=True)
class BatchSum:
    """What a batch sum must hide: a swap of ``sensitivity`` in ``labels`` sums over ``users``.

    Only ``honest_fraction`` of the users add coins that protect; one user is in
    ``participations`` such batches. Where batches differ each holds the budget with as many of
    itself, so that any of them together do: squares of mu add up.
    """

    users: int
    honest_fraction: float
    sensitivity: float
    labels: int
    participations: int = 1

    def __post_init__(self) -> None:
        """Refuse a batch that nobody protects."""
        whole("users", self.users, 1)
        fraction("honest_fraction", self.honest_fraction)
        positive("sensitivity", self.sensitivity)
        whole("labels", self.labels, 1)
        whole("participations", self.participations, 1)
        if self.honest_users < 1:
            raise GuaranteeError(
                f"at least 1 honest user is needed, {self.users} users at honest_fraction "
                f"{self.honest_fraction!r} have 0"
            )

    @property
    def honest_users(self) -> int:
        """Users whose coins count."""
        return math.floor(self.honest_fraction * self.users)

    @property
    def most_noise_bits(self) -> int:
        """Noise bits per user and label that a search may reach."""
        return MOST_COINS // self.honest_users

    def floor(self, budget: Budget) -> float:
        """The standard deviation that Gaussian noise of all users would need on a batch sum."""
        honest = self.honest_users / self.users
        mu = mu_of(budget.epsilon, budget.delta)
        return math.sqrt(self.participations / honest) * self.sensitivity / mu

    def curve(self, grid: float, noise_bits: int) -> BinomialCurve:
        """What ``noise_bits`` fair coins per user and label prove at ``grid`` steps per unit."""
        distance = math.nextafter(grid * self.sensitivity, math.inf)
        release = CountRelease(self.honest_users * noise_bits, 0.5, distance, self.labels)
        return BinomialCurve(((release, self.participations),))

    def meets(self, budget: Budget, grid: float, noise_bits: int) -> bool:
        """Whether those coins prove the budget."""
        return self.curve(grid, noise_bits).holds(budget.epsilon, budget.delta)

    def confirms(self, budget: Budget, grid: float, noise_bits: int) -> bool:
        """The same, asked through the curve's smallest delta as everybody else will ask."""
        return self.curve(grid, noise_bits).delta(budget.epsilon) <= budget.delta

    def fewest_thinkable(self, overhead: float) -> int:
        """Noise bits below which rounding alone takes more than the overhead: a start."""
        return math.ceil(min(max(1, 1 / (overhead * (2 + overhead))), self.most_noise_bits))

    def coarsest_grid(self, budget: Budget, noise_bits: int, overhead: float) -> float:
        """The grid at which coins and worst-case rounding use up the overhead."""
        spread = math.sqrt(self.users * (noise_bits + 1)) / 2
        exact = spread / ((1 + overhead) * self.floor(budget))
        return math.ceil(exact * GRID_UNITS) / GRID_UNITS


def fewest_bits(
    budget: Budget,
    *,
    users: int,
    honest_fraction: float,
    sensitivity: float,
    ranges: Sequence[float] | NDArray[np.float64],
    participations: int,
    overhead: float,
) -> tuple[float, int]:
    """The grid and noise bits that need the fewest bits per report within an overhead (MATH 4).

    ``ranges`` has high - low of every label. The noise of a batch sum, worst-case rounding
    included, is at most ``1 + overhead`` times the Gaussian floor. At the coarsest grid that
    this allows, signal and noise bits both grow with the noise bits, so the fewest noise bits
    that are proved are the fewest bits.
    """
    positive("overhead", overhead)
    batch = BatchSum(users, honest_fraction, sensitivity, len(ranges), participations)

    def grid(noise_bits: int) -> float:
        return batch.coarsest_grid(budget, noise_bits, overhead)

    start = batch.fewest_thinkable(overhead)
    found = fewest(start, batch.most_noise_bits, lambda bits: batch.meets(budget, grid(bits), bits))
    while not batch.confirms(budget, grid(found), found):
        found += 1
    return grid(found), found


def least_noise_bits(
    budget: Budget,
    *,
    grid: float,
    users: int,
    honest_fraction: float,
    sensitivity: float,
    labels: int,
    participations: int,
) -> int:
    """The fewest noise bits that prove the budget at a given grid (MATH 4)."""
    batch = BatchSum(users, honest_fraction, sensitivity, labels, participations)
    needed = 2 * positive("grid", grid) * batch.floor(budget)
    start = max(1, math.ceil(needed * needed / users))
    found = fewest(start, batch.most_noise_bits, lambda bits: batch.meets(budget, grid, bits))
    while not batch.confirms(budget, grid, found):
        found += 1
    return found


def fewest(start: int, most: int, enough: Callable[[int], bool]) -> int:
    """The smallest number that is enough, looked for ever further away from ``start``."""
    known = cache(enough)
    low, high = _bracket(start, most, known)
    while high - low > 1:
        middle = (low + high) // 2
        if known(middle):
            high = middle
        else:
            low = middle
    return _lowered(high, known)


def _lowered(found: int, enough: Callable[[int], bool]) -> int:
    """Distances are rounded up to whole steps, so a few numbers below one that fails may do."""
    while fewer := [n for n in range(max(1, found - LOOK_BACK), found) if enough(n)]:
        found = fewer[0]
    return found


def _bracket(start: int, most: int, enough: Callable[[int], bool]) -> tuple[int, int]:
    """A number that is not enough (or 0) and a larger one that is."""
    if start <= most and enough(start):
        return _below(start, enough)
    return _above(start, most, enough)


def _below(high: int, enough: Callable[[int], bool]) -> tuple[int, int]:
    step, low = 1, high - 1
    while low > 0 and enough(low):
        low, high, step = max(0, low - 2 * step), low, 2 * step
    return low, high


def _above(low: int, most: int, enough: Callable[[int], bool]) -> tuple[int, int]:
    step, high = 1, low + 1
    while high <= most:
        if enough(high):
            return low, high
        low, high, step = high, high + 2 * step, 2 * step
    raise GuaranteeError(f"{high} noise bits per label would be tried next, the most are {most}")
