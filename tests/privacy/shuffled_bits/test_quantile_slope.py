"""Slope, deviation and tangent against their definitions, and the two forms (MATH 4)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import binom

from croupier.errors import GuaranteeError
from croupier.privacy import gdp
from croupier.privacy.shuffled_bits.binomial_tails import binomial, quantiles
from croupier.privacy.shuffled_bits.quantile_slope import (
    Slope,
    _bend,
    _steepest_chord,
    _valley,
    fast_slope,
    find_slope,
    find_window,
    general_slope,
)

SENSITIVITY = math.sqrt(4.5)


def labels_of(dim: int) -> int:
    return dim + dim * (dim + 1) // 2


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


@given(
    coins=st.integers(2, 400),
    bias=st.sampled_from([0.03, 0.25, 0.5, 0.75, 0.9]),
    power=st.floats(-10, -0.61),
    part=st.floats(0, 1),
)
def test_the_slope_is_that_of_the_steepest_of_all_chords(
    coins: int, bias: float, power: float, part: float
) -> None:
    """One by one: none is left out, and none that does not count is taken."""
    window = find_window(coins, bias, 10**power)
    shift = math.ceil(part * min(window.low, coins - 1 - window.high))
    assume(shift > 0)
    values = quantiles(binomial(coins, bias), window.low - shift, window.high + shift)
    steepest = max(
        (values[shift : values.size - shift + k] - values[shift - k : values.size - shift]).max()
        / k
        for k in range(1, shift + 1)
    )
    found = general_slope(coins, bias, shift, 10**power).slope
    assert steepest * (1 + 1e-9) <= found <= steepest * (1 + 2e-9)


def test_increments_that_are_no_valley_are_raised_to_one() -> None:
    heights = np.array([3.0, 5.0, 1.0, 4.0, 2.0, 6.0, 5.0])
    assert _valley(heights).tolist() == [5.0, 5.0, 1.0, 4.0, 4.0, 6.0, 6.0]
    rng = np.random.default_rng(0)
    for _ in range(200):
        heights = rng.random(rng.integers(6, 15))
        chords = [heights[at : at + k] for k in (1, 2, 3) for at in range(3 - k, heights.size - 2)]
        assert _steepest_chord(heights, 3, 0.0) >= max(chord.mean() for chord in chords)
        assert _steepest_chord(heights, 3, 0.5) >= max(
            (sum(one) + 0.5) / len(one) for one in chords
        )


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


@settings(deadline=None, max_examples=150)
@given(
    coins=st.integers(24, 4000),
    distance=st.floats(0.2, 60.0),
    dim=st.integers(1, 20),
    power=st.floats(-12.0, -1.0),
    times=st.integers(1, 100),
)
def test_the_fast_form_is_never_below_the_general_one_and_close_to_it(
    coins: int, distance: float, dim: int, power: float, times: int
) -> None:
    labels = labels_of(dim)
    tau = 1e-3 * 10**power / (labels * times)
    fast = fast_slope(coins, math.ceil(distance), tau)
    assume(fast is not None)
    assert fast is not None
    general = general_slope(coins, 0.5, math.ceil(distance), tau)
    assert fast.slope >= general.slope * (1 - 1e-10)
    mus = fast.mu(distance, labels), general.mu(distance, labels)
    assert mus[1] * (1 - 1e-10) <= mus[0] <= mus[1] * 1.001


@pytest.mark.slow
@pytest.mark.parametrize("coins", [20_001, 300_000, 4_000_000])
@pytest.mark.parametrize("shift", [3, 40, 300])
@pytest.mark.parametrize("tau", [1e-4, 1e-9, 1e-16])
def test_the_fast_form_is_the_general_one_for_many_coins(
    coins: int, shift: int, tau: float
) -> None:
    fast, general = fast_slope(coins, shift, tau), general_slope(coins, 0.5, shift, tau)
    assert fast is not None
    assert general.slope * (1 - 1e-10) <= fast.slope <= general.slope * (1 + 1e-6)
    assert general.mu(shift, 230) * (1 - 1e-10) <= fast.mu(shift, 230)


@pytest.mark.parametrize("users", [100, 1000])
@pytest.mark.parametrize("honest", [1.0, 2 / 3])
def test_both_forms_agree_at_batches_honest_fractions_and_participations(
    users: int, honest: float
) -> None:
    coins = math.floor(honest * users) * 40
    for dim, times in ((1, 1), (5, 20), (20, 100)):
        tau = 1e-3 * 1e-12 / (labels_of(dim) * times)
        fast, general = fast_slope(coins, 15, tau), general_slope(coins, 0.5, 15, tau)
        assert fast is not None
        assert general.mu(14.5, labels_of(dim)) * (1 - 1e-10) <= fast.mu(14.5, labels_of(dim))
        assert fast.mu(14.5, labels_of(dim)) <= general.mu(14.5, labels_of(dim)) * 1.001


@pytest.mark.parametrize(("bias", "product"), [(0.5, 1.005), (0.25, 1.069)])
def test_skew_steepens_the_slope(bias: float, product: float) -> None:
    found = find_slope(2000, bias, 20, 5e-10)
    spread = math.sqrt(2000 * bias * (1 - bias))
    assert found.slope * spread == pytest.approx(product, abs=1e-3)


def test_the_slope_of_many_coins_is_that_of_the_gaussian() -> None:
    for coins in (10**6, 10**9):
        found = fast_slope(coins, 100, 1e-9)
        assert found is not None
        spread = math.sqrt(coins) / 2
        tail = gdp.epsilon_of(1.0, 1e-9) ** 2  # larger than the square of the tail's quantile
        assert 1 <= found.slope * spread <= 1 + 2 * tail / coins + 1e-8


@pytest.mark.parametrize(
    ("coins", "shift", "tau"),
    [
        pytest.param(23, 1, 0.1, id="too few coins"),
        pytest.param(100, 45, 1e-3, id="window beyond the support"),
        pytest.param(60, 4, 1e-12, id="window at the end of the support"),
        pytest.param(24, 1, 0.2499, id="slope too steep for Lemma M"),
    ],
)
def test_the_fast_form_says_nothing_outside_its_conditions(
    coins: int, shift: int, tau: float
) -> None:
    assert fast_slope(coins, shift, tau) is None
    assert fast_slope(100 * coins, shift, tau) is not None


def test_the_general_form_takes_over_where_the_fast_one_is_silent() -> None:
    assert find_slope(24, 0.5, 1, 0.2499) == general_slope(24, 0.5, 1, 0.2499)


def test_the_window_is_where_the_tails_end() -> None:
    # 10 fair coins: P[W > 7] = 56/1024, P[W > 8] = 11/1024.
    assert find_window(10, 0.5, 0.06).high == 7
    assert find_window(10, 0.5, 0.05).high == 8
    assert find_window(10, 0.5, 56 / 1024).high == 8  # on an atom: rounded to the safe side
    window = find_window(200, 0.25, 1e-4)
    mirror = find_window(200, 0.75, 1e-4)
    assert (mirror.low, mirror.high) == (199 - window.high, 199 - window.low)


def test_a_window_that_leaves_the_support_is_refused_with_both_numbers() -> None:
    with pytest.raises(GuaranteeError, match=r"counts from -\d+ to \d+, but 40 coins .* 0 to 39"):
        find_slope(40, 0.5, 30, 1e-3)


def test_too_many_counts_are_not_evaluated() -> None:
    with pytest.raises(GuaranteeError, match=r"not evaluated: it looks at 3\d{6} counts"):
        general_slope(4 * 10**6, 0.5, 1_600_000, 1e-9)


def test_as_many_coins_as_theorems_ask_for_are_evaluated() -> None:
    found = general_slope(3 * 10**9, 0.25, 40, 1e-280)
    assert found.slope * math.sqrt(3 * 10**9 * 3 / 16) == pytest.approx(1, rel=1e-3)


def test_a_tail_of_a_quarter_or_more_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tau must be between 0 and 0\.25, got 0\.25"):
        find_slope(100, 0.5, 1, 0.25)


def test_mu_takes_the_smaller_surcharge() -> None:
    slope = Slope(0.1, 0.02, 0.03)
    assert slope.mu(2.0, 100) == pytest.approx(0.2 + 0.06)
    assert slope.mu(2.0, 4) == pytest.approx(0.2 + 0.04)
    assert Slope(0.1, 0.02).mu(2.0, 100) == pytest.approx(0.2 + 0.2)


def test_the_bend_is_r_minus_one_minus_its_logarithm() -> None:
    halves = np.array([0.049, 0.051, 0.3, 2.0, 20.0])
    ratio = 2 * halves / -np.expm1(-2 * halves)
    np.testing.assert_allclose(_bend(halves), ratio - 1 - np.log(ratio), rtol=1e-11)
    np.testing.assert_allclose(_bend(np.array([1e-9])), [5e-19], rtol=1e-15)
