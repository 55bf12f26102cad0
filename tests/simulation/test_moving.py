"""Problems whose preferences move, and plans that forget."""

from __future__ import annotations

import math

import numpy as np
import pytest

from croupier.plan import Plan
from croupier.simulation import engine
from croupier.simulation.moving import Drifting, Seasonal, TurningWorld, WalkingWorld
from croupier.simulation.problem import BLOCK

WALK = Drifting(4, 3, drift=1e-3)
TRIALS = range(2)


def walking() -> WalkingWorld:
    return WalkingWorld(WALK, 5, TRIALS)


def test_where_a_walk_is_does_not_depend_on_who_asked_before() -> None:
    in_order = walking()
    path = [in_order.parameters(block) for block in range(4)]
    np.testing.assert_array_equal(walking().parameters(3), path[3])
    np.testing.assert_array_equal(in_order.parameters(1), path[1])


def test_a_walk_stays_on_its_sphere_and_steps_as_far_as_a_block_of_users() -> None:
    world = walking()
    path = np.array([world.parameters(block) for block in range(2000)])
    np.testing.assert_allclose(np.linalg.norm(path[..., :-1], axis=-1), math.sqrt(0.5))
    np.testing.assert_array_equal(path[..., -1], path[0, 0, -1])
    # Of three coordinates the sphere leaves two to move in.
    squares = (np.diff(path[..., :-1], axis=0) ** 2).sum(axis=-1)
    assert squares.mean() == pytest.approx(2 * BLOCK * WALK.drift**2, rel=0.1)


def test_seasons_come_back_after_their_period_and_are_opposite_in_between() -> None:
    world = TurningWorld(Seasonal(4, 3, period=8 * BLOCK), 5, TRIALS)
    first, quarter, half = (world.parameters(block)[:, :-1] for block in (0, 2, 4))
    np.testing.assert_allclose(world.parameters(8)[:, :-1], first, atol=1e-12)
    np.testing.assert_allclose(half, -first, atol=1e-12)
    np.testing.assert_allclose((quarter * first).sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(quarter, axis=1), math.sqrt(0.5))


def test_users_like_what_theta_says_in_their_block() -> None:
    world = walking()
    users = world.users(3 * BLOCK, 3 * BLOCK + 5)
    wanted = np.einsum("trkd,td->trk", users.features, world.parameters(3))
    np.testing.assert_allclose(users.means, wanted)


@pytest.mark.parametrize("drift", [0.0, -1e-3, 2.0, math.nan])
def test_a_drift_that_is_none_is_refused(drift: float) -> None:
    with pytest.raises(ValueError, match="drift must be"):
        Drifting(4, 3, drift=drift)


@pytest.mark.parametrize(("dim", "period"), [(2, 1000), (4, BLOCK - 1)])
def test_seasons_without_a_plane_or_time_are_refused(dim: int, period: int) -> None:
    with pytest.raises(ValueError, match=r"dim must be|period must be"):
        Seasonal(dim, 3, period=period)


def regret(drift: float, declared: float, rounds: int, seed: int, delta: float = 0.1) -> float:
    problem = Drifting(5, 20, drift)
    plan = Plan.calibrate(
        "vector-sum",
        dim=5,
        horizon=rounds,
        epsilon=1.0,
        delta=delta,
        honest_fraction=1.0,
        constant_feature=problem.constant_of(5),
        drift=declared,
    )
    return float(engine.run(plan, problem, seed, range(6), 2).regret[:, -1].mean())


def test_a_plan_that_forgets_follows_where_another_does_not() -> None:
    assert regret(3e-3, 3e-3, 30_000, 1) < 0.6 * regret(3e-3, 0.0, 30_000, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "most"), [(0.1, 800), (1e-6, 1350)])
def test_a_walk_of_a_thousandth_costs_no_more_than_was_measured(delta: float, most: float) -> None:
    assert regret(1e-3, 1e-3, 200_000, 11, delta) < most


@pytest.mark.slow
def test_declaring_a_little_drift_where_nothing_moves_costs_a_quarter_at_most() -> None:
    found = [sum(regret(1e-12, told, 200_000, s) for s in (11, 12, 13)) for told in (1e-4, 0.0)]
    assert found[0] < 1.25 * found[1]
