"""Gaussian differential privacy: one number ``mu`` and its curve (MATH 3; Dong, Roth and Su)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from scipy.special import log_ndtr

from croupier.arguments import finite, positive


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta at ``epsilon`` of N(0,1) against N(mu,1)."""
    finite("epsilon", epsilon)
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    kept = float(log_ndtr(mu / 2 - epsilon / mu))
    lost = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # Both logarithms are accurate far into the tail; their difference keeps delta from 1e-300 up.
    return min(1.0, math.exp(kept) * max(0.0, -math.expm1(lost - kept)))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 with ``delta_of(mu, epsilon) <= delta``, on the safe side."""
    _probability(delta)
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    return _first_true(lambda epsilon: delta_of(mu, epsilon) <= delta)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu that meets ``(epsilon, delta)``, rounded to the safe side."""
    positive("epsilon", epsilon)
    _probability(delta)
    above = _first_true(lambda mu: delta_of(mu, epsilon) > delta)
    return math.nextafter(above, 0.0)


def compose(mus: Iterable[float]) -> float:
    """The mu of several mechanisms used together, adaptively too."""
    return math.hypot(*mus)


def _probability(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}")


def _first_true(holds: Callable[[float], bool]) -> float:
    """The upper end of the last interval around the point where ``holds`` turns true."""
    high = 1.0
    while not holds(high):
        high *= 2
    low = 0.0
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return high
        if holds(middle):
            high = middle
        else:
            low = middle
