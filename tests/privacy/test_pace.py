"""A mu that grows with the level of a test: its curve against all tests (PROOF 8c)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from croupier.privacy.gdp import delta_of
from croupier.privacy.pace import Pace, steady

STEPS = range(1, 33)
GROWING = Pace(tuple(step / 4 for step in STEPS), tuple(0.3 + step / 100 for step in STEPS))


def best_gain(pace: Pace, epsilon: float) -> float:
    """The largest power minus e^epsilon times the chance to be wrong, over very many tests."""
    levels = np.linspace(0, pace.levels[-1], 200_001)
    mus = np.array(pace.mus)[np.searchsorted(pace.levels, levels)]
    above = ndtr(mus - levels) - math.exp(epsilon) * norm.sf(levels)
    below = np.linspace(-8, 0, 20_001)
    often = ndtr(pace.mu - below) - math.exp(epsilon) * norm.sf(below)
    return float(max(above.max(), often.max()))


@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.1, 0.5, 1.0, 1.7, 2.2, 2.6])
def test_delta_is_the_best_gain_of_all_tests(epsilon: float) -> None:
    exact = best_gain(GROWING, epsilon)
    assert exact <= GROWING.delta(epsilon) * (1 + 1e-12)
    # Levels below mu count with the next larger mu, which matters only for large deltas.
    assert GROWING.delta(epsilon) <= exact * (1 + (0.1 if epsilon < 0.2 else 1e-4))


def test_delta_is_between_those_of_the_smallest_and_the_largest_mu() -> None:
    for epsilon in np.linspace(0, 4, 81):
        assert delta_of(0.31, epsilon) <= GROWING.delta(epsilon) <= delta_of(0.62, epsilon)


def test_delta_falls_with_epsilon_and_has_no_jump() -> None:
    deltas = np.array([GROWING.delta(epsilon) for epsilon in np.linspace(0, 3, 3001)])
    assert np.all(np.diff(deltas) < 0)
    assert np.all(np.abs(np.diff(np.log(deltas))) < 0.2)


def test_beyond_the_last_level_the_last_mu_counts() -> None:
    assert GROWING.delta(6.0) == delta_of(GROWING.mu, 6.0)


def test_one_mu_is_gaussian_dp() -> None:
    for epsilon in (-1.0, 0.0, 1.0, 5.0):
        assert steady(0.7).delta(epsilon) == delta_of(0.7, epsilon)
    assert GROWING.delta(-0.5) == delta_of(GROWING.mu, -0.5)
    assert steady(math.inf).delta(3.0) == 1.0


def test_a_pace_can_be_kept_from_promising_more_than_a_mu() -> None:
    kept = GROWING.at_least(0.5)
    assert kept.levels == GROWING.levels
    assert kept.mus[0] == 0.5
    assert kept.mus[-1] == GROWING.mus[-1]
    assert kept.mu == GROWING.mu == 0.62
