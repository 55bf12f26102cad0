"""The certificate for shuffled bits: the curve that releases of counts earn (MATH 4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from croupier.arguments import whole
from croupier.errors import GuaranteeError
from croupier.privacy.apart import Smallest, apart
from croupier.privacy.budget import LEAST_DELTA
from croupier.privacy.far import Far, Kind, far
from croupier.privacy.guarantee import TAIL_SHARE
from croupier.privacy.pace import Pace, steady
from croupier.privacy.search import confirmed, first_delta, first_epsilon
from croupier.privacy.several import Part, composed, gaussian, worst
from croupier.privacy.shuffled_bits.count_release import FAR, CountRelease
from croupier.privacy.shuffled_bits.quantile_slope import LARGEST_TAIL
from croupier.privacy.spread import rounded

LEAST_TAIL = 1e-32
"""Tails of one count down to which curves are tabled, which are so for deltas above 1e-31."""
LARGER_SHARES = (0.1, 0.5)
"""Parts of delta that tails may take where moves are far: windows cost more than some of delta."""

Known = tuple[Pace, float]
"""What is known outside tails of a count, and these."""


@dataclass(frozen=True)
class BinomialCurve:
    """The proved curve of a user who is in each ``release`` so many times (MATH 4, PROOF 5)."""

    releases: tuple[tuple[CountRelease, int], ...]

    def __post_init__(self) -> None:
        """Refuse a curve of nothing."""
        if not self.releases:
            raise ValueError(f"releases must not be empty, got {self.releases!r}")
        for _, times in self.releases:
            whole("times", times, 1)

    @property
    def simpler(self) -> Self:
        """What MATH 4 alone proves (PROOF 1 to 7)."""
        plain = ((replace(release, followed=False), times) for release, times in self.releases)
        return replace(self, releases=tuple(plain))

    @property
    def counts(self) -> int:
        """Counts released with the user in them: labels times releases."""
        return sum(release.labels * times for release, times in self.releases)

    def tau(self, delta: float) -> float:
        """The tail of one count at ``delta``; all tails together take a thousandth of it."""
        return TAIL_SHARE * delta / self.counts

    def mu_at(self, delta: float) -> float:
        """The Gaussian-DP parameter at ``delta``; infinite where nothing is certified."""
        return self.pace(delta).mu

    def pace(self, delta: float) -> Pace:
        """What answers at ``delta`` rest on."""
        return self._pace(self.tau(known_delta(delta)))

    def _pace(self, tau: float) -> Pace:
        """What is known outside tails of ``tau``."""
        if self._once:
            return self.releases[0][0].pace(tau)
        return composed(self.parts(tau), tau, self.visits)

    @property
    def visits(self) -> int | None:
        """In how many of the releases the user is at most; None if in all."""
        return None

    @property
    def kinds(self) -> Sequence[tuple[Kind, int]]:
        """Which releases may come, and how often."""
        return [((release,), times) for release, times in self.releases]

    def parts(self, tau: float) -> list[tuple[Part, int]]:
        """What is known of all that may come outside tails of ``tau``, and how often it does."""
        known = ((worst([release.part(tau) for release in kind]), n) for kind, n in self.kinds)
        return list(known)

    def bound(self, epsilon: float, delta: float) -> float:
        """tau' + (1 - tau') times the pace's delta, with the tails that belong to ``delta``.

        Of several far moves first what is known with all tails, which is the same for any
        ``delta``. The smallest bound only where that is more than ``delta``.
        """
        found = self._far_bound(epsilon, delta)
        if found <= delta:
            return found
        return min(found, self._bound(self._paces(delta), epsilon, delta))

    def _far_bound(self, epsilon: float, delta: float) -> float:
        return self._far.bound(epsilon, delta) if self._far else 1.0

    @property
    def _far(self) -> Far | None:
        return _far(self)

    def _paces(self, delta: float) -> Iterator[Known]:
        """What is known at ``delta``: of far moves outside larger tails as well."""
        usual, tau = self.pace(delta), self.tau(delta)
        yield usual, tau
        if self._once and self.releases[0][0].rises and math.isfinite(usual.mu):
            yield composed(self.parts(tau), tau), tau
        if usual.mu > FAR and not self._far:
            yield from self._far_paces(delta)

    def _far_paces(self, delta: float) -> Iterator[Known]:
        """What is known of far moves outside larger tails."""
        for share in LARGER_SHARES if self._follows else ():
            tau = rounded(min(share * delta / self.counts, LARGEST_TAIL / 2))
            yield _far_pace(self, tau), tau

    @property
    def _follows(self) -> bool:
        """Whether more than MATH 4 is known of one of the releases."""
        return any(release.follows for release, _ in self.releases)

    @property
    def _once(self) -> bool:
        """Whether the user is in one release, once."""
        return len(self.releases) == 1 and self.releases[0][1] == 1 and not self.visits

    def _bound(self, paces: Iterable[Known], epsilon: float, delta: float) -> float:
        found = 1.0
        for pace, tau in paces:
            found = min(found, self._with_tails(pace.delta(epsilon), tau))
            if found <= delta:
                return found
        return min(found, self._with_tails(self._apart(epsilon, delta), self.tau(delta)))

    def _with_tails(self, gain: float, tau: float) -> float:
        tails = -math.expm1(self.counts * math.log1p(-tau))
        return (tails + (1 - tails) * gain) * (1 + 1e-12)

    def _apart(self, epsilon: float, delta: float) -> float:
        """What the curves of releases that differ prove, outside tails no larger than allowed."""
        tau = 2.0 ** math.floor(math.log2(self.tau(delta)))
        losses = _losses(self, tau) if tau >= LEAST_TAIL else None
        return losses.delta(epsilon) if losses else 1.0

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether ``(epsilon, delta)`` is proved; by what takes no tables, if it can be."""
        if self._bound(self._paces(delta), epsilon, delta) <= delta:
            return True
        return self._far_bound(epsilon, delta) <= delta

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon at ``delta``; infinite where nothing is certified."""
        return _least_epsilon(self, delta)

    def _search_epsilon(self, delta: float) -> float:
        """The epsilon from which on the bound at ``delta`` is no more than that."""
        paces = tuple(self._paces(delta))
        known = any(math.isfinite(pace.mu) for pace, _ in paces)
        if not known and not (self._far and self._far.reaches(delta)):
            return math.inf

        def holds(epsilon: float) -> bool:
            far = self._far_bound(epsilon, delta) <= delta
            return far or self._bound(paces, epsilon, delta) <= delta

        return first_epsilon(holds)

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at ``epsilon``; 1 where nothing is certified."""
        return _least_delta(self, epsilon)


class SquaresCurve(BinomialCurve):
    """What the squares of mu prove, which add up whichever releases come together."""

    @property
    def kinds(self) -> Sequence[tuple[Kind, int]]:
        """None: others may come."""
        return []

    def parts(self, tau: float) -> list[tuple[Part, int]]:
        """The mu of every release."""
        mus = ((release.mu(tau), times) for release, times in self.releases)
        return [(gaussian(mu, mu), times) for mu, times in mus]


@lru_cache(maxsize=1024)
def _least_epsilon(curve: BinomialCurve, delta: float) -> float:
    """Kept: a plan is asked the same in its document, in words, and by whoever checks it."""
    found = curve._search_epsilon(delta)
    return confirmed(curve.delta, found, delta) if math.isfinite(found) else found


@lru_cache(maxsize=1024)
def _least_delta(curve: BinomialCurve, epsilon: float) -> float:
    return first_delta(lambda delta: curve.bound(epsilon, delta))


@lru_cache(maxsize=256)
def _far_pace(curve: BinomialCurve, tau: float) -> Pace:
    try:
        return curve._pace(tau).at_least(FAR)
    except GuaranteeError:  # The general form may refuse: then nothing is known.
        return steady(math.inf)


@lru_cache(maxsize=256)
def _far(curve: BinomialCurve) -> Far | None:
    return far(curve.kinds, curve.visits)


@lru_cache(maxsize=256)
def _losses(curve: BinomialCurve, tau: float) -> Smallest | None:
    """For every power of two anew: tables take too long to have them for every delta."""
    if len(curve.releases) == 1:
        return None
    try:
        return apart(curve.parts(tau), tau, curve.visits)
    except GuaranteeError:  # The general form may refuse: then nothing is known.
        return None


def known_delta(delta: float) -> float:
    """``delta`` where curves of counts are defined."""
    if not LEAST_DELTA <= delta < 1:
        raise ValueError(f"delta must be between {LEAST_DELTA:g} and 1, got {delta!r}")
    return delta
