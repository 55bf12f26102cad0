"""What several releases tell of a user who is in all of them (PROOF 5 and 9)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from croupier.privacy.journeys import Journey, Leg, Value, largest, longest
from croupier.privacy.levels import DEEPEST, Levels
from croupier.privacy.moves import highest
from croupier.privacy.pace import Clocked, Pace, steady

PIECES = 192
"""Pieces of the levels of tests."""
MUS = ("mu", "plain", "least")


@dataclass(frozen=True)
class Part:
    """What is known of one release.

    Each of ``paces`` may be the one that it has. It has Gaussian DP with ``plain`` before its
    rounding is followed. All parts together are nowhere taken to be better than ``least``. On
    coarse grids rounding ``shows``.
    """

    paces: tuple[Pace, ...]
    plain: float
    least: float
    leg: Leg
    shows: bool

    @property
    def mu(self) -> float:
        """The Gaussian DP that it has."""
        return max(pace.mu for pace in self.paces)


def gaussian(mu: float, halved: float) -> Part:
    """A part of which a mu is known, and one with ``halved`` tails."""
    return Part((steady(mu),), mu, mu, Leg(halved), shows=False)


def worst(parts: Sequence[Part]) -> Part:
    """What holds of all of these, if the release may be any."""
    paces = tuple(dict.fromkeys(pace for part in parts for pace in part.paces))
    plain, least = (max(getattr(part, name) for part in parts) for name in ("plain", "least"))
    leg = longest([part.leg for part in parts])
    return Part(paces, plain, least, leg, any(part.shows for part in parts))


def composed(parts: Sequence[tuple[Part, int]], tau: float, number: int | None = None) -> Pace:
    """The pace of a user in these releases, each so many times, in at most ``number`` of them.

    They compose by the squares of mu, and where rounding shows level by level as well.
    """
    number = number or sum(times for _, times in parts)
    mu, plain, least = (_root(parts, name, number) for name in MUS)
    if math.isinf(mu) or not any(part.shows for part, _ in parts):
        return steady(mu)
    journey = Journey(tuple(gathered((part.leg, times) for part, times in parts)), number)
    top = highest(journey.labels, tau, plain)
    if top is None or max(top, journey.length, journey.edge) > DEEPEST:
        return steady(mu)
    return _travelled(journey, Levels(top, PIECES), mu).at_least(least)


def _root(parts: Sequence[tuple[Part, int]], name: str, number: int) -> float:
    squares = [(getattr(part, name) ** 2, times) for part, times in parts]
    return math.sqrt(largest(squares, number)) * (1 + 1e-14)


def gathered(values: Iterable[tuple[Value, int]]) -> list[tuple[Value, int]]:
    """Every value once, as often as it comes."""
    times: Counter[Value] = Counter()
    for value, number in values:
        times[value] += number
    return list(times.items())


def _travelled(journey: Journey, levels: Levels, mu: float) -> Pace:
    """Level by level, and with ``mu`` at all of them."""
    speeds = journey.speeds(levels) * (1 + 1e-8)
    return Clocked(min(mu, float(speeds.max())), levels.ends, tuple(speeds.tolist()))
