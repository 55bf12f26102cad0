"""One release of shuffled bits, as counts: how private it is outside of tails (MATH 4).

Step 4 of the proof: one label's slope becomes the mu of all labels; steps 5 and 8: several reports
of one user in a release, and coins of bias 1/4 seen as fair ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from croupier.arguments import positive, whole
from croupier.privacy.shuffled_bits.quantile_slope import find_slope, find_window

MOST_UNFAIR = 3 * 10**9
"""Coins of bias 1/4 that the general form looks at; beyond, half of them count as fair."""

MOST_SURE = 10**12
"""Of these, used; any coins beyond are post-processing, and their tails would take long."""


@dataclass(frozen=True)
class CountRelease:
    """One release of ``labels`` counts that hides inputs at most ``distance`` steps apart.

    ``coins`` are the honest fresh coins per label, ``bias`` their probability of a one,
    ``distance`` the Euclidean swap distance in steps, rounded up, and ``reports`` the number of
    reports of one user that the release contains (MATH 4, "Several releases").
    """

    coins: int
    bias: float
    distance: float
    labels: int
    reports: int = 1

    def __post_init__(self) -> None:
        """Refuse a release that is none."""
        whole("coins", self.coins, 0)
        positive("bias", self.bias)
        positive("distance", self.distance)
        whole("labels", self.labels, 1)
        whole("reports", self.reports, 1)

    @property
    def reach(self) -> float:
        """By how much the counts move; several reports add up linearly, roundings included."""
        if self.reports == 1:
            return self.distance
        moved = self.reports * (self.distance + math.sqrt(self.labels))
        return moved * (1 + 1e-15)

    @property
    def shift(self) -> int:
        """The reach in whole steps, K."""
        return math.ceil(self.reach)

    @property
    def halved(self) -> bool:
        """Whether the coins are looked at as half as many fair ones (PROOF 8)."""
        return self.bias == 0.25 and self.coins > MOST_UNFAIR

    @property
    def tails(self) -> int:
        """Events of probability tau that ``mu(tau)`` leaves out: one a count, two if halved."""
        return self.labels * (2 if self.halved else 1)

    def fits(self, tau: float) -> bool:
        """Whether anything can be certified with tails of ``tau``."""
        if not self.coins:
            return False
        return find_window(self.coins, self.bias, tau).fits(self.coins, self.shift)

    def mu(self, tau: float) -> float:
        """The Gaussian-DP parameter outside tails of ``tau``; infinite where nothing holds."""
        if self.halved:
            return replace(self, coins=sure_coins(self.coins, tau), bias=0.5).mu(tau)
        if not self.fits(tau):
            return math.inf
        slope = find_slope(self.coins, self.bias, self.shift, tau)
        if self.reports == 1:
            return slope.mu(self.distance, self.labels)
        return slope.slope * self.reach * (1 + 1e-14)


def sure_coins(coins: int, tau: float) -> int:
    """How many of so many fair first draws are ones, but for a chance of ``tau`` (Hoeffding).

    A coin of bias 1/4 is a one if two fair draws are. Given the first draws it is fair where the
    first was a one, and no coin elsewhere (PROOF 8).
    """
    missing = math.sqrt(2 * math.log(1 / tau)) * math.sqrt(coins) / 2
    return max(0, min(coins // 2 - math.ceil(missing * (1 + 1e-12)) - 1, MOST_SURE))
