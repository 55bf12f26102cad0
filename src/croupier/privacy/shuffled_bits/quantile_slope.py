"""How steep binomial counts are in normal quantiles: fast and general form (MATH 4, PROOF 3, 7)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri_exp

from croupier.errors import GuaranteeError
from croupier.privacy.shuffled_bits.binomial_tails import (
    Binomial,
    Floats,
    binomial,
    bracket_quantiles,
    centre_quantile,
    first_bracketed,
    log_upper_tails,
    quantiles,
)

MOST_COUNTS = 3_000_000
"""Counts that the general form looks at before it gives up: some seconds."""
LARGEST_TAIL = 0.25
MOST_EXPONENT = 700.0


@dataclass(frozen=True)
class Slope:
    """How fast the normal quantile of a count moves per step of the input (MATH 4).

    ``slope`` is a, ``deviation`` is e, and ``near`` is c, infinite where it is unknown.
    """

    slope: float
    deviation: float
    near: float = math.inf

    def mu(self, distance: float, labels: int) -> float:
        """The mu of inputs ``distance`` steps apart in ``labels`` counts (PROOF 4)."""
        extra = min(self.deviation * math.sqrt(labels), self.near * distance)
        return (self.slope * distance + extra) * (1 + 1e-14)


@dataclass(frozen=True)
class Window:
    """The counts that matter at a tail: ``low`` and ``high`` are the widened ends (PROOF 3)."""

    low: int
    high: int

    def fits(self, coins: int, shift: int) -> bool:
        """Whether every chord of up to ``shift`` steps has finite quantiles at both ends."""
        return self.low >= shift and self.high + shift <= coins - 1


@lru_cache(maxsize=4096)
def find_window(coins: int, bias: float, tau: float) -> Window:
    """The largest u with P[W <= u] <= tau and the smallest with P[W > u] <= tau."""
    if not 0 < tau < LARGEST_TAIL:
        raise ValueError(f"tau must be between 0 and {LARGEST_TAIL}, got {tau!r}")
    law = binomial(coins, bias)
    high = _upper_end(law, tau)
    below = high if law.fair else _upper_end(law.mirrored, tau)
    return Window(coins - 1 - below, high)


def _upper_end(law: Binomial, tau: float) -> int:
    """min{u : P[W > u] <= tau (1 - 1e-9)}; rounding it up is safe (PROOF 7)."""
    target = math.log(tau) + math.log1p(-1e-9)
    found = first_bracketed(law, -float(ndtri_exp(target)))
    # The bracket leaves two candidates; one more on either side forgives its rounding.
    first, end = max(law.below_mean, found - 2), min(law.coins, found + 2)
    if first >= end:
        return law.coins
    above = int(np.count_nonzero(log_upper_tails(law, first, end - 1) > target))
    return first + above if first + above < end else law.coins


def fast_slope(coins: int, shift: int, tau: float) -> Slope | None:
    """The slope of fair coins from four tails (MATH 4), None outside the range of Lemma M."""
    return fast_slope_at(coins, shift, find_window(coins, 0.5, tau).high)


@lru_cache(maxsize=4096)
def fast_slope_at(coins: int, shift: int, high: int) -> Slope | None:
    """The same for a window that ends at ``high``."""
    law = binomial(coins, 0.5)
    if not _quantiles_are_convex(law, shift, high):
        return None
    inner, middle, outer = (float(z) for z in quantiles(law, high - 1, high + 1))
    far = float(quantiles(law, high + shift, high + shift)[0])
    slope = (far - middle + quantile_error(law, far)) / shift
    deviation = max(_deviation(middle, middle - inner), _centre_deviation(coins))
    steepest = math.expm1(outer * (outer - middle)) / outer
    return _rounded_up(slope, deviation, steepest)


def _quantiles_are_convex(law: Binomial, shift: int, high: int) -> bool:
    """The conditions of Lemma M and of its use up to ``high + shift`` (PROOF 7)."""
    coins, end = law.coins, high + shift
    if coins < 24 or 2 * (high - 1) <= coins or end + 1 > coins - 2:
        return False
    last, first = bracket_quantiles(law, np.array([end + 1, end - 2]))
    return bool((last - first) / 2 <= 2.05 * (coins + 1) ** (-3 / 8))


def quantile_error(law: Binomial, largest: float) -> float:
    """A bound on the error of a difference of quantiles: a few units in the last place.

    The odds of an unfair coin are rounded, and the error is raised to the power of the steps.
    """
    steps = 0.0 if law.fair else math.sqrt(law.coins * float(law.bias * (1 - law.bias)))
    return (4e-15 + 4e-16 * steps) * max(1.0, largest)


def _rounded_up(slope: float, deviation: float, steepest: float) -> Slope:
    """The slope with all three numbers on the safe side; ``steepest`` is a' (PROOF 3)."""
    slope *= 1 + 1e-9
    deviation *= 1 + 1e-6
    return Slope(slope, deviation, max(deviation, steepest * (1 + 1e-6) - slope))


def _deviation(outer: float, length: float) -> float:
    """How far the quantile may leave its chord on a segment ending at ``outer`` (PROOF 3)."""
    return float(_deviations(np.array([outer]), np.array([length]))[0])


@lru_cache(maxsize=4096)
def _centre_deviation(coins: int) -> float:
    """Both halves of the segment across the median, which fair coins have if they are even."""
    if coins % 2:
        return 0.0
    centre = centre_quantile(coins)
    return 2 * _deviation(centre, centre)


def _deviations(outer: Floats, lengths: Floats) -> Floats:
    """G(theta) / outer with theta = outer * length."""
    return np.asarray(_bend(outer * lengths / 2) / outer)


def _bend(half: Floats) -> Floats:
    """G = r - 1 - ln r, r = 2x/(1 - exp(-2x)), as (x coth x - 1) + ln(sinh x / x), x > 0."""
    square = half * half
    series = square * (1 / 2 - square * (1 / 36 - square * (1 / 405 - square / 4200)))
    safe = np.maximum(half, 0.05)
    log_sinh = safe + np.log1p(-np.exp(-2 * safe)) - math.log(2)
    return np.where(half < 0.05, series, safe / np.tanh(safe) - 1 + log_sinh - np.log(safe))


def general_slope(coins: int, bias: float, shift: int, tau: float) -> Slope:
    """The slope for any bias, by all chords (MATH 4).

    A :class:`~croupier.errors.GuaranteeError` says that the window leaves the support, so that
    nothing can be certified, or that there are too many counts to look at.
    """
    window = find_window(coins, bias, tau)
    if not window.fits(coins, shift):
        raise GuaranteeError(
            f"the certificate needs counts from {window.low - shift} to {window.high + shift}, "
            f"but {coins} coins have quantiles only from 0 to {coins - 1}"
        )
    counts = window.high - window.low + 2 * shift
    if counts > MOST_COUNTS:
        raise GuaranteeError(
            f"the general certificate was not evaluated: it looks at {counts} counts, "
            f"at most {MOST_COUNTS} are allowed"
        )
    return _general_slope(coins, bias, shift, window)


@lru_cache(maxsize=4096)
def _general_slope(coins: int, bias: float, shift: int, window: Window) -> Slope:
    law = binomial(coins, bias)
    values = quantiles(law, window.low - shift, window.high + shift)
    error = quantile_error(law, float(np.abs(values[[0, -1]]).max()))
    slope = _steepest_chord(np.diff(values), shift, error)
    inside = values[shift - 1 : values.size - shift + 1]
    deviation = _largest_deviation(inside[1:-1])
    return _rounded_up(slope, deviation, _steepest_tangent(inside))


def _steepest_chord(increments: Floats, shift: int, error: float) -> float:
    """A bound on the average increment over up to ``shift`` steps that end or start inside.

    One step to the right a chord wins one increment and loses another. In a valley it wins less
    than it loses until it wins more from there on: the first or the last chord is the steepest.
    """
    valley, steps = _valley(increments), np.arange(1, shift + 1)
    first, last = np.cumsum(valley[shift - 1 :: -1]), np.cumsum(valley[valley.size - shift :])
    # Every addition rounds once.
    sums = np.maximum(first, last) * (1 + 2.3e-16 * steps)
    return float(((sums + error) / steps).max())


def _valley(heights: Floats) -> Floats:
    """Heights raised so that they fall to the least of them and rise from there."""
    least = int(heights.argmin())
    left = np.maximum.accumulate(heights[least::-1])[::-1]
    return np.concatenate([left, np.maximum.accumulate(heights[least:])[1:]])


def _largest_deviation(inside: Floats) -> float:
    """The largest deviation over the unit segments of the window (PROOF 3)."""
    left, right = inside[:-1], inside[1:]
    outer = np.maximum(np.abs(left), np.abs(right))
    across = (left < 0) & (right > 0)
    one_sided = _deviations(outer, right - left)
    both = [_deviation_across(*ends) for ends in zip(left[across], right[across], strict=True)]
    return max(float(one_sided[~across].max(initial=0.0)), max(both, default=0.0))


def _deviation_across(left: float, right: float) -> float:
    """Both ends inside the segment across the median: two halves, and the bend between them."""
    below, above = ndtr(left), ndtr(right)
    share = (0.5 - below) / (above - below)
    bend = abs(left + (right - left) * share)
    return float(_deviation(-left, -left) + _deviation(right, right) + bend)


def _steepest_tangent(values: Floats) -> float:
    """(exp(theta) - 1) / outer, which no derivative on a segment passes (PROOF 3)."""
    outer = np.maximum(np.abs(values[:-1]), np.abs(values[1:]))
    theta = outer * np.diff(values)
    if theta.max() > MOST_EXPONENT:
        return math.inf
    return float((np.expm1(theta) / outer).max())


def find_slope(coins: int, bias: float, shift: int, tau: float) -> Slope:
    """The fast form where it is proved, else the general one (MATH 4)."""
    found = fast_slope(coins, shift, tau) if bias == 0.5 else None
    return found or general_slope(coins, bias, shift, tau)
