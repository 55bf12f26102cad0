"""The curve that releases of counts earn together (MATH 4, PROOF 4 and 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from croupier.arguments import whole
from croupier.privacy.budget import LEAST_DELTA
from croupier.privacy.gdp import delta_of
from croupier.privacy.guarantee import TAIL_SHARE
from croupier.privacy.search import confirmed, first_delta, first_epsilon
from croupier.privacy.shuffled_bits.count_release import CountRelease

ROUNDED_UP = 1 + 1e-14


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
    def tails(self) -> int:
        """Tails of all counts that are released with the user in them."""
        return sum(release.tails * times for release, times in self.releases)

    def tau(self, delta: float) -> float:
        """One tail at ``delta``; all tails together take a thousandth of it."""
        return TAIL_SHARE * delta / self.tails

    def mu_at(self, delta: float) -> float:
        """The Gaussian-DP parameter at ``delta``; infinite where nothing is certified."""
        return self.mu(self.tau(known_delta(delta)))

    def mu(self, tau: float) -> float:
        """The same outside tails of ``tau``: releases add up by the squares of mu."""
        parts = (math.sqrt(times) * release.mu(tau) for release, times in self.releases)
        return math.hypot(*parts) * ROUNDED_UP

    def bound(self, epsilon: float, delta: float) -> float:
        """tau' + (1 - tau') delta_GDP(mu, epsilon), all with the tails that belong to ``delta``."""
        return self._bound(self.mu_at(delta), epsilon, delta)

    def _bound(self, mu: float, epsilon: float, delta: float) -> float:
        if math.isinf(mu):
            return 1.0
        tails = -math.expm1(self.tails * math.log1p(-self.tau(delta)))
        return (tails + (1 - tails) * delta_of(mu, epsilon)) * (1 + 1e-12)

    def holds(self, epsilon: float, delta: float) -> bool:
        """Whether ``(epsilon, delta)`` is proved."""
        return self.bound(epsilon, delta) <= delta

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon at ``delta``; infinite where nothing is certified."""
        return _least_epsilon(self, delta)

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at ``epsilon``; 1 where nothing is certified."""
        return _least_delta(self, epsilon)


@lru_cache(maxsize=1024)
def _least_epsilon(curve: BinomialCurve, delta: float) -> float:
    """Kept: a plan is asked the same in its document, in words, and by whoever checks it."""
    mu = curve.mu_at(delta)
    if math.isinf(mu):
        return math.inf
    found = first_epsilon(lambda epsilon: curve._bound(mu, epsilon, delta) <= delta)
    return confirmed(curve.delta, found, delta)


@lru_cache(maxsize=1024)
def _least_delta(curve: BinomialCurve, epsilon: float) -> float:
    return first_delta(lambda delta: curve.bound(epsilon, delta))


def known_delta(delta: float) -> float:
    """``delta`` where curves of counts are defined."""
    if not LEAST_DELTA <= delta < 1:
        raise ValueError(f"delta must be between {LEAST_DELTA:g} and 1, got {delta!r}")
    return delta
