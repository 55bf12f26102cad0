"""How fast tests move that see all releases of one user, level by level (PROOF 9)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from croupier.privacy.levels import Levels
from croupier.privacy.moves import Move
from croupier.privacy.shares import any_shares, equal_shares
from croupier.privacy.skewness import skewed
from croupier.privacy.tails import Floats
from croupier.privacy.told import Told

RATES = 6 * 1.5 ** np.arange(10)[:, None]
"""Exponents of moments, kappa b; the best counts."""
LARGEST_TILT = 0.45
"""Of kappa e, below 1/2, so that all moments are finite."""


@dataclass(frozen=True)
class Leg:
    """One release of a user: by how much it can move a test.

    ``length`` is b, ``widening`` e0 and ``widenings`` E^2, ``skew`` y and ``skews`` its square
    times n, over ``labels`` counts, ``edge`` L. A release with Gaussian DP has a length only.
    """

    length: float
    widening: float = 0.0
    widenings: float = 0.0
    skew: float = 0.0
    skews: float = 0.0
    labels: int = 0
    edge: float = math.inf


def leg_of(move: Move) -> Leg:
    """The leg of a release whose rounding is followed."""
    widened, skewed = (move.widening, move.widenings), (move.skew, move.skews)
    return Leg(move.length, *widened, *skewed, move.labels, move.rounding.edge)


def longest(legs: Sequence[Leg]) -> Leg:
    """What holds of all of these legs."""
    names = ("length", "widening", "widenings", "skew", "skews", "labels")
    most = {name: max(getattr(leg, name) for leg in legs) for name in names}
    return Leg(**most, edge=min(leg.edge for leg in legs))


@dataclass(frozen=True)
class Journey:
    """A user in at most ``number`` releases, in each of these at most so many times."""

    legs: tuple[tuple[Leg, int], ...]
    number: int

    @property
    def length(self) -> float:
        """b: how far the means of all releases move."""
        return math.sqrt(self._largest("length", 2))

    @property
    def widening(self) -> float:
        """e: the largest widening of a label."""
        return max(leg.widening for leg, _ in self.legs)

    @property
    def rest(self) -> float:
        """The squares of all widenings but that one's."""
        return max(0.0, self._largest("widenings") - self.widening**2)

    @property
    def labels(self) -> int:
        """Counts whose rounding is followed."""
        return int(self._largest("labels"))

    @property
    def shares(self) -> float:
        """All squares of lengths in units of the smallest that may be among them."""
        shortest = ranked([(leg.length, times) for leg, times in self.legs], self.number)[-1][0]
        return (self.length / shortest) ** 2

    def speeds(self, levels: Levels) -> Floats:
        """The largest speed of a normal quantile on each piece of levels."""
        return self._widened(levels) + self._skew(levels)

    def _widened(self, levels: Levels) -> Floats:
        """The means' length, and what changed variances add to it, by the best rate.

        Near the median tests that are not told where the way ends bound it better.
        """
        low, high = levels.cuts[:-1], levels.cuts[1:]
        rates = np.minimum(np.maximum(RATES, high), LARGEST_TILT * self.length / self.widening)
        told = Told(self.length, self.widening, self.rest, rates, (low + high) / 2)
        same = len(self.legs) == 1
        shares = equal_shares(self.number) if same else any_shares(self.shares)
        both = [lines.highest(low, high) for lines in (told.lines(shares), told.untold(shares))]
        return np.asarray(np.minimum(*both).min(axis=0))

    def _skew(self, levels: Levels) -> Floats:
        """What the skewness of rounding adds, as if all releases shared the worst of each."""
        most = max(leg.skew for leg, _ in self.legs)
        edge = min(leg.edge for leg, _ in self.legs)
        return most * skewed(levels, self.labels, self._largest("skews") / most**2, edge)

    def _largest(self, name: str, power: int = 1) -> float:
        """The sum over those releases in which it is largest."""
        values = [(getattr(leg, name) ** power, times) for leg, times in self.legs]
        return largest(values, self.number)


def largest(values: Sequence[tuple[float, int]], number: int) -> float:
    """The sum of the ``number`` largest of values, each of which is there so many times."""
    return math.fsum(value * times for value, times in ranked(values, number))


def ranked(values: Sequence[tuple[float, int]], number: int) -> list[tuple[float, int]]:
    """The ``number`` largest, from the largest on."""
    kept = []
    for value, times in sorted(values, reverse=True):
        if number > 0:
            kept.append((value, min(times, number)))
        number -= times
    return kept
