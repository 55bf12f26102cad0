"""The proved privacy of shuffled Gaussian reports, and the noise that a budget needs (MATH 5).

A report with parameter mu is (epsilon0, delta0)-DP for every epsilon0, with the delta0 of the
Gaussian curve. Shuffled, delta(epsilon) is at most what clones give for epsilon0, plus
(e^epsilon + 1)(1 + e^-epsilon0 / 2) users delta0 (``lem:shuffle_amp``; Feldman, McMillan and
Talwar 2021, theorem 3.8). Shuffling a report's vector and matrix in two channels reveals no more
than shuffling whole reports.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from scipy.optimize import brentq

from croupier.arguments import positive, whole
from croupier.privacy import gdp
from croupier.privacy.budget import LEAST_DELTA, Budget
from croupier.privacy.clones import ROUNDING, Divergence, composed_divergence

STEPS_PER_DOUBLING = 512
"""The local epsilons tried are powers of 2^(1/512): too few by at most 0.1 % of delta."""

LEAST_LOCAL = 2.0**-12

MOST_EPSILON = 500.0
"""Below the overflow of exp."""

GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class ShuffledGaussianCurve:
    """The better of the local Gaussian curve and clones.

    ``mu_local``: sensitivity over sigma of one report. ``users``: honest reports in a batch, the
    user's own included. ``batches``: how many batches the user is in, each seen before the next.
    """

    mu_local: float
    users: int
    batches: int = 1

    def __post_init__(self) -> None:
        """Refuse what is not a shuffled report."""
        positive("mu_local", self.mu_local)
        whole("users", self.users, 1)
        whole("batches", self.batches, 1)

    def mu_at(self, delta: float) -> None:
        """Clones are not stated as a mu."""
        return

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at ``delta``; ``self.delta`` there is at most ``delta``."""
        high = gdp.epsilon_of(self._mu_alone, delta)
        if self.delta(0.0) <= delta:
            return 0.0
        near = max(1e-9 * high, brentq(self._excess, 0.0, high, (delta,), 1e-9 * high))
        return min(high, _raised(near, lambda tried: self.delta(tried) <= delta))

    def delta(self, epsilon: float) -> float:
        """The smallest delta at ``epsilon``."""
        alone = gdp.delta_of(self._mu_alone, epsilon)
        if not 0 <= epsilon <= _widest(self.users, self.batches):
            return alone
        best = _valley(lambda index: self.clones_delta(index, epsilon), _last(self.users))
        return min(alone, self.clones_delta(best, epsilon))

    def clones_delta(self, index: int, epsilon: float) -> float:
        """The delta of clones at the local epsilon number ``index``."""
        # What is paid for delta0 grows with epsilon, and a smaller epsilon promises more.
        falling = self._slope(index, epsilon) >= 0
        asked = epsilon if falling else min(epsilon, _turn_of(self, index))
        amplified = _amplified(index, self.users, self.batches, asked).delta
        return amplified + (math.exp(asked) + 1) * self._leaked(index)

    def _leaked(self, index: int) -> float:
        local = local_epsilon(index)
        return gdp.delta_of(self.mu_local, local) * _leak(local, self.users, self.batches)

    def _slope(self, index: int, epsilon: float) -> float:
        """Above 0 where the clones' delta still falls faster than the leak grows."""
        return _amplified(index, self.users, self.batches, epsilon).slope - self._leaked(index)

    @property
    def _mu_alone(self) -> float:
        if self.batches == 1:
            return self.mu_local
        return math.nextafter(self.mu_local * math.sqrt(self.batches), math.inf)

    def _excess(self, epsilon: float, delta: float) -> float:
        """How far the logarithm of delta at ``epsilon`` is above the one asked for."""
        return math.log(max(self.delta(epsilon), math.ulp(0.0))) - math.log(delta)


def least_sigma(budget: Budget, *, sensitivity: float, users: int, batches: int = 1) -> float:
    """The least noise per coordinate of a report with which the curve meets ``budget``."""
    positive("sensitivity", sensitivity)
    mu = gdp.mu_of(budget.epsilon, budget.delta) / math.sqrt(whole("batches", batches, 1))
    if budget.epsilon <= _widest(whole("users", users, 1), batches):
        value = _loudness(budget, users, batches)
        mu = max(mu, value(_valley(lambda index: -value(index), _last(users))))

    def meets(sigma: float) -> bool:
        curve = ShuffledGaussianCurve(sensitivity / sigma, users, batches)
        return curve.delta(budget.epsilon) <= budget.delta

    return _raised(sensitivity / mu, meets)


def local_epsilon(index: int) -> float:
    """The public grid of local epsilons."""
    return LEAST_LOCAL * math.exp2(index / STEPS_PER_DOUBLING)


def _last(users: int) -> int:
    """Beyond ln(users) + 2 fewer than one clone in seven batches is left."""
    return math.ceil(STEPS_PER_DOUBLING * math.log2((math.log(users) + 2) / LEAST_LOCAL))


def _widest(users: int, batches: int) -> float:
    """Epsilons above this are left to the local curve: clones promise nothing less there."""
    return min(MOST_EPSILON, batches * local_epsilon(_last(users)))


def _leak(local: float, users: int, batches: int) -> float:
    """How often delta0 is paid: distances in total variation add up over the batches."""
    return batches * users * (1 + math.exp(-local) / 2) * (1 + ROUNDING)


@lru_cache(maxsize=4096)
def _amplified(index: int, users: int, batches: int, epsilon: float) -> Divergence:
    return composed_divergence(local_epsilon(index), users, batches, epsilon)


@lru_cache(maxsize=4096)
def _turn_of(curve: ShuffledGaussianCurve, index: int) -> float:
    """The epsilon from which clones at this local epsilon promise no smaller delta."""
    widest = _widest(curve.users, curve.batches)
    return _turn(lambda epsilon: curve._slope(index, epsilon), widest)


def _loudness(budget: Budget, users: int, batches: int) -> Callable[[int], float]:
    """The largest mu that meets the budget by clones at each local epsilon, negative if none."""

    def spare(index: int, epsilon: float) -> float:
        return budget.delta - _amplified(index, users, batches, epsilon).delta

    def slope(index: int, epsilon: float) -> float:
        fall = _amplified(index, users, batches, epsilon).slope * (math.exp(epsilon) + 1)
        return fall - spare(index, epsilon)

    def value(index: int) -> float:
        local = local_epsilon(index)
        epsilon = _turn(lambda tried: slope(index, tried), budget.epsilon)
        paid = (math.exp(epsilon) + 1) * _leak(local, users, batches)
        left = spare(index, epsilon) / paid
        return gdp.mu_of(local, left) if left >= LEAST_DELTA else min(left, 0.0)

    return value


def _turn(slope: Callable[[float], float], high: float) -> float:
    """Where a slope that is positive and then negative on ``[0, high]`` changes its sign."""
    if slope(high) >= 0:
        return high
    return 0.0 if slope(0.0) <= 0 else float(brentq(slope, 0.0, high, xtol=1e-7 * high))


def _valley(height: Callable[[int], float], last: int) -> int:
    """The lowest of 0..last by golden section, for a height that falls and then rises."""
    low, high = 0, last
    while high - low > 3:
        reach = round(GOLDEN * (high - low))
        left, right = high - reach, low + reach
        if left >= right:
            left, right = right - 1, left + 1
        low, high = (low, right) if height(left) <= height(right) else (left, high)
    return min(range(low, high + 1), key=height)


def _raised(start: float, holds: Callable[[float], bool]) -> float:
    """The first of ever larger steps from ``start`` that holds: rounding may fall short by one."""
    point, step = start, 2.0**-52
    while not holds(point):
        point *= 1 + step
        step *= 2
    return point
