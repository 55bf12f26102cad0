"""A mu that grows with the level of a test: its curve against all tests (PROOF 8c)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from croupier.privacy.gdp import delta_of, mu_of
from croupier.privacy.pace import Clocked, Pace, steady

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
        assert pace.delta(epsilon) == pytest.approx(exact, rel=1e-8, abs=0)
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


# Speeds that need not grow, followed for as long as there is time (PROOF 9d).

NARROW = tuple(step / 32 for step in range(1, 257))
DIPPING = Clocked(0.9, NARROW, tuple(0.4 + abs(level - 2.5) / 15 for level in NARROW))
RUSHING = Clocked(2.5, NARROW, tuple(1.5 + math.sin(level) / 2 for level in NARROW))
CRAWLING = Clocked(0.02, NARROW, tuple(0.01 + abs(level - 1.25) / 750 for level in NARROW))
CLOCKED = {"dipping": DIPPING, "rushing": RUSHING, "crawling": CRAWLING}


def reached(pace: Clocked, level: float) -> float:
    """Where a test gets from a level in unit time, piece by piece."""
    time, cuts = 1.0, [-end for end in pace.levels[::-1]] + [0.0, *pace.levels]
    while time > 1e-15:
        place = max(index for index, cut in enumerate(cuts) if cut < level - 1e-13)
        speed = pace.mus[max(place - len(pace.levels), len(pace.levels) - 1 - place)]
        needed = (level - cuts[place]) / speed
        level = cuts[place] if needed <= time else level - time * speed
        time -= needed
    return level


@pytest.mark.parametrize("name", CLOCKED)
def test_a_test_gains_what_it_can_reach_in_time(name: str) -> None:
    """From every level above and below the median; never less, and hardly more."""
    pace = CLOCKED[name]
    starts = np.linspace(-5.0, 8.0, 1301)
    ends = np.array([reached(pace, float(start)) for start in starts])
    last = float(ndtr(-reached(pace, 8.0)))
    for epsilon in np.linspace(0.05 * pace.mu, 4 * pace.mu, 33).tolist():
        gains = ndtr(-ends) - math.exp(epsilon) * norm.sf(starts)
        exact = min(max(float(gains.max()), last), delta_of(pace.mu, epsilon))
        assert exact * (1 - 1e-12) <= pace.delta(epsilon)
        assert mu_of(epsilon, pace.delta(epsilon)) <= 1.02 * mu_of(epsilon, exact)


JUMPS = {
    "several": ((0.5, 1.0, 1.5, 2.0, 9.0), (0.3, 1.2, 0.3, 0.9, 0.3)),
    "a way from near 0": ((0.49, 9.0), (0.5, 0.1)),
}


@pytest.mark.parametrize("name", JUMPS)
def test_ways_bend_where_speeds_jump(name: str) -> None:
    jumping = Clocked(5.0, *JUMPS[name])
    starts = np.linspace(0.0, 4.0, 4001)
    ends = np.array([reached(jumping, float(start)) for start in starts])
    for epsilon in np.linspace(0.02, 1.5, 60).tolist():
        gains = ndtr(-ends) - math.exp(epsilon) * norm.sf(starts)
        assert jumping.delta(epsilon) >= float(gains.max()) * (1 - 1e-12)
    assert jumping._ways is not None
    found = np.interp(starts, *jumping._ways)
    assert found == pytest.approx(starts - ends, abs=1e-7)


def test_one_speed_is_gaussian_dp_again() -> None:
    plain = Clocked(1.0, LEVELS, (0.7,) * 32)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        assert plain.delta(epsilon) == pytest.approx(delta_of(0.7, epsilon), rel=1e-7)
        assert plain.delta(epsilon) >= delta_of(0.7, epsilon)
    assert plain.delta(-0.4) == delta_of(1.0, -0.4)
    assert plain.at_least(0.9).delta(1.0) == pytest.approx(delta_of(0.9, 1.0), rel=1e-7)


def test_a_fast_stretch_matters_only_to_tests_that_cross_it() -> None:
    fast = Clocked(5.0, (0.3, 0.5, 9.0), (0.2, 4.0, 0.2))
    assert fast.delta(1.2) == pytest.approx(delta_of(0.2, 1.2), rel=1e-7, abs=0)
    assert fast.delta(0.2) > 2 * delta_of(0.2, 0.2)
    assert fast.delta(0.2) < delta_of(0.7, 0.2)


@pytest.mark.parametrize("mu", [1e-3, 1e-4, 1e-5, 1e-8, 1e-14])
def test_tests_that_hardly_move_are_not_lost_in_the_last_digits(mu: float) -> None:
    slow = Clocked(2 * mu, NARROW, (mu,) * len(NARROW))
    for epsilon in np.linspace(0.1 * mu, 5 * mu, 50).tolist():
        assert slow.delta(epsilon) >= delta_of(mu, epsilon)


@pytest.mark.parametrize("scale", [1e-5, 1e-6])
def test_tests_that_hardly_move_keep_to_the_pieces_next_to_theirs(scale: float) -> None:
    speeds = tuple(scale * (1 + abs(level - 2.5) / 10) for level in NARROW)
    slow = Clocked(2 * scale, NARROW, speeds)
    for epsilon in np.linspace(0.5 * scale, 4 * scale, 15).tolist():
        gains = [gain_of_slow(mu, level, epsilon) for level, mu in zip(NARROW, speeds, strict=True)]
        assert max(gains) <= slow.delta(epsilon)
        assert mu_of(epsilon, slow.delta(epsilon)) <= 1.01 * mu_of(epsilon, max(gains))


def gain_of_slow(mu: float, level: float, epsilon: float) -> float:
    """Phi(mu - z) - e^eps Phi(-z) to first order, for numbers that would cancel."""
    return mu * float(norm.pdf(level)) - epsilon * float(norm.sf(level)) * (1 + 2 * epsilon)


def test_slow_tests_that_jump_over_narrow_pieces_keep_their_mu() -> None:
    narrow = (*NARROW, NARROW[-1] + 1e-7)
    assert Clocked(2e-6, narrow, (1e-6,) * len(narrow)).delta(1e-6) == delta_of(2e-6, 1e-6)
    assert Clocked(2e-6, NARROW, (1e-6,) * len(NARROW)).delta(1e-6) < delta_of(1.1e-6, 1e-6)


def test_speeds_that_are_no_numbers_promise_nothing() -> None:
    lost = Clocked(1.0, (1.0, 2.0, 3.0), (math.nan,) * 3)
    assert lost.delta(0.5) == delta_of(1.0, 0.5)


@pytest.mark.parametrize("speed", [1e7, 1e12, 1e15, 1e17, 1e300, math.inf, math.nan])
def test_levels_that_take_no_time_are_not_taken_for_slow(speed: float) -> None:
    """A test rushes through such a piece, and one that ends in it might be at its far end."""
    levels = tuple(np.arange(0.5, 5.1, 0.5).tolist())
    for place, epsilon in ((1, 1.5), (3, 2.5)):
        mus = [0.05] * place + [0.6] * (10 - place)
        rushed = Clocked(3.0, levels, (*mus[:place], 1e5, *mus[place + 1 :])).delta(epsilon)
        lost = Clocked(3.0, levels, (*mus[:place], speed, *mus[place + 1 :])).delta(epsilon)
        assert lost >= rushed * (1 - 1e-9)


def test_levels_that_a_test_could_cross_say_nothing() -> None:
    assert Clocked(3.0, (1.0, 2.0), (2.5, 2.5)).delta(1.0) == delta_of(3.0, 1.0)


def test_tests_from_beyond_the_known_levels_are_counted_by_where_they_pass() -> None:
    for levels in ((2.0,), (1.0, 1.51, 2.0)):
        short = Clocked(9.0, levels, (0.5,) * len(levels))
        assert short.delta(4.0) == pytest.approx(norm.cdf(-1.5), rel=1e-8)
