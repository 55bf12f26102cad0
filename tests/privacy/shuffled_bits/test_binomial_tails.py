"""Binomial tails and quantiles against exact integers, and against themselves where N is large."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr, ndtri

from croupier.errors import GuaranteeError
from croupier.privacy.shuffled_bits.binomial_tails import (
    Binomial,
    binomial,
    bracket_quantiles,
    centre_quantile,
    first_bracketed,
    log_pmf,
    log_upper_tails,
    quantiles,
)

BIASES = (0.5, 0.25, 0.03, 0.95, 0.7, 1e-4)


def exact_masses(law: Binomial) -> list[Fraction]:
    ones, zeros = law.bias, 1 - law.bias
    return [
        math.comb(law.coins, count) * ones**count * zeros ** (law.coins - count)
        for count in range(law.coins + 1)
    ]


def exact_tails(law: Binomial) -> list[Fraction]:
    """P[W > u] for u = 0..coins-1."""
    return list(accumulate(reversed(exact_masses(law)[1:])))[::-1]


def exact_log(value: Fraction) -> float:
    """Safe where the value itself is below the range of floats."""
    scale = value.denominator.bit_length() - value.numerator.bit_length()
    return math.log(float(value * Fraction(2) ** scale)) - scale * math.log(2)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("coins", [1, 2, 3, 7, 24, 61, 150])
def test_probabilities_agree_with_exact_integers(coins: int, bias: float) -> None:
    law = binomial(coins, bias)
    expected = [exact_log(mass) for mass in exact_masses(law)]
    found = log_pmf(law, np.arange(coins + 1))
    np.testing.assert_allclose(found, expected, rtol=2e-14, atol=4e-15)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("coins", [2, 3, 7, 24, 61, 150])
def test_tails_agree_with_exact_integers(coins: int, bias: float) -> None:
    law = binomial(coins, bias)
    first = law.below_mean
    expected = [exact_log(tail) for tail in exact_tails(law)[first:]]
    found = log_upper_tails(law, first, coins - 1)
    np.testing.assert_allclose(found, expected, rtol=2e-14, atol=4e-15)


@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("coins", [2, 3, 7, 24, 61])
def test_quantiles_agree_with_exact_integers_in_both_tails(coins: int, bias: float) -> None:
    law = binomial(coins, bias)
    upper = np.array([float(tail) for tail in exact_tails(law)])
    lower = np.array([float(1 - tail) for tail in exact_tails(law)])
    usable = np.minimum(upper, lower) > 1e-290
    expected = np.where(upper < lower, -ndtri(upper), ndtri(lower))[usable]
    found = quantiles(law, 0, coins - 1)[usable]
    np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("coins", [2, 24, 1000, 10**6])
def test_the_centre_of_even_fair_coins_keeps_its_digits(coins: int) -> None:
    found = centre_quantile(coins)
    law = binomial(coins, 0.5)
    assert found == pytest.approx(quantiles(law, coins // 2, coins // 2)[0], abs=1e-15)
    # 2 Phi(z) - 1 is the central mass; Wallis brackets it.
    mass = math.erf(found / math.sqrt(2))
    half = coins // 2
    assert 1 / math.sqrt(math.pi * (half + 0.2733)) <= mass <= 1 / math.sqrt(math.pi * half)


@pytest.mark.parametrize("bias", [0.5, 0.25, 0.7])
@pytest.mark.parametrize("coins", [10**4, 10**6, 10**9])
def test_large_tails_agree_with_an_independent_library(coins: int, bias: float) -> None:
    law = binomial(coins, bias)
    spread = math.sqrt(coins * bias * (1 - bias))
    for distance in (0.1, 1.0, 3.0, 6.0):
        count = law.below_mean + round(distance * spread)
        found = float(log_upper_tails(law, count, count)[0])
        # The incomplete beta function loses digits with the square root of the coins.
        library = float(stats.binom.logsf(count, coins, bias))
        assert found == pytest.approx(library, rel=1e-13 * spread + 1e-12)


@pytest.mark.parametrize("bias", [0.5, 0.25, 0.7, 0.03])
@pytest.mark.parametrize("coins", [500, 10**5, 10**9])
def test_neighbouring_tails_differ_by_one_probability(coins: int, bias: float) -> None:
    law = binomial(coins, bias)
    spread = math.sqrt(coins * bias * (1 - bias))
    count = law.below_mean + round(5 * spread)
    inner, outer = (float(log_upper_tails(law, u, u)[0]) for u in (count, count + 1))
    mass = float(log_pmf(law, np.array([count + 1]))[0])
    assert math.exp(outer - inner) + math.exp(mass - inner) == pytest.approx(1.0, abs=2e-12)


def test_a_range_deeper_than_floats_reach_equals_its_points() -> None:
    law = binomial(3000, 0.5)
    together = log_upper_tails(law, 1500, 2999)
    assert together[-1] == pytest.approx(-3000 * math.log(2), rel=1e-13)
    for count in (1500, 1900, 2400, 2900, 2990):
        alone = float(log_upper_tails(law, count, count)[0])
        assert together[count - 1500] == pytest.approx(alone, rel=1e-13)


@settings(deadline=None)
@given(st.integers(2, 10**7), st.sampled_from(BIASES), st.floats(0.0, 1.0))
def test_quantiles_lie_in_the_zubkov_serov_bracket(coins: int, bias: float, at: float) -> None:
    law = binomial(coins, bias)
    spread = math.sqrt(coins * bias * (1 - bias))
    low = max(0, math.floor(law.below_mean - 8 * spread))
    high = min(coins - 1, math.ceil(law.below_mean + 8 * spread))
    count = low + round(at * (high - low))
    below, above = bracket_quantiles(law, np.array([count, count + 1]))
    found = float(quantiles(law, count, count)[0])
    slack = 1e-12 * (1 + abs(found)) * max(1, spread * 1e-3)
    assert below - slack <= found <= above + slack


@settings(deadline=None)
@given(st.integers(2, 10**9), st.sampled_from((0.5, 0.25, 0.95)), st.floats(0.0, 9.0))
def test_the_first_bracketed_count_is_the_first(coins: int, bias: float, quantile: float) -> None:
    law = binomial(coins, bias)
    found = first_bracketed(law, quantile)
    assert law.below_mean < found <= coins + 1
    if found <= coins:
        assert bracket_quantiles(law, np.array([found]))[0] >= quantile
    if found > law.below_mean + 1:
        assert bracket_quantiles(law, np.array([found - 1]))[0] < quantile


@pytest.mark.parametrize("coins", [24, 25, 1000, 1001])
def test_quantiles_of_fair_coins_are_odd_about_the_centre(coins: int) -> None:
    values = quantiles(binomial(coins, 0.5), 0, coins - 1)
    np.testing.assert_allclose(values, -values[::-1], rtol=1e-13, atol=1e-15)
    assert np.all(np.diff(ndtr(values)) >= 0)


def test_what_cannot_be_computed_is_refused() -> None:
    with pytest.raises(ValueError, match="bias must be between 0 and 1, got 1"):
        binomial(10, 1.0)
    with pytest.raises(ValueError, match="coins must be below 2"):
        binomial(2**62, 0.5)
    with pytest.raises(ValueError, match="first and last must be between 5 and 9, got 4 and 6"):
        log_upper_tails(binomial(10, 0.5), 4, 6)
    with pytest.raises(ValueError, match=r"first and last must be in 0\.\.9, got 3 and 10"):
        quantiles(binomial(10, 0.5), 3, 10)
    with pytest.raises(GuaranteeError, match="was not evaluated"):
        log_upper_tails(binomial(10**17, 0.5), 10**17 // 2, 10**17 // 2)
