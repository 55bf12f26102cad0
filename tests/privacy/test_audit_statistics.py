from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from croupier.privacy import gdp
from croupier.privacy.audit_statistics import (
    FALSE_ALARM,
    THRESHOLDS,
    Errors,
    Point,
    best_threshold,
    direction,
    errors,
    middle_threshold,
    refutes,
    upper_bound,
)
from croupier.privacy.guarantee import Guarantee, PureCurve, gaussian, unproved


@pytest.mark.parametrize(("count", "trials"), [(0, 50), (3, 50), (49, 50), (1000, 400_000)])
def test_an_upper_bound_leaves_exactly_the_false_alarm_below_what_was_seen(
    count: int, trials: int
) -> None:
    bound = upper_bound(count, trials, 2.5e-4)
    assert binom.cdf(count, trials, bound) == pytest.approx(2.5e-4, rel=1e-6)


def test_a_test_that_always_errs_has_the_bound_one() -> None:
    assert upper_bound(50, 50, 0.01) == 1.0


@pytest.mark.parametrize(("count", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_impossible_counts_are_refused(count: int, trials: int) -> None:
    with pytest.raises(ValueError, match=r"count|trials"):
        upper_bound(count, trials, 0.01)


def test_both_thresholds_together_keep_the_false_alarm_rate() -> None:
    found = Errors(30, 70, 1000)
    bounds = found.bounds()
    share = FALSE_ALARM / (2 * THRESHOLDS)
    assert bounds.false_positive == upper_bound(30, 1000, share)
    assert bounds.false_negative == upper_bound(70, 1000, share)
    assert bounds.mu < found.rates.mu


@pytest.mark.parametrize("threshold", [-0.4, 0.3, 1.1])
def test_the_mu_of_a_gaussian_test_is_its_distance(threshold: float) -> None:
    rates = Point(norm.sf(threshold), norm.cdf(threshold - 0.7))
    assert rates.mu == pytest.approx(0.7)


def test_the_delta_of_a_point_is_that_of_the_better_side() -> None:
    assert Point(0.1, 0.3).delta(0.0) == pytest.approx(0.6)
    assert Point(0.1, 0.3).delta(1.0) == pytest.approx(1 - 0.3 - math.e * 0.1)
    assert Point(0.3, 0.1).delta(1.0) == pytest.approx(1 - 0.3 - math.e * 0.1)
    assert Point(0.4, 0.4).delta(5000.0) == 0.0


@pytest.mark.parametrize("rates", [(0.45, 0.44), (0.02, 0.3), (0.3, 0.02), (1e-6, 0.4)])
def test_a_gaussian_claim_is_refuted_exactly_when_the_points_mu_is_higher(
    rates: tuple[float, float],
) -> None:
    point = Point(*rates)
    assert refutes(point, gaussian(point.mu * (1 - 1e-6), "less than shown"))
    assert not refutes(point, gaussian(point.mu * (1 + 1e-6), "enough"))


def test_a_claim_without_mu_is_compared_by_error_rates() -> None:
    epsilon = 1.0
    best = Point(1 / (1 + math.e), 1 / (1 + math.e))  # randomised response reaches its claim
    assert not refutes(best, Guarantee("exact", PureCurve(epsilon + 1e-9)))
    assert refutes(best, Guarantee("too little", PureCurve(epsilon - 1e-3)))
    far = Point(0.01, 0.95)  # (0.05 - delta) / 0.01 is above e
    assert refutes(far, Guarantee("too little", PureCurve(epsilon)))


@pytest.mark.parametrize("rates", [(1.0, 1.0), (1.0, 0.2), (0.2, 1.0), (0.5, 0.5), (0.6, 0.7)])
def test_a_test_that_tells_nothing_refutes_nothing(rates: tuple[float, float]) -> None:
    assert not refutes(Point(*rates), gaussian(1e-9, "hardly anything"))


def test_nothing_can_be_refuted_where_nothing_is_proved() -> None:
    assert not refutes(Point(1e-9, 1e-9), unproved("no claim"))


def test_fishers_direction_is_the_whitened_difference() -> None:
    rng = np.random.default_rng(0)
    mixing = np.array([[1.0, 0.0], [3.0, 0.5]])
    moved = np.array([0.4, 0.1])
    first = rng.standard_normal((200_000, 2)) @ mixing.T
    second = rng.standard_normal((200_000, 2)) @ mixing.T + moved
    weights = direction(first, second)
    wanted = np.linalg.solve(mixing @ mixing.T, moved)
    # Each weight errs by about 1e-2; ten of these are wrong with probability below 1e-9.
    assert weights == pytest.approx(wanted, abs=0.1)


def test_directions_without_noise_separate_instead_of_failing() -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((1000, 1)) @ np.ones((1, 3))
    first, second = noise, noise[::-1] + np.array([1.0, 0.0, 0.0])
    weights = direction(first, second)
    assert (second @ weights).min() > (first @ weights).max()


def test_views_without_any_noise_separate_too() -> None:
    first, second = np.zeros((10, 2)), np.ones((10, 2))
    weights = direction(first, second)
    threshold = middle_threshold(first @ weights, second @ weights)
    assert errors(first @ weights, second @ weights, threshold) == Errors(0, 0, 10)


def test_the_sharp_threshold_is_the_likelihood_ratio_at_epsilon() -> None:
    rng = np.random.default_rng(2)
    mu, epsilon = 1.5, 1.0
    first, second = rng.standard_normal(400_000), mu + rng.standard_normal(400_000)
    threshold = best_threshold(first, second, epsilon, 10**9)
    reached = norm.sf(threshold - mu) - math.exp(epsilon) * norm.sf(threshold)
    # The maximum is flat: an error of 0.05 in the threshold costs less than 1e-3.
    assert reached == pytest.approx(gdp.delta_of(mu, epsilon), abs=1e-3)


def test_the_sharp_threshold_reaches_into_tails_that_were_not_sampled() -> None:
    rng = np.random.default_rng(3)
    mu, epsilon = 3.9, 10.0
    first, second = rng.standard_normal(20_000), mu + rng.standard_normal(20_000)
    threshold = best_threshold(first, second, epsilon, 10**9)
    reached = norm.sf(threshold - mu) - math.exp(epsilon) * norm.sf(threshold)
    assert reached == pytest.approx(gdp.delta_of(mu, epsilon), abs=0.01)


def test_errors_count_either_side() -> None:
    first, second = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0])
    assert errors(first, second, 1.0) == Errors(2, 1, 4)


def test_an_honest_gaussian_is_flagged_no_more_often_than_stated() -> None:
    rng = np.random.default_rng(4)
    mu, trials, audits = 0.5, 2000, 4000
    taken = rng.binomial(trials, norm.sf(mu / 2), (audits, 2))
    flagged = sum(
        refutes(Errors(int(one), int(two), trials).bounds(), gaussian(mu, "exact"))
        for one, two in taken
    )
    # At most 2 are expected at FALSE_ALARM / 2 each; above 12 has probability below 1e-6.
    assert flagged <= 12
