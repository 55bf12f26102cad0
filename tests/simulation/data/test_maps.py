from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from croupier.simulation.data.maps import CONSTANT, BallMap, charged, from_bounds, from_public

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)
ROWS = arrays(np.float64, st.tuples(st.integers(2, 20), st.integers(1, 5)), elements=NUMBERS)
LOW, HIGH = np.array([0.0, -1.0]), np.array([10.0, 1.0])


@given(ROWS, ROWS)
def test_everything_lands_in_the_unit_ball(known: np.ndarray, met: np.ndarray) -> None:
    width = min(known.shape[1], met.shape[1])
    ball = from_public(known[:, :width], width)
    features = ball(met[:, :width])
    assert features.shape == (len(met), width + 1)
    assert np.linalg.norm(features, axis=1).max() <= 1 + 1e-12
    assert (features[:, -1] == CONSTANT).all()


def test_declared_bounds_look_at_no_data_and_fill_the_ball() -> None:
    ball = from_bounds(LOW, HIGH)
    features = ball(np.array([[0.0, -1.0], [5.0, 0.0], [10.0, 1.0], [99.0, -99.0]]))
    np.testing.assert_allclose(np.linalg.norm(features[[0, 2, 3]], axis=1), 1.0)
    np.testing.assert_allclose(features[1], [0, 0, CONSTANT])
    assert ball.mu == 0


def test_directions_of_most_variance_are_kept() -> None:
    rng = np.random.default_rng(0)
    shared = rng.standard_normal(500)
    rows = np.stack([shared, shared + 0.1 * rng.standard_normal(500), rng.standard_normal(500)], 1)
    axis = from_public(rows, 1).axes[:, 0]
    np.testing.assert_allclose(np.abs(axis[:2]), math.sqrt(0.5), atol=0.01)
    assert abs(axis[2]) < 0.1


def test_a_constant_column_does_not_divide_by_zero() -> None:
    rows = np.stack([np.arange(10.0), np.full(10, 3.0)], axis=1)
    assert np.isfinite(from_public(rows, 2)(rows)).all()


def moments(ball: BallMap) -> np.ndarray:
    """What was released, back in units of [-1, 1]."""
    middle, half = (LOW + HIGH) / 2, (HIGH - LOW) / 2
    return np.concatenate([(ball.centre - middle) / half, ball.scale / half])


def test_a_charged_map_adds_the_noise_that_its_mu_needs() -> None:
    rows = np.tile([5.0, 0.0], (200, 1))
    mu, draws = 0.5, 4000
    rng = np.random.default_rng(1)
    means = np.array([moments(charged(rows, LOW, HIGH, mu, rng))[:2] for _ in range(draws)])
    # Two people apart by sqrt(5 * 2) / n in the released means and squares; see the proof there.
    wanted = math.sqrt(10) / (200 * mu)
    # 8000 normal draws: a relative error of 1/sqrt(16000) in the std, 5 of them, 1 in a million.
    assert abs(means.std() / wanted - 1) < 5 / math.sqrt(2 * means.size)


def test_the_sensitivity_of_a_charged_map_is_attained_by_no_more_than_it_says() -> None:
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1, 1, (20_000, 2, 2))
    one, two = rows[:, 0], rows[:, 1]
    moved = np.concatenate([one - two, one**2 - two**2], axis=1)
    assert np.linalg.norm(moved, axis=1).max() <= math.sqrt(10)


def test_a_charged_map_follows_the_players_when_mu_is_large() -> None:
    rng = np.random.default_rng(3)
    rows = np.stack([rng.normal(4, 0.5, 5000), rng.normal(0.2, 0.1, 5000)], axis=1)
    ball = charged(rows, LOW, HIGH, 100.0, rng)
    np.testing.assert_allclose(ball.centre, [4, 0.2], atol=0.05)
    np.testing.assert_allclose(ball.scale, [0.5, 0.1], rtol=0.1)
    assert ball.mu == 100.0


@pytest.mark.parametrize("mu", [0.0, -1.0, math.nan])
def test_a_charge_of_nothing_is_refused(mu: float) -> None:
    with pytest.raises(ValueError, match="mu must be"):
        charged(np.zeros((3, 2)), LOW, HIGH, mu, np.random.default_rng(0))
