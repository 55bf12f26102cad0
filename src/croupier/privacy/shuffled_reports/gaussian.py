"""The proved privacy of shuffled Gaussian reports, and the noise that a budget needs (MATH 5).

A report with parameter mu is (epsilon0, delta0)-DP for every epsilon0, with the delta0 of the
Gaussian curve. Shuffled, delta(epsilon) is at most what clones give for epsilon0, plus
(e^epsilon + 1)(1 + e^-epsilon0 / 2) users delta0 (``lem:shuffle_amp``; Feldman, McMillan and
Talwar 2021, theorem 3.8). Shuffling a report's vector and matrix in two channels reveals no more
than shuffling whole reports.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from scipy.optimize import brentq
from scipy.special import ndtri

from croupier.arguments import positive, whole
from croupier.privacy import gdp
from croupier.privacy.budget import LEAST_DELTA, Budget
from croupier.privacy.guarantee import WorstCurve
from croupier.privacy.shuffled_reports.clones import (
    MISSING,
    ROUNDING,
    Divergence,
    composed_divergence,
)

STEPS_PER_DOUBLING = 512
"""The local epsilons tried are powers of 2^(1/512): too few by at most 0.1 % of delta."""

LEAST_LOCAL = 2.0**-12

MOST_EPSILON = 500.0
"""Below the overflow of exp."""

STEPS = (16, 4, 2, 1)
"""How many local epsilons a search skips, first far and then near."""

SKIPPED = 32
"""How many local epsilons are skipped to find a first one that is of use."""

CROWD = 256
"""So many clones are nearly normal, and then delta has one valley over the local epsilons."""

TINY = math.ulp(0.0)

GOLDEN = (math.sqrt(5) - 1) / 2

PRECISION = 1e-9
"""Relative; a search ends when its next answer is no better than this."""


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
        return _least_epsilon(self, delta)

    def delta(self, epsilon: float) -> float:
        """The smallest delta at ``epsilon``."""
        alone = gdp.delta_of(self._mu_alone, epsilon)
        if not 0 <= epsilon <= _widest(self.users, self.batches):
            return alone
        return min(alone, self.clones_delta(_best_index(self, epsilon), epsilon))

    def clones_delta(self, index: int, epsilon: float) -> float:
        """The delta of clones at the local epsilon number ``index``."""
        asked = self._asked(index, epsilon)
        amplified = _amplified(index, self.users, self.batches, asked).delta
        return amplified + (math.exp(asked) + 1) * self._leaked(index)

    def _asked(self, index: int, epsilon: float) -> float:
        """At most ``epsilon``: what is paid for delta0 grows, and a smaller one promises more."""
        falling = self._slope(index, epsilon) >= 0
        return epsilon if falling else min(epsilon, _turn_of(self, index))

    def _leaked(self, index: int) -> float:
        local = local_epsilon(index)
        return gdp.delta_of(self.mu_local, local) * _leak(local, self.users, self.batches)

    def _slope(self, index: int, epsilon: float) -> float:
        """Above 0 where the clones' delta still falls faster than the leak grows."""
        fall = _amplified(index, self.users, self.batches, epsilon).slope
        return _log_ratio(fall, self._leaked(index))

    @property
    def _mu_alone(self) -> float:
        if self.batches == 1:
            return self.mu_local
        return math.nextafter(self.mu_local * math.sqrt(self.batches), math.inf)


@dataclass(frozen=True)
class WorstShuffledCurve(WorstCurve):
    """The worst of several batch sizes, of which few have to be asked for their epsilon."""

    def epsilon(self, delta: float) -> float:
        """The largest; every curve is at most ``delta`` there."""
        worst = 0.0
        for curve in self.curves:
            # Batches calibrated alike differ by rounding, and delta alone is found faster.
            if worst < math.inf and curve.delta(worst) > delta:
                worst = max(worst, curve.epsilon(delta))
        return worst


def least_sigma(budget: Budget, *, sensitivity: float, users: int, batches: int = 1) -> float:
    """The least noise per coordinate of a report with which the curve meets ``budget``."""
    positive("sensitivity", sensitivity)
    mu = gdp.mu_of(budget.epsilon, budget.delta) / math.sqrt(whole("batches", batches, 1))
    if budget.epsilon <= _widest(whole("users", users, 1), batches) and budget.delta > MISSING:
        mu = _loudest(budget, users, batches, mu)

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


@lru_cache(maxsize=2**14)
def _amplified(index: int, users: int, batches: int, epsilon: float) -> Divergence:
    return composed_divergence(local_epsilon(index), users, batches, epsilon)


def _clones(index: int, users: int) -> float:
    """The mean number of clones, and the user."""
    return 1 + (users - 1) * math.exp(-local_epsilon(index))


def _nearly(index: int, users: int, batches: int) -> float:
    """About the mu of the clones' counts, were they normal: it starts searches, no more."""
    local = local_epsilon(index)
    return 2 * math.tanh(local / 2) * math.sqrt(batches / _clones(index, users))


@lru_cache(maxsize=2**12)
def _best_index(curve: ShuffledGaussianCurve, epsilon: float) -> int:
    """The local epsilon of the smallest delta, looked for near that of normal counts."""

    def guess(index: int) -> float:
        mu, leak = _nearly(index, curve.users, curve.batches), curve._leaked(index)
        turn = mu * (-float(ndtri(min(1.0, leak))) - mu / 2)
        asked = min(epsilon, max(0.0, turn))
        return gdp.delta_of(mu, asked) + (math.exp(asked) + 1) * leak

    def height(index: int) -> float:
        return curve.clones_delta(index, epsilon)

    every = range(_last(curve.users) + 1)
    found = _valley(height, _golden(guess, every[-1]), every)
    if _clones(found, curve.users) >= CROWD and curve._asked(found, epsilon) == epsilon:
        return found
    # Few clones make several valleys. The leak alone rules out all that is left of this one.
    left = _first(lambda index: 2 * curve._leaked(index) < height(found), found)
    other = _valley(height, left, every[left:]) if found - left > SKIPPED else found
    return min(other, found, key=height)


@lru_cache(maxsize=2**12)
def _turn_of(curve: ShuffledGaussianCurve, index: int) -> float:
    """The epsilon from which clones at this local epsilon promise no smaller delta."""
    widest = _widest(curve.users, curve.batches)
    return _turn(lambda epsilon: curve._slope(index, epsilon), widest)


@lru_cache(maxsize=2**12)
def _least_epsilon(curve: ShuffledGaussianCurve, delta: float) -> float:
    """Each local epsilon allows an epsilon, at which another local epsilon may be better."""
    alone, widest = gdp.epsilon_of(curve._mu_alone, delta), _widest(curve.users, curve.batches)

    def meets(epsilon: float) -> bool:
        return epsilon >= alone or curve.delta(epsilon) <= delta

    last, high = _last(curve.users), min(alone, widest)
    start = _first(lambda index: 8 * curve._leaked(index) <= delta, last)
    # A larger epsilon needs a smaller leak.
    tries = (_epsilon_at(curve, index, delta, high) for index in range(start, last, SKIPPED))
    found, tried = math.inf, next(filter(math.isfinite, tries), alone)
    while (met := _raised(tried, meets)) < found * (1 - PRECISION):
        found, high = met, min(met, widest)
        tried = _epsilon_at(curve, _best_index(curve, high), delta, high)
    return found


def _epsilon_at(curve: ShuffledGaussianCurve, index: int, delta: float, high: float) -> float:
    """The smallest epsilon up to ``high`` at which clones give ``delta``, infinite if none."""

    def excess(epsilon: float) -> float:
        return _log_ratio(curve.clones_delta(index, epsilon), delta)

    if excess(high) > 0:
        return math.inf
    if excess(0.0) <= 0:
        return 0.0
    reach = PRECISION * high / 8
    return min(high, float(brentq(excess, 0.0, high, xtol=reach)) + 2 * reach)


def _loudest(budget: Budget, users: int, batches: int, alone: float) -> float:
    """The largest mu that meets the budget, found like ``_least_epsilon``; ``alone`` meets it."""
    value = _loudness(budget, users, batches)

    def full(index: int) -> bool:
        guess = gdp.delta_of(_nearly(index, users, batches), budget.epsilon)
        return guess >= budget.delta / 2

    # Where the guess was too bold no noise is enough; a little below it is.
    below = range(_first(full, _last(users)), -1, -SKIPPED)
    found, tried = 0.0, max(alone, next(filter(None, map(value, below)), 0.0))
    while tried > found * (1 + PRECISION):
        found = tried
        curve = ShuffledGaussianCurve(found, users, batches)
        tried = value(_best_index(curve, budget.epsilon))
    return found


def _loudness(budget: Budget, users: int, batches: int) -> Callable[[int], float]:
    """The largest mu that meets the budget by clones at each local epsilon, 0 if none."""
    # A little less than the budget, so that the curve's own rounding does not exceed it.
    delta = budget.delta * (1 - 10 * PRECISION)

    def spare(index: int, epsilon: float) -> float:
        return delta - _amplified(index, users, batches, epsilon).delta

    def slope(index: int, epsilon: float) -> float:
        fall = _amplified(index, users, batches, epsilon).slope * (math.exp(epsilon) + 1)
        return _log_ratio(fall, spare(index, epsilon))

    def value(index: int) -> float:
        local = local_epsilon(index)
        epsilon = _turn(lambda tried: slope(index, tried), budget.epsilon)
        paid = (math.exp(epsilon) + 1) * _leak(local, users, batches)
        left = spare(index, epsilon) / paid
        return gdp.mu_of(local, left) if left >= LEAST_DELTA else 0.0

    return value


def _log_ratio(first: float, second: float) -> float:
    """Above 0 where the first is larger; nearly straight where both fall like a tail."""
    return math.log(max(first, TINY)) - math.log(max(second, TINY))


def _turn(slope: Callable[[float], float], high: float) -> float:
    """Where a slope that is positive and then negative on ``[0, high]`` changes its sign."""
    if slope(high) >= 0:
        return high
    return 0.0 if slope(0.0) <= 0 else float(brentq(slope, 0.0, high, xtol=1e-10 * high))


def _first(holds: Callable[[int], bool], last: int) -> int:
    """The first of 0..last at which ``holds`` turns true, or the last."""
    return bisect_left(range(last), True, key=holds)


def _golden(height: Callable[[int], float], last: int) -> int:
    """About the lowest of 0..last by golden section, for a height that falls and then rises."""
    low, high = 0, last
    while high - low > 3:
        reach = round(GOLDEN * (high - low))
        left, right = high - reach, low + reach
        low, high = (low, right) if height(left) <= height(right) else (left, high)
    return (low + high) // 2


def _valley(height: Callable[[int], float], start: int, every: range) -> int:
    """The lowest near ``start``, for a height that falls and then rises."""
    best = start
    for step in STEPS:
        while (near := min(_around(best, step, every), key=height)) != best:
            best = near
    return best


def _around(index: int, step: int, every: range) -> tuple[int, int, int]:
    """The index itself, which wins a tie, and its neighbours."""
    return index, max(every[0], index - step), min(every[-1], index + step)


def _raised(start: float, holds: Callable[[float], bool]) -> float:
    """The first of ever larger steps from ``start`` that holds: rounding may fall short by one."""
    point, step = start, 2.0**-52
    while not holds(point):
        point = point * (1 + step) or TINY
        step *= 2
    return point
