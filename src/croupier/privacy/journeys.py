"""How fast tests move that see all releases of one user, level by level (PROOF 9)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from croupier.privacy.groups import Groups, Kind, apart, pulls, together
from croupier.privacy.levels import Levels
from croupier.privacy.moves import Move
from croupier.privacy.shuffled_bits.binomial_tails import Floats
from croupier.privacy.skewness import skewed
from croupier.privacy.told import Told

Value = TypeVar("Value")
RATES = 6 * 1.5 ** np.arange(10)[:, None]
"""Exponents of moments, kappa b; the best counts."""
LARGEST_TILT = 0.35
"""Of kappa e, so that kappa e~ is below 1/2 and all moments are finite."""
MOST_APART = 24
"""Kinds of releases that tests are told about each for itself."""


@dataclass(frozen=True)
class Leg:
    """One release of a user: by how much it can move a test.

    ``length`` is b, ``widening`` e0 and ``widenings`` E^2, ``skew`` y and ``skews`` q, over
    ``labels`` counts. ``edge`` is L, which may be put off up to ``farthest``. A release with
    Gaussian DP has a length only.
    """

    length: float
    widening: float = 0.0
    widenings: float = 0.0
    skew: float = 0.0
    skews: float = 0.0
    labels: int = 0
    edge: float = 0.0
    farthest: float = math.inf


def leg_of(move: Move) -> Leg:
    """The leg of a release whose rounding is followed."""
    widened, skewed = (move.widening, move.widenings), (move.skew, move.skews)
    edges = move.rounding.edge, move.rounding.farthest
    return Leg(move.length, *widened, *skewed, move.labels, *edges)


def longest(legs: Sequence[Leg]) -> Leg:
    """What holds of all of these legs."""
    names = ("length", "widening", "widenings", "skew", "skews", "labels", "edge")
    most = {name: max(getattr(leg, name) for leg in legs) for name in names}
    return Leg(**most, farthest=min(leg.farthest for leg in legs))


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
    def labels(self) -> int:
        """Counts whose rounding is followed."""
        return int(self._largest("labels"))

    @property
    def edge(self) -> float:
        """L of all legs; infinite if one of them cannot put off its own so far."""
        edge = max(leg.edge for leg, _ in self.legs)
        return edge if all(edge < leg.farthest for leg, _ in self.legs) else math.inf

    @cached_property
    def places(self) -> list[tuple[Leg, int]]:
        """The longest legs: whichever releases it is, each finds a place that is no shorter."""
        return covering(self.legs, self.number, lambda leg: leg.length, longest)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The places as shares of the way."""
        whole = self.length**2
        return tuple(Kind(leg.length**2 / whole, n, leg.widening) for leg, n in self.places)

    @property
    def widenings(self) -> float:
        """E^2 of all places."""
        return math.fsum(leg.widenings * times for leg, times in self.places)

    def speeds(self, levels: Levels) -> Floats:
        """The largest speed of a normal quantile on each piece of levels."""
        return self._widened(levels) + self._skew(levels)

    def _widened(self, levels: Levels) -> Floats:
        """The means' length, and what changed variances add to it, by the best bound."""
        bounds = [self._bounds(groups, levels) for groups in _grouped(self.kinds)]
        return np.asarray(np.minimum.reduce(bounds))

    def _bounds(self, groups: Groups, levels: Levels) -> Floats:
        """The same for tests that are told about these groups, or near the median about none."""
        low, high = levels.cuts[:-1], levels.cuts[1:]
        rates = np.minimum(np.maximum(RATES, high), LARGEST_TILT * self.length / groups.widening)
        told = Told(self.length, self.widenings, groups, rates, (low + high) / 2)
        both = told.lines(), told.untold(pulls(self.kinds))
        return np.asarray(np.minimum(*(lines.highest(low, high) for lines in both)).min(axis=0))

    def _skew(self, levels: Levels) -> Floats:
        """What the skewness of rounding adds, as if all releases shared the worst of each."""
        most = max(leg.skew for leg, _ in self.legs)
        parts = largest([((leg.skews / most) ** 2, times) for leg, times in self.legs], self.number)
        return most * skewed(levels, self.labels, parts, self.edge)

    def _largest(self, name: str, power: int = 1) -> float:
        """The sum over those releases in which it is largest."""
        values = [(getattr(leg, name) ** power, times) for leg, times in self.legs]
        return largest(values, self.number)


def _grouped(kinds: Sequence[Kind]) -> list[Groups]:
    """In how many groups tests may be told about moves: the best counts."""
    wide = sum(kind.widening > 0 for kind in kinds)
    return [together(kinds)] if wide > MOST_APART else [apart(kinds), together(kinds)][:wide]


def covering(
    values: Sequence[tuple[Value, int]],
    number: int,
    size: Callable[[Value], float],
    cover: Callable[[Sequence[Value]], Value],
) -> list[tuple[Value, int]]:
    """The ``number`` largest, as places: whichever values it is, each finds one no smaller.

    Where there are more of them than places, a place may be taken by any smaller one.
    """
    ordered = sorted(values, key=lambda pair: size(pair[0]))
    if sum(times for _, times in ordered) > number:
        covers = itertools.accumulate((value for value, _ in ordered), lambda *two: cover(two))
        ordered = [(value, times) for value, (_, times) in zip(covers, ordered, strict=True)]
    return first(ordered[::-1], number)


def largest(values: Sequence[tuple[float, int]], number: int) -> float:
    """The sum of the ``number`` largest of values, each of which is there so many times."""
    return math.fsum(value * times for value, times in ranked(values, number))


def ranked(values: Sequence[tuple[float, int]], number: int) -> list[tuple[float, int]]:
    """The ``number`` largest, from the largest on."""
    return first(sorted(values, reverse=True), number)


def first(values: Sequence[tuple[Value, int]], number: int) -> list[tuple[Value, int]]:
    """The first ``number`` of values, each of which is there so many times."""
    kept = []
    for value, times in values:
        if number > 0:
            kept.append((value, min(times, number)))
        number -= times
    return kept
