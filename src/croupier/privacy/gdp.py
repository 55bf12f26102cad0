"""Gaussian differential privacy: one number ``mu`` and its curve (MATH 3; Dong, Roth and Su)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from croupier.arguments import finite, positive

NODES, WEIGHTS = np.polynomial.legendre.leggauss(48)
"""Exact to the last digits for the integral of ``_mills_drop``, whose scale is chosen there."""

NEVER, ALWAYS = 39.0, -9.0
"""Standard normals beyond which delta is 0, or 1, to the last digit of a float."""


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta at ``epsilon`` of N(0,1) against N(mu,1), to about 1e-12 of itself.

    With a = epsilon/mu - mu/2, density phi and Mills ratio R it is phi(a) (R(a) - R(a + mu)).
    Both terms of the textbook form share phi(a), so nothing cancels before the difference of R.
    """
    mu, epsilon = _size(mu), finite("epsilon", epsilon)
    if epsilon < 0:
        # The two normals mirror each other, so the curve does too.
        return -math.expm1(epsilon) + math.exp(epsilon) * delta_of(mu, -epsilon)
    edge = epsilon / mu - mu / 2 if mu else math.inf
    if edge > NEVER:
        return 0.0
    if edge < ALWAYS:
        return 1.0
    density = math.exp(-edge * edge / 2) / math.sqrt(2 * math.pi)
    return min(1.0, density * _mills_drop(edge, mu))


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 with ``delta_of(mu, epsilon) <= delta``, on the safe side."""
    _probability(delta)
    if delta_of(mu, 0.0) <= delta:
        return 0.0
    if delta_of(mu, sys.float_info.max) > delta:
        return math.inf
    return _turn(lambda epsilon: delta_of(mu, epsilon) <= delta)[1]


@lru_cache(maxsize=256)
def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu that meets ``(epsilon, delta)``, rounded to the safe side."""
    positive("epsilon", epsilon)
    _probability(delta)
    return _turn(lambda mu: delta_of(mu, epsilon) > delta)[0]


def sigma_of(sensitivity: float, epsilon: float, delta: float) -> float:
    """The least noise with ``delta_of(sensitivity / sigma, epsilon) <= delta``, safely rounded."""
    sigma = positive("sensitivity", sensitivity) / mu_of(epsilon, delta)
    # Two divisions need not undo each other; what is stated later is the mu of this sigma.
    while delta_of(sensitivity / sigma, epsilon) > delta:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


def compose(mus: Iterable[float]) -> float:
    """The mu of several mechanisms used together, adaptively too."""
    return math.hypot(*map(_size, mus))


def _mills_drop(edge: float, mu: float) -> float:
    """R(edge) - R(edge + mu) for the Mills ratio R of the normal law."""
    if mu >= 1:
        near, far = mills(np.array([edge, edge + mu]))
        return float(near - far)
    # R(x) is the integral of exp(-x s - s^2/2) over s > 0: one with positive terms only for the
    # difference. It is cut where the exponent reaches -40, beyond the last digit.
    reach = 80 / (edge + math.sqrt(edge * edge + 80))
    points = reach / 2 * (1 + NODES)
    terms = np.exp(-points * (edge + points / 2)) * -np.expm1(-mu * points)
    return float(reach / 2 * (WEIGHTS @ terms))


def mills(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Upper tail over density."""
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(points / math.sqrt(2)))


def _size(mu: float) -> float:
    if not mu >= 0:
        raise ValueError(f"mu must be at least 0, got {mu!r}")
    return float(mu)


def _probability(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}")


def _turn(holds: Callable[[float], bool]) -> tuple[float, float]:
    """Neighbouring floats above 0: ``holds`` was found false at the first, true at the second."""
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
