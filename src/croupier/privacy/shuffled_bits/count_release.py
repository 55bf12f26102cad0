"""One release of shuffled bits, as counts: by how much they move with a user (MATH 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from croupier.arguments import positive, whole
from croupier.privacy.journeys import leg_of
from croupier.privacy.moves import Move
from croupier.privacy.pace import Pace, steady
from croupier.privacy.rounding import find_rising, least_step
from croupier.privacy.several import Part, gaussian
from croupier.privacy.shuffled_bits.quantile_slope import Slope, find_slope, find_window
from croupier.privacy.single import rounded_pace, spread_mu

COINS_TO_ROUND = 500
"""Coins from which the second certificate is asked; with fewer the numbers of MATH 4 stand."""
ROUNDING_SHARE = 0.01
"""What is added to the mu of the slope at the centre before the second certificate is asked, and
at least with it."""
FAR = 4.0
"""The mu, and an epsilon above 20, from which on tails are put where moves are, and larger ones
are tried; with that it is at least this."""


@dataclass(frozen=True)
class CountRelease:
    """One release of ``labels`` counts that hides inputs at most ``distance`` steps apart.

    ``coins`` are the honest fresh coins per label, ``bias`` their probability of a one,
    ``distance`` the Euclidean swap distance in steps, rounded up, and ``reports`` the number of
    reports of one user that the release contains (MATH 4, "Several releases"). Only what is
    ``followed`` may be asked for more than MATH 4.
    """

    coins: int
    bias: float
    distance: float
    labels: int
    reports: int = 1
    followed: bool = True

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

    def fits(self, tau: float) -> bool:
        """Whether anything can be certified with tails of ``tau``."""
        if not self.coins:
            return False
        return find_window(self.coins, self.bias, tau).fits(self.coins, self.shift)

    def mu(self, tau: float) -> float:
        """The Gaussian-DP parameter outside tails of ``tau``; infinite where nothing holds."""
        return self.pace(tau).mu

    def pace(self, tau: float) -> Pace:
        """The same level by level.

        Of one report: MATH 4, and where rounding shows in it the second certificate (PROOF 8).
        That one goes down to what is ``shown`` and no further, so that fine grids keep the
        numbers of MATH 4 and mu has no jump where the two meet.
        """
        plain = self.plain(tau)
        if not self.follows or plain <= self.shown:
            return steady(plain)
        pace = self._rounded(tau, plain)
        return pace if pace.mu <= FAR else replace(pace, mu=min(pace.mu, self.far_mu(tau)))

    def _rounded(self, tau: float, plain: float) -> Pace:
        if math.isinf(plain):
            return steady(plain)
        known = rounded_pace(self.coins, self.distance, self.labels, tau, plain)
        return known.at_least(self.shown)

    def far_mu(self, tau: float) -> float:
        """The mu of far moves, where rounding is next to nothing; at least ``FAR`` if not plain.

        Labels that move far have larger tails, so it may be there where MATH 4 says nothing.
        """
        plain, shown = self.plain(tau), self.shown
        if plain <= shown:
            return plain
        spread = spread_mu(self.coins, self.distance, self.labels, tau, plain)
        return min(plain, max(FAR, shown, spread))

    @property
    def follows(self) -> bool:
        """Whether the second certificate may be asked."""
        once = self.followed and self.reports == 1
        return once and self.bias == 0.5 and self.coins >= COINS_TO_ROUND

    @property
    def far(self) -> bool:
        """Whether a user moves so far in it that nothing is certified below that."""
        return self.follows and self.shown > FAR

    @property
    def rises(self) -> bool:
        """Whether it is followed by a slope that rises as well, as if it were one of several.

        On the coarsest grids windows are deeper than where tests decide, whatever moves.
        """
        return self.distance < 1

    def plain(self, tau: float) -> float:
        """The mu of MATH 4; infinite where its window leaves the support."""
        if not self.fits(tau):
            return math.inf
        slope = self._slope(tau)
        if self.reports == 1:
            return slope.mu(self.distance, self.labels)
        return slope.slope * self.reach * (1 + 1e-14)

    @property
    def shown(self) -> float:
        """The mu from which on rounding, or a slope that rises with the level, shows in it."""
        return (1 + ROUNDING_SHARE) * least_step(self.coins) * self.distance

    def _slope(self, tau: float) -> Slope:
        return find_slope(self.coins, self.bias, self.shift, tau)

    def part(self, tau: float) -> Part:
        """The release as one of several; where rounding is followed half of each tail is its."""
        pace = self.pace(tau)
        if math.isinf(pace.mu):
            return gaussian(pace.mu, pace.mu)
        rounding = find_rising(self.coins, self.shift, tau / 2) if self.follows else None
        if rounding is None:
            return gaussian(pace.mu, self.mu(tau / 2))
        move = Move(rounding, self.distance, self.labels)
        plain, shown = self.plain(tau), self.shown
        return Part((pace,), plain, min(plain, shown), leg_of(move), shows=plain > shown)
