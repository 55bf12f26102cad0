"""Statistics of an audit: error rates with bounds, a linear test, and what they refute (MATH 7.5).

A test that tells one user's two possible data apart better than a promise allows refutes the
promise. Everything here is a function of samples; where they come from is not its business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from croupier.arguments import fraction, whole
from croupier.privacy.guarantee import Guarantee

Floats = NDArray[np.float64]

FALSE_ALARM = 1e-3
"""The chance that an honest mechanism is flagged, all comparisons of one audit together."""

THRESHOLDS = 2
"""One in the middle and one for the budget's epsilon, each with two error rates to bound."""

RIDGE = 1e-9
"""Of the mean variance: keeps a test finite in directions that got no noise at all."""

SLOPES = np.linspace(0.0, 1.0, 9)
LEAST_RATE = 1e-300
LARGEST_EXPONENT = 700.0
BOUND_WIDTH = 3.5
"""Standard deviations from a rate to its bound, to choose a threshold by; not to judge by."""


@dataclass(frozen=True)
class Point:
    """Error rates of a test: taken for the other side, and missed."""

    false_positive: float
    false_negative: float

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter whose best test has these rates."""
        return -float(ndtri(self.false_positive)) - float(ndtri(self.false_negative))

    def delta(self, epsilon: float) -> float:
        """The least delta that allows such a test at ``epsilon``, either side first."""
        price = math.exp(min(epsilon, LARGEST_EXPONENT))
        forth = 1 - self.false_negative - price * self.false_positive
        back = 1 - self.false_positive - price * self.false_negative
        return max(0.0, forth, back)


@dataclass(frozen=True)
class Errors:
    """How often a test erred in ``trials`` fresh samples of either side."""

    false_positives: int
    false_negatives: int
    trials: int

    @property
    def rates(self) -> Point:
        """The rates seen."""
        return Point(self.false_positives / self.trials, self.false_negatives / self.trials)

    def bounds(self, false_alarm: float = FALSE_ALARM / THRESHOLDS) -> Point:
        """Upper bounds on both rates; one of them is wrong with at most ``false_alarm``."""
        return Point(
            upper_bound(self.false_positives, self.trials, false_alarm / 2),
            upper_bound(self.false_negatives, self.trials, false_alarm / 2),
        )


def upper_bound(count: int, trials: int, false_alarm: float) -> float:
    """Clopper and Pearson's bound on a rate of which ``count`` in ``trials`` were seen."""
    whole("count", count, 0)
    fraction("false_alarm", false_alarm)
    if count > whole("trials", trials, 1):
        raise ValueError(f"count must be at most the trials {trials}, got {count}")
    if count == trials:
        return 1.0
    return float(betaincinv(count + 1, trials - count, 1 - false_alarm))


def direction(first: Floats, second: Floats) -> Floats:
    """Fisher's linear discriminant ``(features,)`` of two samples ``(trials, features)``."""
    spread = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    # Features of different size are brought to one scale, so that the ridge is fair to all.
    scale = np.where(spread > 0, spread, 1.0)
    pooled = (covariance(first / scale) + covariance(second / scale)) / 2
    floor = RIDGE * max(float(np.trace(pooled)) / len(pooled), RIDGE)
    moved = (second.mean(axis=0) - first.mean(axis=0)) / scale
    weights = np.linalg.solve(pooled + floor * np.eye(len(pooled)), moved) / scale
    return np.asarray(weights)


def covariance(sample: Floats) -> Floats:
    """Of the columns of ``(trials, features)``."""
    centred = sample - sample.mean(axis=0)
    return np.asarray(centred.T @ centred / len(sample))


def middle_threshold(first: Floats, second: Floats) -> float:
    """Halfway between the means of two samples of scores."""
    return float(first.mean() + second.mean()) / 2


def best_threshold(first: Floats, second: Floats, epsilon: float, trials: int) -> float:
    """Where 1 - fnr - e^epsilon fpr will be largest once ``trials`` fresh samples bound it.

    Far in the tail, where these scores count nothing, a normal tail stands in for the rate.
    """
    cuts = np.sort(second)
    missed = np.arange(cuts.size) / cuts.size
    counted = 1 - np.searchsorted(np.sort(first), cuts, side="left") / first.size
    tail = ndtr((first.mean() - cuts) / max(float(first.std()), LEAST_RATE))
    taken = np.maximum(counted, tail)
    bound = taken + BOUND_WIDTH * np.sqrt(taken / trials)
    gain = 1 - missed - math.exp(min(epsilon, LARGEST_EXPONENT)) * bound
    # Just below a score of the second side, so that it still counts as found.
    return float(np.nextafter(cuts[np.argmax(gain)], -np.inf))


def errors(first: Floats, second: Floats, threshold: float) -> Errors:
    """Errors of the test "above the threshold is the second side" on fresh scores."""
    taken, missed = np.count_nonzero(first > threshold), np.count_nonzero(second <= threshold)
    return Errors(int(taken), int(missed), first.size)


def refutes(point: Point, guarantee: Guarantee) -> bool:
    """Whether a test with error rates of at most ``point`` cannot be under this guarantee."""
    found = ((slope, point.delta(slope)) for slope in slopes(point))
    return any(delta > 0 and delta > guarantee.delta(slope) for slope, delta in found)


def slopes(point: Point) -> Iterable[float]:
    """Epsilons at which to compare: a few up to the last that matters, and the tangent's.

    The tangent at ``point`` of its own Gaussian trade-off curve makes the comparison with another
    Gaussian curve the comparison of their mu.
    """
    low, high = sorted((point.false_positive, point.false_negative))
    last = math.log(max(1.0, (1 - high) / max(low, LEAST_RATE)))
    ends = ndtri(np.clip([low, high], LEAST_RATE, math.nextafter(1.0, 0.0)))
    return sorted({*(last * SLOPES), float(abs(ends[0] ** 2 - ends[1] ** 2)) / 2})
