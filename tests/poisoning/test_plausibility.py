"""Batches that honest users could have added up to, and batches of liars."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from croupier.analyzer import Analyzer
from croupier.coins import SeededCoins
from croupier.errors import RefusedError
from croupier.layouts import Layout, LightOffset, PapersLayout
from croupier.model import ReleasedSums
from croupier.plan import Plan
from croupier.plausibility import THRESHOLD, moment_chance, residual_chance, trace_chance
from croupier.protocols.running_sums import PrefixSums
from croupier.protocols.selected_sums import SelectedSums, alone

from .poisoned_runs import Crowd, play

ISSUE: dict[str, Any] = {"dim": 5, "batch_size": 1000, "horizon": 100_000}
"""The plan that numbers are reported for: epsilon 1, delta 1e-6."""

PLANS: list[dict[str, Any]] = [
    {"dim": 3, "batch_size": 500, "epsilon": 0.5},
    ISSUE,
    {"dim": 10, "batch_size": 1000},
    {"dim": 10, "batch_size": 5000},
    {"dim": 4, "batch_size": 2000, "epsilon": 4.0},
    {"dim": 6, "batch_size": 500, "epsilon": 4.0},
    {"dim": 3, "batch_size": 5000, "epsilon": 4.0},
    {"dim": 5, "batches": "growing", "horizon": 20_000},
    {"dim": 5, "batch_size": 1000, "constant_feature": (4, math.sqrt(0.5))},
    {"protocol": "concurrent-tree", "dim": 5, "batch_size": 1000},
    {"protocol": "amplified-gaussian", "dim": 4, "batch_size": 1000},
    {"protocol": "noiseless", "dim": 4, "batch_size": 500, "epsilon": None, "delta": None},
]


def coins() -> SeededCoins:
    return SeededCoins(np.random.SeedSequence(5))


def plan_of(**changes: Any) -> Plan:
    return _plan(tuple(sorted({"epsilon": 1.0, "delta": 1e-6, **changes}.items())))


@lru_cache
def _plan(told: tuple[tuple[str, Any], ...]) -> Plan:
    asked = {"batches": "fixed", "honest_fraction": 0.8, "protocol": "vector-sum", **dict(told)}
    if "batch_size" in asked:
        asked.setdefault("horizon", 32 * asked["batch_size"])
    return Plan.calibrate(asked.pop("protocol"), **asked)


def alarms(runs: int, batches: int) -> int:
    """Honest runs with an alarm, over all plans, kinds of rewards and of arm sets in turn."""
    found = 0
    for run in range(runs):
        plan = plan_of(**PLANS[run % len(PLANS)])
        crowd = Crowd(binary=run % 2 == 0, moving=run // len(PLANS) % 2 == 0)
        found += bool(play(plan, crowd, run, min(batches, plan.schedule.batches)).alarms)
    return found


def test_honest_runs_raise_no_alarm() -> None:
    # A million batches would raise one; here are a few hundred.
    assert alarms(36, 6) == 0


@pytest.mark.slow
def test_two_hundred_honest_runs_raise_one_alarm_at_most() -> None:
    assert alarms(200, 32) <= 1


@pytest.mark.parametrize(
    ("share", "way"), [(0.1, "ones"), (0.2, "ones"), (0.15, "bits"), (0.2, "bits")]
)
def test_many_liars_are_told_in_the_batch_in_which_they_come(share: float, way: str) -> None:
    for seed in range(3):
        assert play(plan_of(**ISSUE), Crowd(share, way, first=5), seed, 6).alarms == [5]


def test_a_tenth_of_bits_against_the_truth_is_told_by_the_second_batch() -> None:
    for seed in range(3):
        assert play(plan_of(**ISSUE), Crowd(0.1, "bits", first=5), seed, 7).alarms


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_reports_of_ones_are_told_in_the_first_batch(share: float) -> None:
    """Without any past: no features have such a trace."""
    for seed in range(3):
        assert play(plan_of(**ISSUE), Crowd(share), seed, 1).alarms == [0]


def test_liars_in_the_first_batch_are_told_by_the_second_at_the_latest() -> None:
    for seed in range(3):
        assert play(plan_of(**ISSUE), Crowd(0.1, "bits"), seed, 2).alarms


def test_one_hundredth_of_ones_is_left_out_or_costs_no_more_than_twice_the_regret() -> None:
    """What one batch hides in its noise all of them add up to: the third is left out."""
    for seed in range(3):
        outcome = play(plan_of(**ISSUE), Crowd(0.01), seed, 20)
        assert outcome.alarms[0] <= 4
        assert len(outcome.alarms) >= 20 - 6


@pytest.mark.parametrize("protocol", ["vector-sum", "concurrent-tree"])
def test_the_batch_after_a_batch_that_was_left_out_is_judged_without_it(protocol: str) -> None:
    plan = plan_of(protocol=protocol, dim=5, batch_size=1000)
    rng = np.random.default_rng(3)
    honest = plan.layout.encode(np.full((1000, 5), 0.4), np.ones(1000))
    collector, analyzer = plan.mechanism.collector(rng), Analyzer(plan, left_out={1})
    for index in range(4):
        released = collector.add(index, 9.0 * honest if index == 1 else honest)
        found = analyzer.examine(index, released)
        assert found is not None
        assert found.suspicious == (index == 1)
        analyzer.learn(index, released)
    assert analyzer.model.users == 3000


# The parts


def sums(users: int, vector: Any, matrix: Any, variance: float = 0.0) -> ReleasedSums:
    return ReleasedSums(np.array(vector, float), np.array(matrix, float), users, 1, variance)


LAYOUTS = [
    LightOffset(1),
    LightOffset(2, constant=(0, 0.9)),
    PapersLayout(2),
    PapersLayout(2, feature_norm=math.sqrt(2)),
]
"""Of two entries in the moments."""


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_what_no_users_add_up_to_is_impossible_without_noise(layout: Layout) -> None:
    eye, most = np.eye(2) * layout.moment_norm**2, 1 - layout.centre
    assert trace_chance(layout, sums(10, [0, 0], 5 * eye)) == 1.0
    assert trace_chance(layout, sums(10, [0, 0], 5.1 * eye)) == 0.0
    # Ten rewards of 1 with moments of e_1, and one that is more than that.
    along = np.diag([10.0, 0.0])
    assert moment_chance(layout, sums(10, [10 * most, 0], along)) == 1.0
    assert moment_chance(layout, sums(10, [10.1 * most, 0], along)) == 0.0
    assert moment_chance(layout, sums(10, [-10 * layout.centre, 0], along)) == 1.0
    assert moment_chance(layout, sums(10, [0, 1], along)) == 0.0
    assert moment_chance(layout, sums(10, [0, 0], np.diag([5.0, -1.0]))) == 0.0


@pytest.mark.parametrize("layout", [LightOffset(5), PapersLayout(5)], ids=str)
def test_noise_alone_passes_each_part_as_often_as_its_chance_says(layout: Layout) -> None:
    """Sums of nobody but noise, at a chance of 1 in 20; a false alarm of this test: 1e-6."""
    rng, runs = np.random.default_rng(4), 2000
    below = {"trace": 0, "moments": 0, "residual": 0}
    for _ in range(runs):
        found = layout.decode(rng.normal(0.0, 10.0, layout.size), 0)
        own = ReleasedSums(found.vector, found.matrix, 0, 1, 100.0)
        below["trace"] += trace_chance(layout, own) < 0.05
        below["moments"] += moment_chance(layout, own) < 0.05
        below["residual"] += residual_chance(layout, own, own) < 0.05
    assert max(below.values()) <= binom.isf(1e-6 / 3, runs, 0.05)


# Batches that are left out


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_tree_without_a_batch_adds_up_the_nodes_that_are_without_it(levels: int) -> None:
    plan = plan_of(protocol="concurrent-tree", dim=3, batch_size=500, horizon=4000, levels=levels)
    collector = plan.mechanism.collector(np.random.default_rng(1))
    users = plan.layout.encode(np.full((500, 3), 0.5), np.ones(500))
    released = [collector.add(index, users * (index != 2)) for index in range(8)]
    size = plan.layout.size
    every, usual, without = (
        PrefixSums(running, size)
        for running in (
            SelectedSums(plan.mechanism, ()),
            plan.mechanism.running_sum(),
            SelectedSums(plan.mechanism, {2}),
        )
    )
    for index, one in enumerate(released):
        (total, variance), (known, same) = every.add(index, one), usual.add(index, one)
        np.testing.assert_allclose(total, known)
        assert variance == pytest.approx(same)
        left, spread = without.add(index, one)
        present = index + 1 - (index >= 2)
        wanted = present * users.sum(axis=0)
        assert np.abs(left - wanted).max() < 6 * math.sqrt(spread)
        most = present * max(plan.mechanism.sum_variances(0))
        assert spread <= most * (1 + 1e-9)


def test_a_sum_that_is_never_released_alone_cannot_be_left_out() -> None:
    plan = plan_of(**ISSUE)
    pairs = replace(plan.mechanism)
    object.__setattr__(pairs, "covers", lambda index: (range(index - index % 2, index + 1),))
    selected = SelectedSums(pairs, {0})
    assert selected.part(0, np.zeros(plan.layout.size)) is None
    with pytest.raises(RefusedError, match="batch 1 was only released together"):
        selected.part(1, np.zeros(plan.layout.size))
    assert alone(pairs, 1, np.zeros(plan.layout.size)) is None


def test_a_renewed_model_forgets_what_is_left_out_whatever_the_rule_of_publication() -> None:
    plan = plan_of(**ISSUE, publication="rare")
    collector = plan.mechanism.collector(np.random.default_rng(2))
    users = plan.layout.encode(np.full((1000, 5), 0.4), np.ones(1000))
    released = [collector.add(index, users) for index in range(2)]
    analyzer = Analyzer(plan)
    first = analyzer.learn(0, released[0])
    again = Analyzer.resume(plan, released[:1], first, 0, left_out={0})
    model = again.learn(1, released[1], renew=True)
    assert (model.version, model.users, model.previous) == (2, 1000, first.hash)


def test_a_batch_that_is_left_out_changes_nothing() -> None:
    plan = plan_of(**ISSUE)
    collector = plan.mechanism.collector(np.random.default_rng(2))
    users = plan.layout.encode(np.full((1000, 5), 0.4), np.ones(1000))
    analyzer = Analyzer(plan, left_out={1})
    models = [analyzer.learn(index, collector.add(index, users)) for index in range(3)]
    assert models[1].theta is models[0].theta
    assert (models[1].version, models[1].users, models[1].previous) == (2, 1000, models[0].hash)
    assert (models[2].version, models[2].users, models[2].previous) == (3, 2000, models[1].hash)


def test_a_batch_that_is_left_out_is_no_reason_to_publish_a_rare_model() -> None:
    plan = plan_of(**ISSUE, publication="rare")
    collector = plan.mechanism.collector(np.random.default_rng(2))
    users = plan.layout.encode(np.full((1000, 5), 0.4), np.ones(1000))
    analyzer = Analyzer(plan, left_out={1})
    models = [analyzer.learn(index, collector.add(index, users)) for index in range(2)]
    assert models[1] is models[0]


# What one report can weigh


def test_a_report_of_bits_weighs_what_the_plan_says() -> None:
    """Exactly as far as a report of nothing but ones moves the vector's sums from their middle."""
    plan = plan_of(**ISSUE)
    release: Any = plan.release(0)
    middle = release.signal_bits / 2 + release.noise_bits / 2
    ones = release.signal_bits + release.noise_bits
    moved = np.linalg.norm((ones - middle)[:6] / release.grid)
    assert release.report_weight == pytest.approx(moved / 0.5)
    assert 4.5 < plan.report_weight < 5.0


def test_a_gaussian_report_weighs_what_the_plan_says_and_no_more() -> None:
    """Numbers beyond what honest noise reaches are brought back; honest ones never are."""
    plan = plan_of(protocol="amplified-gaussian", dim=4, batch_size=1000)
    release: Any = plan.release(0)
    honest = release.randomize(plan.layout.encode(np.full((1, 4), 0.5), np.ones(1))[0], coins())
    hostile = {name: np.full_like(rows, 2**61) for name, rows in honest.items()}
    ones = {name: np.concatenate([honest[name], hostile[name]]) for name in honest}
    moved = release.analyze(ones) - release.analyze(honest)
    most = float(np.linalg.norm(moved[:5])) / 0.5
    assert release.report_weight == pytest.approx(most)
    assert 50 < plan.report_weight < 150
    exact = np.concatenate([honest["vector"][0], honest["matrix"][0]]) * 2.0**-40
    np.testing.assert_allclose(release.analyze(honest), exact)


def test_what_nothing_bounds_is_said_to_be_unbounded() -> None:
    plan = plan_of(protocol="noiseless", dim=4, batch_size=10, epsilon=None, delta=None)
    assert plan.report_weight == math.inf


def test_the_threshold_is_one_in_a_million() -> None:
    assert THRESHOLD == 1e-6
