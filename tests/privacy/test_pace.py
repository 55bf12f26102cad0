"""A mu that grows with the level of a test: its curve against all tests (PROOF 8c)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from croupier.privacy.gdp import delta_of
from croupier.privacy.pace import Pace, steady

STEPS = range(1, 33)
LEVELS = tuple(step / 4 for step in STEPS)
GROWING = Pace(0.62, LEVELS, tuple(0.3 + step / 100 for step in STEPS))
SLOW = Pace(0.096, LEVELS, tuple(0.032 + step / 500 for step in STEPS))
FAST = Pace(2.0, LEVELS, tuple(1.2 + step / 40 for step in STEPS))
PACES = {"growing": GROWING, "slow": SLOW, "fast": FAST}


def gain(mu: float, level: float, epsilon: float) -> float:
    return float(ndtr(mu - level) - math.exp(epsilon) * norm.sf(level))


def best_gain(pace: Pace, epsilon: float) -> float:
    """Piece by piece the best test, above and below the median.

    Mus that a test could cross the median with are skipped. A piece holds the tests below the
    median that would stay in it but not in the one before.
    """
    kept = [(level, mu) for level, mu in zip(pace.levels, pace.mus, strict=True) if mu <= level]
    found, start, below = [float(ndtr(kept[-1][1] - kept[-1][0]))], 0.0, 0.0
    for level, mu in kept:
        best = min(max(epsilon / mu + mu / 2, start), level)
        found += [gain(mu, best, epsilon), gain(mu, -below, epsilon)]
        start, below = level, level - mu
    return max(found)


@pytest.mark.parametrize("name", PACES)
def test_delta_is_the_best_gain_of_all_tests(name: str) -> None:
    pace = PACES[name]
    for epsilon in np.linspace(0, 4 * pace.mu, 401):
        exact = min(best_gain(pace, epsilon), delta_of(pace.mu, epsilon))
        assert pace.delta(epsilon) == pytest.approx(exact, rel=1e-8)
        assert pace.delta(epsilon) >= exact * (1 - 1e-12)


@pytest.mark.parametrize("name", PACES)
def test_delta_is_between_those_of_the_smallest_and_the_largest_mu(name: str) -> None:
    pace = PACES[name]
    for epsilon in np.linspace(0, 6 * pace.mu, 81):
        assert delta_of(pace.mus[0], epsilon) <= pace.delta(epsilon) <= delta_of(pace.mu, epsilon)


@pytest.mark.parametrize("name", PACES)
def test_delta_falls_with_epsilon_and_has_no_jump(name: str) -> None:
    pace = PACES[name]
    deltas = np.array([pace.delta(epsilon) for epsilon in np.linspace(0, 5 * pace.mu, 3001)])
    assert np.all(np.diff(deltas) < 0)
    assert np.all(np.abs(np.diff(np.log(deltas))) < 0.2)


def test_a_mu_that_holds_at_every_level_wins_where_it_is_better() -> None:
    kept = replace(GROWING, mu=0.35)
    for epsilon in (0.0, 0.5, 1.5, 3.0):
        assert kept.delta(epsilon) == min(delta_of(0.35, epsilon), GROWING.delta(epsilon))


def test_levels_that_tests_could_cross_the_median_from_say_nothing() -> None:
    assert Pace(0.9, (0.2, 0.4), (0.5, 0.6)).delta(0.7) == delta_of(0.9, 0.7)
    both = Pace(0.9, (0.2, 5.0), (0.5, 0.6))
    assert both.delta(0.7) == pytest.approx(delta_of(0.6, 0.7), rel=1e-8)
    endless = Pace(0.9, (5.0, 6.0), (0.6, math.inf))
    assert endless.delta(0.7) == pytest.approx(delta_of(0.6, 0.7), rel=1e-8)


def test_tests_from_further_out_than_the_last_level_are_counted() -> None:
    short = Pace(5.0, (1.0,), (0.5,))
    assert short.delta(3.0) == pytest.approx(norm.cdf(-0.5), rel=1e-8)


def test_tests_from_below_the_median_gain_no_more_than_their_own_levels_allow() -> None:
    """A small epsilon, at which the best test begins near the median: deep levels do not matter."""
    deep = Pace(0.3, (1.0, 2.0, 4.0), (0.1, 0.1, 0.3))
    assert deep.delta(0.01) == pytest.approx(delta_of(0.1, 0.01), rel=1e-8)
    assert gain(0.3, 0.0, 0.01) > 3 * delta_of(0.1, 0.01)


def test_the_best_of_several_pieces_counts() -> None:
    """Both mus have their best test on a piece of their own."""
    steep = Pace(5.0, (1.0, 6.0), (1.0, 2.2))
    assert steep.delta(0.1) == pytest.approx(delta_of(2.2, 0.1), rel=1e-8)


def test_one_mu_is_gaussian_dp() -> None:
    for epsilon in (-1.0, 0.0, 1.0, 5.0):
        assert steady(0.7).delta(epsilon) == delta_of(0.7, epsilon)
    assert GROWING.delta(-0.5) == delta_of(GROWING.mu, -0.5)
    assert steady(math.inf).delta(3.0) == 1.0


@pytest.mark.parametrize("epsilon", [30.0, 700.0, 710.0, 1e6])
def test_large_epsilons_are_answered(epsilon: float) -> None:
    assert GROWING.delta(epsilon) == 0.0


def test_a_pace_can_be_kept_from_promising_more_than_a_mu() -> None:
    kept = GROWING.at_least(0.5)
    assert kept.levels == GROWING.levels
    assert kept.mus[0] == 0.5
    assert kept.mus[-1] == GROWING.mus[-1]
    assert kept.mu == GROWING.mu == 0.62
    assert steady(0.3).at_least(0.4) == steady(0.4)
