"""Plans with blocks in simulations: what they save, what audits say, what problems declare."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from croupier.layouts import Blocks, LightOffset
from croupier.plan import Plan
from croupier.plausibility import THRESHOLD, examine
from croupier.protocols.base import Mechanism
from croupier.simulation import compare, engine, registry
from croupier.simulation.audit import audit
from croupier.simulation.disjoint import Disjoint
from croupier.testing import check_problem, check_protocol

ROOT = math.sqrt(0.5)


def plan(protocol: str = "vector-sum", **changes: Any) -> Plan:
    asked: dict[str, Any] = {"dim": 9, "horizon": 20_000, "epsilon": 1.0, "delta": 1e-5}
    told = {"blocks": 3, "constant_feature": (2, ROOT), "honest_fraction": 1.0}
    return Plan.calibrate(protocol, **{**asked, **told, **changes})


# Regret


def regret(trials: range, seed: int, dim: int, arms: int, horizon: int, *, blocks: bool) -> float:
    told: dict[str, Any] = (
        {"blocks": arms, "constant_feature": (dim // arms - 1, ROOT)} if blocks else {}
    )
    used = Plan.calibrate(
        "vector-sum",
        dim=dim,
        horizon=horizon,
        epsilon=1.0,
        delta=1 / horizon**2,
        honest_fraction=1.0,
        **told,
    )
    return float(engine.run(used, Disjoint(dim, arms), seed, trials, 1).regret.mean())


def test_blocks_cost_less_regret_than_the_full_matrix() -> None:
    told: dict[str, Any] = {"seed": 7, "dim": 15, "arms": 5, "horizon": 20_000}
    assert regret(range(4), **told, blocks=True) < 0.75 * regret(range(4), **told, blocks=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1001, 1002, 1003])
def test_ten_arms_cost_at_most_two_thirds_of_the_full_matrix(seed: int) -> None:
    told: dict[str, Any] = {"seed": seed, "dim": 50, "arms": 10, "horizon": 100_000}
    assert regret(range(10), **told, blocks=True) <= 0.65 * regret(range(10), **told, blocks=False)


# The problem


def test_the_problem_keeps_what_problems_promise() -> None:
    check_problem(Disjoint(12, 3))
    assert isinstance(registry.find("disjoint").for_plan(plan(), 3), Disjoint)


def test_features_are_one_context_in_every_arms_own_block() -> None:
    users = Disjoint(12, 3).world(1, range(2)).users(0, 50)
    cut = users.features.reshape(2, 50, 3, 3, 4)
    for arm in range(3):
        np.testing.assert_array_equal(cut[:, :, arm, arm], cut[:, :, 0, 0])
        assert not cut[:, :, arm, [block for block in range(3) if block != arm]].any()
    assert np.ptp(users.means.mean(axis=(0, 1))) > 0
    assert users.means.min() >= 0
    assert users.means.max() <= 1


@pytest.mark.parametrize("dim", [10, 3])
def test_a_problem_without_room_for_its_blocks_is_refused(dim: int) -> None:
    with pytest.raises(ValueError, match=rf"dim must be a multiple of 3 arms .*, got {dim}"):
        Disjoint(dim, 3)


@pytest.mark.parametrize(
    ("problem", "dim", "arms", "value"),
    [("disjoint", 12, 3, ROOT), ("digits", 50, 10, 0.7), ("segments", 49, 7, 0.7)],
)
def test_comparisons_declare_the_blocks_of_a_problem(
    problem: str, dim: int, arms: int, value: float
) -> None:
    arena = compare.Arena(dim, 5000, 1.0, 1e-6, arms=arms, problem=problem)
    assert arena.blocks == arms
    assert arena.constant == (dim // arms - 1, value)
    for changes in ({"declared": False}, {"policy": "ucb"}, {"calibration": "theorem"}):
        other = replace(arena, **changes)
        assert (other.blocks, other.constant) == (None, None)
    assert compare.Arena(5, 5000, 1.0, 1e-6).blocks is None


def test_a_comparison_plays_the_blocks() -> None:
    arena = compare.Arena(9, 2000, 4.0, 1e-6, arms=3, problem="disjoint")
    (job,) = compare.line_up([compare.Entry("ours", "vector-sum")], arena)
    assert isinstance(job.plan.layout, Blocks)
    assert engine.run(job.plan, job.problem, 0, range(1), 1).regret.shape == (1, 1)


def test_a_problem_outside_of_the_blocks_is_refused() -> None:
    sphere = registry.find("sphere")(9, 3)
    with pytest.raises(ValueError, match="features must be zero outside one of 3 blocks"):
        engine.run(plan(), sphere, 0, range(1), 1)


# Promises


@pytest.mark.parametrize("protocol", ["vector-sum", "amplified-gaussian", "concurrent-tree"])
def test_protocols_keep_their_promises_with_blocks(protocol: str) -> None:
    made = plan(protocol, dim=4, blocks=2, constant_feature=None, batch_size=8, horizon=80,
                batches="fixed", epsilon=8.0, honest_fraction=1.0)  # fmt: skip
    assert isinstance(made.mechanism, Mechanism)
    check_protocol(made.mechanism, trials=500)  # type: ignore[arg-type]


@pytest.mark.parametrize("protocol", ["vector-sum", "local", "central", "amplified-gaussian"])
def test_an_audit_of_blocks_passes(protocol: str) -> None:
    report = audit(plan(protocol, batch_size=40, batches="fixed"), trials=20_000, device_seconds=1)
    assert not report.flagged


class Heavy(Blocks):
    """Weight 1 on the matrix, with the sensitivity of weight 1/2."""

    @cached_property
    def stretch(self) -> Any:
        vector = np.arange(self.size) < self.summed
        return super().stretch * np.where(vector, 1.0, 2.0)


@pytest.mark.parametrize("protocol", ["local", "central"])
def test_an_audit_flags_a_heavier_matrix_with_the_sensitivity_of_a_lighter_one(
    protocol: str,
) -> None:
    honest = plan(protocol, batch_size=1000, batches="fixed", epsilon=4.0)
    heavy = Heavy(9, constant=(2, ROOT), blocks=3)
    releases = tuple(replace(one, layout=heavy) for one in honest.mechanism.releases)
    faulty = replace(honest.mechanism, layout=heavy, releases=releases)
    assert not audit(honest, trials=100_000).flagged
    assert audit(honest, mechanism=faulty, trials=100_000).flagged


# Plausibility


def released(made: Plan, rows: Any, users: int, seed: int) -> Any:
    from croupier.analyzer import part_sums
    from croupier.protocols.base import Part

    rng = np.random.default_rng(seed)
    release = made.release(0)
    sums = rows.sum(axis=0) + release.noise_std * rng.standard_normal(made.layout.size)
    return part_sums(made, Part(0, 1, sums, release.noise_std**2))


def honest_rows(layout: Blocks, users: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    entries = rng.standard_normal((users, layout.free))
    entries *= layout.norm / np.linalg.norm(entries, axis=1, keepdims=True)
    blocks = rng.integers(layout.blocks, size=users)
    scored = np.array([layout.placed(z, int(b)) for z, b in zip(entries, blocks, strict=True)])
    return layout.encode(scored, (rng.random(users) < 0.5 + 0.4 * entries[:, 0]).astype(float))


def test_honest_batches_of_blocks_are_plausible_and_liars_are_not() -> None:
    made = plan(batch_size=2000, batches="fixed", epsilon=4.0)
    layout = made.layout
    assert isinstance(layout, Blocks)
    nothing = replace(released(made, np.zeros((1, layout.size)), 0, 0), users=0, batches=0)
    nothing = replace(
        nothing, vector=0 * nothing.vector, matrix=0 * nothing.matrix, noise_variance=0.0
    )
    for seed in range(20):
        own = released(made, honest_rows(layout, 2000, seed), 2000, seed)
        assert examine(layout, nothing, own).chance > 1e-4
    rows = honest_rows(layout, 2000, 99)
    rows[:200] = layout.high
    found = examine(layout, nothing, released(made, rows, 2000, 99))
    assert found.chance < THRESHOLD
    rows = honest_rows(layout, 2000, 98)
    in_last = np.array([name.startswith("b2.u") for name in layout.labels])
    rows[:600, in_last] = layout.high[in_last]
    found = examine(layout, nothing, released(made, rows, 2000, 98))
    assert found.chance < THRESHOLD
    assert found.part.startswith("block 2: moments")


def test_users_who_are_in_two_blocks_are_counted() -> None:
    made = plan("noiseless", epsilon=None, delta=None, batch_size=100, batches="fixed")
    rows = honest_rows(made.layout, 100, 1)  # type: ignore[arg-type]
    twice = rows + honest_rows(made.layout, 100, 2)  # type: ignore[arg-type]
    nothing = replace(released(made, 0 * rows, 0, 0), users=0, batches=0)
    assert not examine(made.layout, nothing, released(made, rows, 100, 0)).suspicious
    assert examine(made.layout, nothing, released(made, twice, 100, 0)).suspicious


def test_a_layout_without_blocks_has_one() -> None:
    assert LightOffset(4).blocks == 1
    assert np.array_equal(LightOffset(4).placed(np.ones(4)), np.ones(4))
