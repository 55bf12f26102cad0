"""Slope, deviation and tangent against their definitions, computed the slow way (MATH 4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from croupier.privacy.counts import CountRelease
from croupier.privacy.slopes import fast_slope, find_slope, general_slope
from croupier.privacy.tails import binomial, quantiles


def cdf(coins: int, bias: float) -> np.ndarray:
    return binom.cdf(np.arange(coins + 1), coins, bias)


def segment_deviation(below: float, above: float) -> float:
    """Phi^-1 along the interpolated cdf against its chord, on a fine grid of one unit segment."""
    share = np.linspace(0, 1, 2001)[1:-1]
    low, high = ndtri(below), ndtri(above)
    gap = ndtri(below + share * (above - below)) - (low + share * (high - low))
    if below < 0.5 < above:
        return float(gap.max() - gap.min())
    return float(np.abs(gap).max())


@pytest.mark.parametrize("bias", [0.05, 0.25, 0.5, 0.75, 0.95])
@pytest.mark.parametrize("tau", [1e-2, 1e-4])
def test_the_deviation_covers_every_segment_that_counts(bias: float, tau: float) -> None:
    coins, shift = 400, 3
    law = cdf(coins, bias)
    # Segment [u, u+1] holds an end x with F~(x) > tau or F~(x) < 1 - tau: both ends count.
    inside = [u for u in range(coins) if law[u + 1] > tau and law[u] < 1 - tau]
    worst = max(segment_deviation(law[u], law[u + 1]) for u in inside)
    assert general_slope(coins, bias, shift, tau).deviation >= worst
    assert find_slope(coins, bias, shift, tau).deviation >= worst


@pytest.mark.parametrize("bias", [0.05, 0.25, 0.5, 0.75, 0.95])
def test_the_slope_covers_every_chord_that_counts(bias: float) -> None:
    coins, shift, tau = 400, 4, 1e-3
    law = cdf(coins, bias)
    z = ndtri(law)
    chords = [
        (z[u] - z[u - k]) / k
        for k in range(1, shift + 1)
        for u in range(k, coins)
        if law[min(u + 1, coins)] > tau and law[max(u - k - 1, 0)] < 1 - tau and np.isfinite(z[u])
    ]
    found = general_slope(coins, bias, shift, tau).slope
    # cdf near 1 loses digits in scipy's upper tail, hence the slack.
    assert found >= max(chords) * (1 - 1e-6)
    assert found <= max(chords) * (1 + 1e-2)


@pytest.mark.parametrize("coins", [101, 400, 5000, 10**6])
def test_slope_and_near_together_cover_the_steepest_tangent(coins: int) -> None:
    tau = 1e-6
    found = fast_slope(coins, 3, tau)
    assert found is not None
    law = binomial(coins, 0.5)
    upper = binom.isf(tau * (1 - 1e-9), coins, 0.5)
    high = int(upper)
    middle, outer = (float(z) for z in quantiles(law, high, high + 1))
    steepest = math.expm1(outer * (outer - middle)) / outer
    assert found.slope + found.near >= steepest
    assert found.near >= found.deviation


def test_two_reports_in_a_release_are_rounded_up() -> None:
    release = CountRelease(5000, 0.5, 10.0, 20, reports=2)
    slope = find_slope(5000, 0.5, math.ceil(2 * (10 + math.sqrt(20))), 1e-6)
    assert release.mu(1e-6) > slope.slope * 2 * (10 + math.sqrt(20))
