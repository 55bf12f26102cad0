"""One Bayes update per released sum, held against the formulas of MATH 6.5 written out in loops."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from croupier.layouts import Blocks, Layout, LightOffset
from croupier.model import ReleasedSums
from croupier.plan import Plan
from croupier.policies.bayesian import BayesianPolicy
from croupier.policies.posterior import BlockPrior, LinearPrior, Posterior

Floats = NDArray[np.float64]
Rows = list[list[float]]
LAYOUTS = [LightOffset(1), LightOffset(3), LightOffset(5, constant=(4, math.sqrt(0.5)))]


def product(left: Rows, right: Rows) -> Rows:
    return [
        [sum(row[k] * right[k][j] for k in range(len(right))) for j in range(len(right[0]))]
        for row in left
    ]


def applied(matrix: Rows, vector: list[float]) -> list[float]:
    return [sum(entry * vector[j] for j, entry in enumerate(row)) for row in matrix]


def turned(matrix: Rows) -> Rows:
    return [[row[j] for row in matrix] for j in range(len(matrix[0]))]


def square(size: int, entry: Callable[[int, int], float]) -> Rows:
    return [[entry(i, j) for j in range(size)] for i in range(size)]


def inverse(matrix: Rows) -> Rows:
    found: Rows = np.linalg.inv(np.array(matrix)).tolist()
    return found


def without_negative_eigenvalues(matrix: Floats) -> Rows:
    values, axes = np.linalg.eigh(matrix)
    kept = [index for index in range(len(values)) if values[index] > 0]
    return square(len(values), lambda i, j: sum(values[k] * axes[i, k] * axes[j, k] for k in kept))


def drifted(precision: Rows, linear: list[float], root: float, users: int) -> tuple[Rows, Floats]:
    """L^-1 += q n I on theta, the mean as it was."""
    covariance = inverse(precision)
    mean = applied(covariance, linear)
    for index in range(len(mean) - 1):
        covariance[index][index] += root**2 * users
    moved = inverse(covariance)
    return moved, np.array(applied(moved, mean))


def updated(
    layout: Layout, before: Posterior, sums: ReleasedSums, drift: float = 0.0
) -> tuple[Floats, Floats]:
    """L and e after one released sum, entry by entry; s above 0."""
    k, s, w = layout.scored, math.sqrt(sums.noise_variance), 0.5
    p, n = k + 1, sums.users
    r = math.sqrt(1 - (layout.constant[1] if layout.constant else 0.0) ** 2)
    rho = math.floor(0.424 * r * 2**20) / 2**20
    a = math.sqrt(r**2 + rho**2)
    units = [1 / a] * k + [rho / a]
    old, heard = before.precision.tolist(), before.linear.tolist()
    mean = applied(inverse(old), heard)
    if drift:
        old, moved = drifted(old, heard, drift, n)
        heard = moved.tolist()
    gram = without_negative_eigenvalues(sums.matrix)
    design = square(p, lambda i, j: gram[i][j] / units[j])
    known = inverse(old)
    new, more = old, heard
    for _ in range(2):
        t = [mean[i] / units[i] for i in range(p)]
        explained = sum(
            (t[i] * t[j] - known[i][j] / units[i] / units[j]) * gram[j][i]
            for i in range(p)
            for j in range(p)
        )
        v = 1 / 4 - min(max(explained / n, 0.0), 0.15)
        length = max(sum(value * value for value in t), 0.1)
        noise = square(
            p,
            lambda i, j, v=v, t=t, length=length: (  # type: ignore[misc]
                v * gram[i][j]
                + s**2 / (2 * w**2) * (length * (i == j) + t[i] * t[j])
                + s**2 * (i == j)
            ),
        )
        weight = product(turned(design), inverse(noise))
        learnt, told = product(weight, design), applied(weight, sums.vector.tolist())
        new = square(p, lambda i, j, learnt=learnt: old[i][j] + learnt[i][j])  # type: ignore[misc]
        more = [heard[i] + told[i] for i in range(p)]
        mean = applied(inverse(new), more)
    return np.array(new), np.array(more)


def released(layout: Layout, seed: int, users: int, noise: float) -> ReleasedSums:
    """A noisy sum of users with a linear reward, as an analyzer decodes it."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((users, layout.scored))
    features *= layout.norm / np.linalg.norm(features, axis=1, keepdims=True)
    rewards = (rng.random(users) < 0.5 + 0.4 * features[:, 0]).astype(float)
    total = layout.encode(features, rewards).sum(axis=0)
    moments = layout.decode(total + noise * rng.standard_normal(layout.size), users)
    return ReleasedSums(moments.vector, moments.matrix, users, 1, noise**2)


def agree(found: Posterior, wanted: tuple[Floats, Floats]) -> None:
    np.testing.assert_allclose(found.precision, wanted[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.linear, wanted[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize(("users", "noise"), [(20, 0.3), (20, 8.0), (3000, 3.0), (10**5, 0.5)])
@pytest.mark.parametrize("drift", [0.0, 1e-3, 0.05])
def test_every_update_is_that_of_the_notes(
    layout: Layout, users: int, noise: float, drift: float
) -> None:
    prior = LinearPrior.of(layout, drift)
    known = prior.state
    for seed in range(3):
        sums = released(layout, seed, users, noise)
        wanted = updated(layout, known, sums, drift)
        known = prior.learn(known, sums)
        agree(known, wanted)
    assert known.users == 3 * users


@given(seed=st.integers(0, 10**6), users=st.integers(1, 10**4), spread=st.floats(-2, 3))
def test_an_update_of_any_released_sum_is_that_of_the_notes(
    seed: int, users: int, spread: float
) -> None:
    layout, rng = LAYOUTS[seed % 3], np.random.default_rng(seed)
    p, scale = layout.summed, 10.0**spread
    matrix = scale * rng.standard_normal((p, p))
    noise = float(rng.uniform(0.1, 5)) ** 2
    sums = ReleasedSums(scale * rng.standard_normal(p), matrix + matrix.T, users, 1, noise)
    prior = LinearPrior.of(layout)
    before = prior.learn(prior.state, released(layout, seed, 50, 1.0))
    found = prior.learn(before, sums)
    agree(found, updated(layout, before, sums))
    assert (np.linalg.eigvalsh(found.precision - before.precision) > -1e-8).all()


def test_before_anything_is_learnt_it_is_the_prior() -> None:
    state = LinearPrior.of(LightOffset(4)).state
    np.testing.assert_array_equal(state.precision, np.diag([5.0, 5.0, 5.0, 5.0, 12.0]))
    np.testing.assert_array_equal(state.mean, np.zeros(5))
    assert (state.users, state.batches) == (0, 0)


def test_without_noise_it_is_bayesian_regression_on_features_and_offset() -> None:
    """The gram of (z, 1) over v, and the rewards less a half, whatever the units of a layout."""
    layout, rng = LightOffset(3), np.random.default_rng(0)
    features, rewards = rng.uniform(-0.5, 0.5, (200, 3)), rng.random(200)
    moments = layout.decode(layout.encode(features, rewards).sum(axis=0), 200)
    prior = LinearPrior.of(layout)
    found = prior.learn(prior.state, ReleasedSums(moments.vector, moments.matrix, 200, 1, 0.0))
    rows = np.column_stack([features, np.ones(200)])
    weights = (found.precision - prior.state.precision) / (rows.T @ rows)
    np.testing.assert_allclose(weights, np.full((4, 4), weights[0, 0]), rtol=1e-6)
    # Nothing is believed to be explained yet, so that v is 1/4.
    assert weights[0, 0] == pytest.approx(4)
    expected = 4 * rows.T @ (rewards - 0.5)
    np.testing.assert_allclose(found.linear, expected, rtol=1e-6, atol=1e-7)


def test_what_the_model_explains_of_rewards_makes_them_less_noisy() -> None:
    layout = LightOffset(2)
    prior = LinearPrior.of(layout)
    features = np.tile([[1.0, 0.0], [-1.0, 0.0]], (5000, 1))
    for strength, left in ((0.0, 0.25), (0.3, 0.25 - 0.3**2), (0.5, 0.1)):
        rewards = 0.5 + strength * features[:, 0]
        moments = layout.decode(layout.encode(features, rewards).sum(axis=0), 10_000)
        sums = ReleasedSums(moments.vector, moments.matrix, 10_000, 1, 0.0)
        known = prior.learn(prior.state, sums)
        # The first sum cannot tell what is explained from what the prior leaves open.
        assert known.precision[0, 0] - 3 == pytest.approx(4 * 10_000)
        found = prior.learn(known, sums)
        heard = found.precision[0, 0] - known.precision[0, 0]
        assert 10_000 / heard == pytest.approx(left, rel=0.01)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_no_noise_is_the_limit_of_little_noise(layout: Layout) -> None:
    prior, sums = LinearPrior.of(layout), released(layout, 1, 500, 0.0)
    none = prior.learn(prior.state, sums)
    little = prior.learn(prior.state, replace(sums, noise_variance=1e-12))
    np.testing.assert_allclose(little.precision, none.precision, rtol=1e-8, atol=1e-6)
    np.testing.assert_allclose(little.linear, none.linear, rtol=1e-8, atol=1e-6)


def test_no_noise_is_the_limit_where_users_leave_directions_out() -> None:
    """One user reaches one direction of p: R = v G has no inverse there."""
    layout = LightOffset(3)
    prior, sums = LinearPrior.of(layout), released(layout, 1, 1, 0.0)
    none = prior.learn(prior.state, sums)
    little = prior.learn(prior.state, replace(sums, noise_variance=1e-10))
    np.testing.assert_allclose(little.precision, none.precision, atol=1e-5)
    np.testing.assert_allclose(little.linear, none.linear, atol=1e-5)
    assert np.isfinite(none.precision).all()


def test_much_noise_says_nothing() -> None:
    layout = LightOffset(3)
    prior = LinearPrior.of(layout)
    found = prior.learn(prior.state, replace(released(layout, 2, 50, 0.0), noise_variance=1e9))
    np.testing.assert_allclose(found.precision, prior.state.precision, atol=1e-4)
    np.testing.assert_allclose(found.mean, np.zeros(4), atol=1e-4)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_direction_of_negative_eigenvalue_falls_back_to_the_prior(noise: float) -> None:
    prior = LinearPrior.of(LightOffset(2))
    matrix = np.diag([-2.0, 8.0, 3.0])
    sums = ReleasedSums(np.array([5.0, 3.0, 1.0]), matrix, 20, 1, noise)
    found = prior.learn(prior.state, sums)
    np.testing.assert_allclose(found.precision[0], [3.0, 0.0, 0.0], atol=1e-12)
    assert found.mean[0] == (0.0 if noise else pytest.approx(found.linear[0] / 3))
    assert found.precision[1, 1] > 4.0
    none = replace(sums, matrix=np.diag([0.0, 8.0, 3.0]))
    np.testing.assert_allclose(found.precision, prior.learn(prior.state, none).precision)


@pytest.mark.parametrize("noise", [0.0, 2.0])
@pytest.mark.parametrize("drift", [0.0, 0.01])
def test_trials_and_rounds_learn_as_each_would_alone(noise: float, drift: float) -> None:
    layout = LAYOUTS[2]
    prior = LinearPrior.of(layout, drift)
    known, alone = prior.state, [prior.state] * 6
    for step in range(3):
        rows = [released(layout, 6 * step + trial, 40, noise) for trial in range(6)]
        vector = np.array([one.vector for one in rows])[:, None]
        matrix = np.array([one.matrix for one in rows])[:, None]
        known = prior.learn(known, ReleasedSums(vector, matrix, 40, step + 1, noise**2))
        alone = [prior.learn(one, sums) for one, sums in zip(alone, rows, strict=True)]
    for trial, one in enumerate(alone):
        np.testing.assert_allclose(known.precision[trial, 0], one.precision, rtol=1e-9)
        np.testing.assert_allclose(known.linear[trial, 0], one.linear, rtol=1e-9)
    model = prior.model("sampling", known, 0.7)
    assert model.theta.shape == (6, 1, 4)
    assert model.matrix.shape == (6, 1, 4, 4)
    assert (known.users, known.batches) == (120, 3)


def test_the_order_of_sums_hardly_matters() -> None:
    """Each keeps its own weight, but for what the mean has explained by then."""
    layout = LightOffset(3)
    prior, heard = (
        LinearPrior.of(layout),
        [released(layout, 3, 20, 5.0), released(layout, 4, 900, 1.0)],
    )
    first, second = (
        prior.learn(prior.learn(prior.state, one), other) for one, other in (heard, reversed(heard))
    )
    np.testing.assert_allclose(first.mean, second.mean, atol=0.02)


def test_drift_forgets_features_by_variance_and_keeps_the_mean() -> None:
    layout = LightOffset(3)
    still = LinearPrior.of(layout)
    known = still.learn(still.state, released(layout, 5, 4000, 1.0))
    silent = ReleasedSums(np.zeros(4), np.zeros((4, 4)), 900, 2, 1.0)
    found = replace(still, drift=0.02).learn(known, silent)
    before, after = np.linalg.inv(known.precision), np.linalg.inv(found.precision)
    # q n = 0.02^2 * 900, and nothing on the offset.
    np.testing.assert_allclose(after - before, np.diag([0.36, 0.36, 0.36, 0.0]), atol=1e-10)
    np.testing.assert_allclose(found.mean, known.mean, atol=1e-10)
    kept = still.learn(known, silent)
    np.testing.assert_allclose(kept.precision, known.precision)


def test_a_model_has_the_mean_and_covariance_of_theta_alone() -> None:
    layout = LightOffset(3)
    prior = LinearPrior.of(layout)
    known = prior.learn(prior.state, released(layout, 6, 100, 1.0))
    model = prior.model("thompson", known, 0.4)
    np.testing.assert_allclose(model.matrix, np.linalg.inv(known.precision)[:3, :3])
    np.testing.assert_allclose(model.theta, np.linalg.solve(known.precision, known.linear)[:3])
    assert (model.policy, model.scale, model.version, model.users) == ("thompson", 0.4, 1, 100)


@pytest.mark.parametrize("policy", ["sampling", "randucb", "thompson"])
@pytest.mark.parametrize("drift", [0.0, 0.001])
def test_a_plan_writes_its_prior_down_and_reads_it_back(policy: str, drift: float) -> None:
    made = Plan.calibrate(
        "vector-sum", dim=4, horizon=500, epsilon=2.0, delta=1e-4, policy=policy,
        constant_feature=(1, 0.5), drift=drift,
    )  # fmt: skip
    again = Plan.from_json(made.to_json())
    assert again == made
    assert isinstance(again.policy, BayesianPolicy)
    assert again.policy.prior == LinearPrior.of(made.layout, drift)
    assert again.policy.options == {"drift": drift}
    stored = json.loads(made.to_json())["policy_parameters"]["prior"]
    assert stored["features"] == 3
    assert stored["drift"] == drift


@pytest.mark.parametrize("policy", ["sampling", "randucb", "thompson"])
@pytest.mark.parametrize(
    ("drift", "message"),
    [
        (-1e-3, "drift must be above 0, got -0.001"),
        (1.5, "drift must be at most 1, got 1.5"),
        (math.nan, "drift must be a finite number, got nan"),
    ],
)
def test_a_drift_that_no_theta_has_is_refused(policy: str, drift: float, message: str) -> None:
    asked: dict[str, Any] = {"dim": 3, "horizon": 100, "epsilon": 1.0, "delta": 0.1}
    for batches in ({"batches": "growing"}, {"batches": "fixed", "batch_size": 10}):
        with pytest.raises(ValueError, match=message):
            Plan.calibrate("vector-sum", policy=policy, drift=drift, **batches, **asked)


@pytest.mark.parametrize("policy", ["sampling", "randucb", "thompson"])
def test_the_papers_layout_has_no_place_for_an_offset(policy: str) -> None:
    with pytest.raises(ValueError, match=f"policy {policy} learns an offset"):
        Plan.calibrate(
            "vector-sum", dim=3, horizon=100, batch_size=10, epsilon=1.0, delta=0.1,
            calibration="released", batches="fixed", policy=policy,
        )  # fmt: skip


BLOCKS = [Blocks(4), Blocks(12, constant=(3, math.sqrt(0.5)), blocks=3)]


def heard_by_block(layout: Blocks, seed: int, users: int, noise: float) -> ReleasedSums:
    """A noisy sum of users of all blocks, each of which likes its first feature as much."""
    rng = np.random.default_rng(seed)
    entries = rng.standard_normal((users, layout.free))
    entries *= layout.norm / np.linalg.norm(entries, axis=1, keepdims=True)
    blocks = rng.integers(layout.blocks, size=users)
    rows = np.array([layout.placed(z, int(b)) for z, b in zip(entries, blocks, strict=True)])
    rewards = (rng.random(users) < 0.5 + 0.4 * entries[:, 0] * (blocks - 0.5)).astype(float)
    total = layout.encode(rows, rewards).sum(axis=0)
    moments = layout.decode(total + noise * rng.standard_normal(layout.size), users)
    return ReleasedSums(moments.vector, moments.matrix, users, 1, noise**2)


@pytest.mark.parametrize("layout", BLOCKS, ids=str)
@pytest.mark.parametrize(("users", "noise"), [(30, 0.3), (40, 8.0), (3000, 3.0)])
def test_every_block_is_learnt_like_a_layout_of_its_own_with_its_users(
    layout: Blocks, users: int, noise: float
) -> None:
    prior = LinearPrior.of(layout)
    before = prior.learn(prior.state, heard_by_block(layout, 1, 200, 2.0))
    sums = heard_by_block(layout, 2, users, noise)
    found = prior.learn(before, sums)
    for block in range(layout.blocks):
        gram = without_negative_eigenvalues(sums.matrix[block])
        counted: Any = max(gram[-1][-1] / layout.units[-1] ** 2, 1.0)
        own = ReleasedSums(sums.vector[block], sums.matrix[block], counted, 1, noise**2)
        known = Posterior(before.precision[block], before.linear[block])
        learnt = Posterior(found.precision[block], found.linear[block])
        agree(learnt, updated(layout.one, known, own))


def test_what_drifts_in_a_block_drifts_with_all_users() -> None:
    layout, drift = BLOCKS[1], 0.05
    prior, still = LinearPrior.of(layout, drift), LinearPrior.of(layout)
    before = prior.learn(prior.state, heard_by_block(layout, 1, 200, 2.0))
    moved = [
        drifted(before.precision[b].tolist(), before.linear[b].tolist(), drift, 300)
        for b in range(layout.blocks)
    ]
    precision, linear = (np.array([row[place] for row in moved]) for place in (0, 1))
    sums = heard_by_block(layout, 2, 300, 2.0)
    wanted = still.learn(Posterior(precision, linear), sums)
    found = prior.learn(before, sums)
    np.testing.assert_allclose(found.precision, wanted.precision, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.linear, wanted.linear, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("layout", BLOCKS, ids=str)
def test_a_model_has_the_blocks_one_after_the_other_and_their_offsets(layout: Blocks) -> None:
    prior = LinearPrior.of(layout)
    assert isinstance(prior, BlockPrior)
    state = prior.learn(prior.state, heard_by_block(layout, 3, 500, 1.0))
    model, p = prior.model("sampling", state, 0.7), layout.free + 1
    assert model.theta.shape == (layout.scored,)
    np.testing.assert_array_equal(model.theta.reshape(-1, p), state.mean)
    wanted = np.zeros((layout.scored, layout.scored))
    for block, inverse_one in enumerate(np.linalg.inv(state.precision)):
        part = slice(block * p, (block + 1) * p)
        wanted[part, part] = inverse_one
    np.testing.assert_array_equal(model.matrix, wanted)


def test_blocks_of_many_trials_are_those_of_each() -> None:
    layout = BLOCKS[1]
    prior = LinearPrior.of(layout)
    every = [heard_by_block(layout, seed, 100, 1.0) for seed in range(4)]
    vector, matrix = (
        np.array([getattr(one, name) for one in every])[:, None] for name in ("vector", "matrix")
    )
    found = prior.model(
        "sampling", prior.learn(prior.state, ReleasedSums(vector, matrix, 100, 1, 1.0)), 1.0
    )
    for trial, one in enumerate(every):
        alone = prior.model("sampling", prior.learn(prior.state, one), 1.0)
        np.testing.assert_allclose(found.theta[trial, 0], alone.theta, rtol=1e-12)
        np.testing.assert_allclose(found.matrix[trial, 0], alone.matrix, rtol=1e-12)


def test_a_block_that_nobody_is_in_stays_as_it_was_without_noise() -> None:
    layout = Blocks(4)
    prior = LinearPrior.of(layout)
    rows = np.array([layout.placed(np.array([0.6, 0.8]), 0)] * 50)
    moments = layout.decode(layout.encode(rows, np.ones(50)).sum(axis=0), 50)
    found = prior.learn(prior.state, ReleasedSums(moments.vector, moments.matrix, 50, 1, 0.0))
    np.testing.assert_array_equal(found.precision[1], prior.state.precision[1])
    assert not found.mean[1].any()
    assert found.mean[0] @ [0.6, 0.8, 1.0] > 0.4
