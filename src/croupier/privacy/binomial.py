"""The certificate for shuffled bits: the curve that releases of counts earn (MATH 4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from croupier.arguments import whole
from croupier.errors import GuaranteeError
from croupier.privacy.apart import Smallest, apart
from croupier.privacy.budget import LEAST_DELTA
from croupier.privacy.counts import FAR, CountRelease
from croupier.privacy.guarantee import TAIL_SHARE
from croupier.privacy.pace import Pace
from croupier.privacy.several import Part, composed, gaussian
from croupier.privacy.spread import rounded

MOST_DELTA = math.nextafter(1.0, 0.0)
GUESSES = 8
"""Each is a thousand times closer than the one before, until none differs."""
NEXT = 1e-15
"""How far from a guess deltas are looked for first, in units of it."""
LEAST_TAIL = 1e-32
"""Tails of one count down to which curves are tabled, which are so for deltas above 1e-31."""
LARGER_SHARE = 0.1
"""The part of delta that tails may take there: then windows cost more than some of delta."""

Paces = tuple[tuple[Pace, float], ...]
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

    def parts(self, tau: float) -> list[tuple[Part, int]]:
        """What is known of every release outside tails of ``tau``, and how often it comes."""
        return [(release.part(tau), times) for release, times in self.releases]

    def bound(self, epsilon: float, delta: float) -> float:
        """tau' + (1 - tau') times the pace's delta, with the tails that belong to ``delta``."""
        return self._bound(self._paces(delta), epsilon, delta)

    def _paces(self, delta: float) -> Paces:
        """What is known at ``delta``: of far moves outside larger tails as well."""
        usual, tau = self.pace(delta), self.tau(delta)
        known = [(usual, tau)]
        if self._once and self.releases[0][0].rises and math.isfinite(usual.mu):
            known.append((composed(self.parts(tau), tau), tau))
        if FAR < usual.mu < math.inf and any(release.follows for release, _ in self.releases):
            larger = rounded(LARGER_SHARE * delta / self.counts)
            known.append((_far_pace(self, larger), larger))
        return tuple(known)

    @property
    def _once(self) -> bool:
        """Whether the user is in one release, once."""
        return len(self.releases) == 1 and self.releases[0][1] == 1 and not self.visits

    def _bound(self, paces: Paces, epsilon: float, delta: float) -> float:
        if math.isinf(paces[0][0].mu):
            return 1.0
        found = min(self._with_tails(pace.delta(epsilon), tau) for pace, tau in paces)
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
        """Whether ``(epsilon, delta)`` is proved."""
        return self.bound(epsilon, delta) <= delta

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon at ``delta``; infinite where nothing is certified."""
        return _least_epsilon(self, delta)

    def _search_epsilon(self, delta: float) -> float:
        """The epsilon from which on the bound at ``delta`` is no more than that."""
        paces = self._paces(delta)
        if math.isinf(paces[0][0].mu):
            return math.inf
        return _first_epsilon(lambda epsilon: self._bound(paces, epsilon, delta) <= delta)

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at ``epsilon``; 1 where nothing is certified."""
        return _least_delta(self, epsilon)

    def _search_delta(self, epsilon: float) -> float:
        """The delta from which on the bound at it is no more; 1 where there is none."""
        low, high = self._around(epsilon, self._guess(epsilon))
        return _first_float(lambda delta: self.holds(epsilon, delta), low, high)

    def _guess(self, epsilon: float) -> float:
        """Near the fixed point of the bound, which hardly depends on the delta of its tails."""
        before, guess = 0.0, 1e-6
        for _ in range(GUESSES):
            if guess == before:
                break
            before, guess = guess, min(max(self.bound(epsilon, guess), LEAST_DELTA), MOST_DELTA)
        return guess

    def _around(self, epsilon: float, guess: float) -> tuple[float, float]:
        """Deltas on both sides of the first proved one, or the limit that it is at twice."""
        high, width = guess, NEXT
        while not self.holds(epsilon, high):
            if high == MOST_DELTA:
                return 1.0, 1.0
            high, width = min(high * (1 + width), MOST_DELTA), 8 * width
        low, width = high, NEXT
        while self.holds(epsilon, low):
            if low == LEAST_DELTA:
                return low, low
            low, width = max(low / (1 + width), LEAST_DELTA), 8 * width
        return low, high


class SquaresCurve(BinomialCurve):
    """What the squares of mu prove, which add up whichever releases come together."""

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
    return curve._search_delta(epsilon)


@lru_cache(maxsize=256)
def _far_pace(curve: BinomialCurve, tau: float) -> Pace:
    return curve._pace(tau).at_least(FAR)


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


def confirmed(curve: Callable[[float], float], epsilon: float, delta: float) -> float:
    """``epsilon`` raised by the last digits that rounding may have taken off the way back."""
    step = 1e-15
    while curve(epsilon) > delta:
        epsilon, step = epsilon + step * (1 + epsilon), 4 * step
    return epsilon


def _first_epsilon(holds: Callable[[float], bool]) -> float:
    if holds(0.0):
        return 0.0
    high = 1.0
    while not holds(high):
        high *= 2
    return _first_float(holds, 0.0, high)


def _first_float(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The upper end of the last interval in which ``holds`` turns true."""
    while True:
        # Far apart, halve the exponent: deltas reach down to 1e-300.
        far = 0 < 2 * low < high
        middle = math.sqrt(low) * math.sqrt(high) if far else (low + high) / 2
        if not low < middle < high:
            return high
        if holds(middle):
            high = middle
        else:
            low = middle
