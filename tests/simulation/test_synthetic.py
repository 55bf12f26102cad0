"""Who comes, with which features: shapes, norms, laws, and users who come back."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.errors import UnknownNameError
from croupier.plan import Plan
from croupier.simulation.problem import BLOCK, Problem
from croupier.simulation.registry import find
from croupier.simulation.synthetic import (
    Contextual,
    DrawnWorld,
    ReleasedProblem,
    Returning,
    Sphere,
    Synthetic,
)

Floats = NDArray[np.float64]

HALF = math.sqrt(0.5)


def plan(**changes: Any) -> Plan:
    shared: dict[str, Any] = {"dim": 4, "batch_size": 20, "horizon": 1000}
    return Plan.calibrate("noiseless", calibration="released", **{**shared, **changes})


@pytest.mark.parametrize("kind", [Sphere, Contextual])
def test_sphere_arms_and_parameters_are_unit_vectors_with_a_constant_coordinate(
    kind: type[Synthetic],
) -> None:
    rng = np.random.default_rng(0)
    problem = kind(6, 30)
    theta, arms = problem.parameter(rng), problem.features(rng, 7)
    assert arms.shape == (7, 30, 6)
    np.testing.assert_allclose(np.linalg.norm(arms, axis=-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(arms[..., -1], HALF, rtol=1e-15)
    np.testing.assert_allclose([np.linalg.norm(theta), theta[-1]], [1.0, HALF], rtol=1e-12)


def test_released_arms_have_norm_root_two_and_start_with_the_basis() -> None:
    rng = np.random.default_rng(1)
    problem = ReleasedProblem(5, 100)
    theta, arms = problem.parameter(rng), problem.features(rng, 1)[0]
    basis = np.eye(5)
    basis[:, -1] = 1.0
    np.testing.assert_array_equal(arms[:5], basis)
    np.testing.assert_allclose(np.linalg.norm(arms[5:], axis=1), math.sqrt(2), rtol=1e-12)
    np.testing.assert_array_equal(arms[:, -1], 1.0)
    np.testing.assert_allclose(np.linalg.norm(theta[:-1]), 0.5, rtol=1e-12)
    assert theta[-1] == 0.5
    np.testing.assert_array_equal(ReleasedProblem(5, 3).features(rng, 1)[0], basis[:3])


def test_directions_are_uniform() -> None:
    count, free = 40_000, 3
    arms = Sphere(free + 1, 1).features(np.random.default_rng(2), count)[:, 0, :-1] / HALF
    # Each coordinate has variance 1/3 and fourth moment 3/15, so 4.5 standard errors for 9 means:
    # a false alarm in 16,000 seeds.
    error = 4.5 / math.sqrt(count)
    assert np.abs(arms.mean(axis=0)).max() < error * math.sqrt(1 / 3)
    moments = arms.T @ arms / count - np.eye(free) / free
    assert np.abs(np.diag(moments)).max() < error * math.sqrt(1 / 5 - 1 / 9)
    assert np.abs(moments[np.triu_indices(free, 1)]).max() < error * math.sqrt(1 / 15)


def test_uniform_play_on_released_costs_what_was_published() -> None:
    means = ReleasedProblem(5, 100).world(0, range(400)).users(0, 1).means[:, 0]
    costs = 20_000 * (means.max(axis=1) - means.mean(axis=1))
    # 9443 is itself a mean of 50 instances; 3 standard errors of the difference, 1 seed in 370.
    spread = costs.std() * math.sqrt(1 / 400 + 1 / 50)
    assert abs(costs.mean() - 9443) < 3 * spread


def test_uniform_play_on_fresh_arm_sets_costs_what_was_published() -> None:
    means = Contextual(5, 20).world(0, range(20)).users(0, BLOCK).means
    costs = 20_000 * (means.max(axis=-1) - means.mean(axis=-1)).ravel()
    # MATH 6.5 gives 8276; 4 standard errors, a false alarm in 16,000 seeds.
    assert abs(costs.mean() - 8276) < 4 * costs.std() / math.sqrt(costs.size)


@pytest.mark.parametrize("problem", [Sphere(4, 8), ReleasedProblem(4, 8)], ids=str)
def test_common_arms_are_the_same_for_every_user_of_a_trial(problem: Problem) -> None:
    world = problem.world(3, range(2))
    early, late = world.users(0, 10), world.users(700, 705)
    assert early.features.shape == (2, 1, 8, 4)
    assert (early.uniforms.shape, late.uniforms.shape) == ((2, 10), (2, 5))
    np.testing.assert_array_equal(early.features, late.features)
    assert (early.features[0] != early.features[1]).any()


def test_contextual_arm_sets_are_fresh_in_every_round_and_trial() -> None:
    users = Contextual(3, 5).world(4, range(3)).users(0, BLOCK)
    rows = users.features.reshape(-1, 3)
    assert users.features.shape == (3, BLOCK, 5, 3)
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_means_are_the_inner_products_with_one_parameter_per_trial() -> None:
    world = DrawnWorld(Contextual(3, 5), 5, range(2))
    for start in (0, 2 * BLOCK):
        users = world.users(start, start + BLOCK)
        for trial in range(2):
            rows, means = users.features[trial].reshape(-1, 3), users.means[trial].ravel()
            theta, residue, *_ = np.linalg.lstsq(rows, means)
            assert np.linalg.norm(theta) == pytest.approx(1.0)
            assert residue[0] < 1e-20
            np.testing.assert_allclose(world._theta[trial], theta, rtol=1e-9)


def test_users_do_not_depend_on_how_rounds_and_trials_are_grouped() -> None:
    problem = Contextual(3, 4)
    whole = problem.world(6, range(5))
    alone = problem.world(6, range(3, 4))
    alone.users(BLOCK, BLOCK + 1)
    together = whole.users(40, 90)
    parts = [alone.users(start, stop) for start, stop in ((40, 41), (41, 77), (77, 90))]
    for name in ("features", "means", "uniforms"):
        joined = np.concatenate([getattr(part, name) for part in parts], axis=1)
        np.testing.assert_array_equal(joined[0], getattr(together, name)[3])


def test_another_seed_is_another_world() -> None:
    one, two = (Contextual(3, 4).world(seed, range(1)).users(0, 8) for seed in (0, 1))
    assert (one.features[..., :-1] != two.features[..., :-1]).all()
    assert (one.uniforms != two.uniforms).all()


def test_rewards_are_uniform_draws_apart_from_features() -> None:
    draws = Sphere(3, 2).world(7, range(40)).users(0, BLOCK).uniforms.ravel()
    # 10 bins of 1024: chi-squared with 9 degrees of freedom exceeds 33.7 once in 10,000 seeds.
    counts = np.histogram(draws, bins=10, range=(0.0, 1.0))[0]
    assert ((counts - 1024) ** 2 / 1024).sum() < 33.7


@pytest.mark.parametrize("participations", [1, 3, 7, 50])
def test_a_returning_user_comes_as_often_as_allowed_and_never_twice_in_a_batch(
    participations: int,
) -> None:
    used = plan(max_participations=participations)
    problem = Returning.for_plan(used, 5)
    visits = [problem.visitor(round_index) for round_index in range(1000)]
    assert max(Counter(visits).values()) == participations
    for start in range(1000 - problem.pool + 1):
        assert len(set(visits[start : start + problem.pool])) == problem.pool
    for span in used.schedule.spans():
        assert len(set(visits[span.start : span.stop])) == span.stop - span.start


@pytest.mark.parametrize("pool", [20, BLOCK, 300])
def test_a_returning_user_has_the_same_features_and_fresh_luck(pool: int) -> None:
    world = Returning(3, 4, pool).world(8, range(2))
    rounds = [world.users(index, index + 1) for index in range(2 * pool + 5)]
    first, second = rounds[:pool], rounds[pool : 2 * pool]
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.features, two.features)
        np.testing.assert_array_equal(one.means, two.means)
        assert (one.uniforms != two.uniforms).all()
    people = np.array([user.features[0, 0] for user in first]).reshape(pool, -1)
    assert len(np.unique(people, axis=0)) == pool


def test_a_pool_that_is_smaller_than_a_batch_is_refused() -> None:
    assert Returning.for_plan(plan(max_participations=60), 5).pool == plan().users(0)
    used = plan(batches="growing", max_participations=60)
    batches = used.schedule.batches
    with pytest.raises(
        ValueError, match=rf"max_participations .* batches {batches} .*got {batches}"
    ):
        Returning.for_plan(used, 5)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (Sphere, (1, 5), r"dim must be a whole number of at least 2, got 1"),
        (Sphere, (3, 0), r"arms must be a whole number of at least 1, got 0"),
        (Returning, (3, 5, 0), r"pool must be a whole number of at least 1, got 0"),
    ],
)
def test_a_bad_problem_is_refused_by_name_and_value(
    kind: type[Problem], arguments: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(*arguments)


def test_problems_are_found_by_name() -> None:
    for kind in (Sphere, Contextual, ReleasedProblem):
        assert find(kind.name) is kind
        assert kind.for_plan(plan(), 9) == kind(4, 9)
    with pytest.raises(UnknownNameError, match=r"unknown problem 'cube'; known: .*sphere"):
        find("cube")


@dataclass(frozen=True)
class Broken(Synthetic):
    """One arm and one parameter, as long as they are told to be."""

    length: float = 1.0
    mean: float = 0.5
    name: ClassVar[str] = "broken"

    def parameter(self, rng: np.random.Generator) -> Floats:
        return np.asarray(np.eye(self.dim)[0] * self.mean / self.length)

    def features(self, rng: np.random.Generator, count: int) -> Floats:
        return np.full((count, self.arms, self.dim), np.eye(self.dim)[0] * self.length)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Broken(2, 1, length=1.25), r"features must have norm at most 1.0, got 1.25"),
        (Broken(2, 1, length=math.nan), r"features must have norm at most 1.0, got nan"),
        (Broken(2, 1, mean=1.5), r"mean rewards must be in \[0, 1\], got 1.5"),
        (Broken(2, 1, mean=-0.5), r"mean rewards must be in \[0, 1\], got -0.5"),
    ],
    ids=str,
)
def test_users_outside_the_declared_bounds_are_refused(problem: Problem, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem.world(0, range(1)).users(0, 1)
    assert Broken(2, 1).world(0, range(1)).users(0, 1).means[0, 0, 0] == 0.5
