"""What several releases tell of a user who moves far in them (PROOF 9f).

What is known of a release outside tails holds for tails of any size. Deep windows see slopes that
no test reaches in all of several releases, wide tails cost more than a rare test gains: so every
test is given the tails that are best for it. That is a curve, and curves compose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np
from scipy.special import ndtri

from croupier.errors import GuaranteeError
from croupier.privacy.gdp import delta_of, deltas_of
from croupier.privacy.journeys import covering
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.quantile_slope import LARGEST_TAIL
from croupier.privacy.shuffled_reports.loss_distribution import (
    Floats,
    Losses,
    composed,
    dominating_above,
    together,
)
from croupier.privacy.spread import deepest_tail

TAILS = tuple(2.0**-halvings for halvings in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89))
"""Of all labels together."""
FINENESS = 16
"""Cells of a curve per mu, at least: they add less than 1e-3 to it."""
LOWEST = 10.0
"""How far below its mean losses are told apart, in standard deviations."""
FARTHEST = 1e4
"""The mu up to which an epsilon has the digits that this takes."""
MOST_KINDS = 32
"""Releases whose curves are tabled: they take a tenth of a second each."""

Kind = tuple[CountRelease, ...]
"""Releases, one of which it is."""


@dataclass(frozen=True)
class Far:
    """Releases that a user is in, some of them far: one of a kind, so many times."""

    places: tuple[tuple[Kind, int], ...]

    def bound(self, epsilon: float, delta: float) -> float:
        """A bound on the delta at ``epsilon``: 1 where it is seen at once to be above ``delta``."""
        if delta_of(self._least, epsilon) > delta:
            return 1.0
        return self.losses.delta(epsilon) if self.losses else 1.0

    def reaches(self, delta: float) -> bool:
        """Whether there is an epsilon with that delta."""
        return self.losses is not None and self.losses.infinite <= delta

    @cached_property
    def _least(self) -> float:
        """The mu with the largest tails and nothing for these: none of the losses is better."""
        return math.hypot(*(math.sqrt(times) * _size(kind) for kind, times in self.places))

    @cached_property
    def losses(self) -> Losses | None:
        """The losses of a pair no better than all of them; None where nothing is known."""
        each = [(_losses(kind), times) for kind, times in self.places]
        known = [composed(losses, times) for losses, times in each if losses]
        return reduce(together, known) if len(known) == len(each) else None


def far(kinds: Sequence[tuple[Kind, int]], number: int | None = None) -> Far | None:
    """What is known of a user in at most ``number`` of these releases, or in all of them.

    None where no move is far, where there is one release, or where one has several reports.
    """
    number = number or sum(times for _, times in kinds)
    releases = {release for kind, _ in kinds for release in kind}
    once = all(release.reports == 1 for release in releases)
    if number < 2 or not once or len(releases) > MOST_KINDS:
        return None
    if not any(release.far for release in releases):
        return None
    return Far(tuple(covering(kinds, number, _size, _any_of)))


def _size(kind: Kind) -> float:
    """How much the worst of them moves."""
    return max(_mu(release, _tails(release)[0]) for release in kind)


def _any_of(kinds: Sequence[Kind]) -> Kind:
    return tuple(dict.fromkeys(release for kind in kinds for release in kind))


@lru_cache(maxsize=64)
def _losses(kind: Kind) -> Losses | None:
    """The losses of a pair no better than any of these releases."""
    known = [_known(release) for release in kind]
    if not all(one.outside for one in known):
        return None
    mu = max(one.least for one in known)
    step = 2.0 ** math.floor(math.log2(mu / FINENESS))
    first = math.floor((mu / 2 - LOWEST) * mu / step)
    last = math.ceil(max(one.last for one in known) / step)
    epsilons = np.arange(first, last + 1) * np.float64(step)
    deltas = np.maximum.reduce([one.deltas(epsilons) for one in known])
    return dominating_above(deltas, step, first)


@dataclass(frozen=True)
class Known:
    """What is known of one release: pairs of tails, and a mu outside of them."""

    outside: tuple[tuple[float, float], ...]

    @property
    def least(self) -> float:
        """The least mu."""
        return min(mu for _, mu in self.outside)

    @property
    def last(self) -> float:
        """An epsilon beyond which every delta is nearly that of its tails alone."""
        return max(mu * (mu / 2 - float(ndtri(tails))) for tails, mu in self.outside)

    def deltas(self, epsilons: Floats) -> Floats:
        """The smallest delta at each epsilon, with whichever tails that is."""
        every = [tails + (1 - tails) * deltas_of(mu, epsilons) for tails, mu in self.outside]
        return np.asarray(np.minimum(1.0, np.minimum.reduce(every) * (1 + 1e-11)))


@lru_cache(maxsize=256)
def _known(release: CountRelease) -> Known:
    mus = [(tau, _mu(release, tau)) for tau in _tails(release)]
    found = ((_together(tau, release.labels), mu) for tau, mu in mus if mu < FARTHEST)
    return Known(tuple(found))


@lru_cache(maxsize=4096)
def _mu(release: CountRelease, tau: float) -> float:
    try:
        return release.far_mu(tau) if release.far else release.mu(tau)
    except GuaranteeError:  # The general form may refuse: then nothing is known.
        return math.inf


def _tails(release: CountRelease) -> list[float]:
    """The tails of each label, largest first, down to the least that has a window."""
    each = [tau for tails in TAILS if (tau := tails / release.labels) < LARGEST_TAIL]
    deepest = deepest_tail(release.coins, release.distance, release.labels)
    least = min(max(deepest, each[-1]), each[0])
    return [*(tau for tau in each if tau > least), least]


def _together(tau: float, labels: int) -> float:
    """The tails of all labels."""
    return -math.expm1(labels * math.log1p(-tau))
