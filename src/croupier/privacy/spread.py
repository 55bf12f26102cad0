"""Tails where the moves are: labels that hardly move get small ones (PROOF 4a).

Every label may fall into a tail of its own, and which tails are small may depend on the inputs.
Where a user moves far, one label that moves all the way is the worst; then it may have nearly all
of the tails, and its window need not be as deep as if each of thousands of labels had the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from croupier.errors import GuaranteeError
from croupier.privacy.shuffled_bits.binomial_tails import Floats, binomial, log_upper_tails
from croupier.privacy.shuffled_bits.quantile_slope import (
    LARGEST_TAIL,
    Slope,
    fast_slope,
    general_slope,
)

LENGTHS = np.array([1.0, 0.9, 0.75, 0.55, 0.35, 0.2, 0.1, 0.05, 0.02])
"""Where moves are cut into pieces by their length: more finely where one label moves it all."""
EVEN = 0.1
"""The share of all tails that labels have alike, so that those at rest have some."""
MOST_COINS = 20_000
"""For which the general form is asked, near the ends of the support: beyond it takes too long."""


@dataclass(frozen=True)
class Spread:
    """Labels that move by between ``low`` and ``high`` steps, longest first, and their slopes."""

    low: Floats
    high: Floats
    slopes: tuple[Slope, ...]

    @property
    def steepest(self) -> float:
        """The largest slope of any label."""
        return max(one.slope for one in self.slopes)

    def mu(self, labels: int) -> float:
        """The mu of all labels, however the way is shared by them.

        Of those that move far the largest square per square of a step counts; whatever a label
        that moves less has beyond that, every label may have.
        """
        parts = range(1, len(self.slopes))
        squares = [self._rate(n) * self.high[0] ** 2 + labels * self._beyond(n) for n in parts]
        return math.sqrt(min(squares)) * (1 + 1e-14)

    def _rate(self, far: int) -> float:
        """The largest square of a mu per square of a step, of the ``far`` first pieces."""
        slope, deviation, near = (part[:far] for part in self._parts)
        return float((slope + np.minimum(near, deviation / self.low[:far])).max() ** 2)

    def _beyond(self, far: int) -> float:
        """The most that the square of a mu has beyond that rate on one of the other pieces."""
        rate = self._rate(far)
        slope, deviation, near = (part[far:] for part in self._parts)
        first = np.maximum(self.low[far:], deviation / near)
        last = np.maximum(self.high[far:], first)
        less = rate - slope**2
        with np.errstate(divide="ignore"):
            best = np.where(less > 0, slope * deviation / less, math.inf)
        moved = np.clip(best, first, last)
        return max(0.0, float(((slope * moved + deviation) ** 2 - rate * moved**2).max()))

    @property
    def _parts(self) -> tuple[Floats, Floats, Floats]:
        """The three numbers of every slope."""
        slope = np.array([one.slope for one in self.slopes])
        deviation = np.array([one.deviation for one in self.slopes])
        return slope, deviation, np.array([one.near for one in self.slopes])


def find_spread(coins: int, distance: float, labels: int, tau: float) -> Spread | None:
    """Labels of fair coins, all tails together as if each were ``tau``.

    None where the window of one of them leaves the support, or is not known.
    """
    high = distance * LENGTHS
    low = np.append(high[1:], 0.0)
    tails = _tails(low / distance, labels, tau)
    if tails.max() >= LARGEST_TAIL:
        return None
    pairs = zip(high.tolist(), tails.tolist(), strict=True)
    try:
        return Spread(low, high, tuple(_slope(coins, moved, tail) for moved, tail in pairs))
    except GuaranteeError:
        return None


def _tails(parts: Floats, labels: int, tau: float) -> Floats:
    """The tails of labels that move by these parts of the way."""
    return np.asarray(-np.expm1(math.log1p(-tau) * (EVEN + (1 - EVEN) * labels * parts**2)))


def _slope(coins: int, moved: float, tail: float) -> Slope:
    """The slope of labels that move by up to so many steps, by either form."""
    found = fast_slope(coins, math.ceil(moved), tail)
    if found is None and coins > MOST_COINS:
        raise GuaranteeError(f"the general form takes too long for {coins} coins")
    return found or general_slope(coins, 0.5, math.ceil(moved), tail)


def deepest_tail(coins: int, distance: float, labels: int) -> float:
    """Of each label, near the least with which those that move all the way have a window."""
    last = coins - 1 - math.ceil(distance)
    if last < coins // 2:
        return LARGEST_TAIL
    needed = math.exp(float(log_upper_tails(binomial(coins, 0.5), last, last)[0]))
    # Half of it goes to the release as a whole, and it may be rounded; few labels need no spread.
    spread = 2.4 / (EVEN + (1 - EVEN) * labels * float(LENGTHS[1]) ** 2)
    return needed * min(1.01, spread)


def rounded(tau: float) -> float:
    """A tail that is hardly smaller and serves many: windows are found once for all of them."""
    return float(2 ** (math.floor(4 * math.log2(tau)) / 4))
