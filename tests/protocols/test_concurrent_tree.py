from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.coins import SeededCoins
from croupier.errors import DocumentError, GuaranteeError
from croupier.layouts import LightOffset
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.privacy.gdp import mu_of
from croupier.protocols.base import Terms
from croupier.protocols.concurrent_tree import ConcurrentTree
from croupier.protocols.running_sums import PrefixSums
from croupier.protocols.tree_release import ConcurrentTreeRelease
from croupier.schedules import DoublingBatches, FixedBatches, GrowingBatches
from croupier.shuffler import Shuffler
from croupier.simulation.engine import run
from croupier.simulation.synthetic import Sphere

LAYOUT = LightOffset(2)


@cache
def plan(**changes: Any) -> Plan:
    asked: dict[str, Any] = {
        "dim": 2,
        "batches": "fixed",
        "batch_size": 20,
        "horizon": 2000,
        "epsilon": 1.0,
        "delta": 1e-5,
        "honest_fraction": 1.0,
    }
    return Plan.calibrate("concurrent-tree", **{**asked, **changes})


def tree_of(made: Plan) -> ConcurrentTree:
    assert isinstance(made.mechanism, ConcurrentTree)
    return made.mechanism


SCHEDULED = [
    {},
    {"levels": 2},
    {"levels": 4},
    {"horizon": 1999},
    {"batches": "growing", "batch_size": None, "horizon": 5000, "levels": 2},
    {"batches": "doubling", "horizon": 3000, "levels": 2},
    {"batch_size": 30, "honest_fraction": 2 / 3},
    {"max_participations": 3},
    {"max_participations": 3, "batches": "growing", "horizon": 1500, "levels": 2},
    {"max_participations": 7, "levels": 2, "honest_fraction": 0.8},
]
EVERY_PLAN = pytest.mark.parametrize("changes", SCHEDULED, ids=str)


@EVERY_PLAN
def test_a_plan_meets_its_budget_and_round_trips(changes: dict[str, Any]) -> None:
    made = plan(**changes)
    assert made.met
    again = Plan.from_json(made.to_json())
    assert again == made
    assert again.id == made.id
    assert again.release(0) == made.release(0)


@EVERY_PLAN
def test_every_node_has_the_noise_of_the_floor_within_the_overhead(changes: dict[str, Any]) -> None:
    made = plan(**changes)
    floor = made.noise_floor
    assert floor is not None
    stds = [node.noise_std for release in tree_of(made).made for node in release.nodes]
    assert max(stds) <= 1.05 * floor * (1 + 1e-9) * rounding_of_honest_users(made)
    assert min(stds) > floor


def rounding_of_honest_users(made: Plan) -> float:
    """Floors of nodes differ where batches have other shares of honest users."""
    tree = tree_of(made)
    shares = [
        tree.planned.honest(node) / tree.planned.users(node)
        for index in range(len(tree.made))
        for node in tree.tree.holding(index)
    ]
    return math.sqrt(max(shares[0] / share for share in shares))


def test_one_participation_shares_the_budget_over_the_levels() -> None:
    delta = LAYOUT.device_sensitivity / mu_of(1.0, 1e-5)
    for levels in (1, 2, 3):
        assert plan(levels=levels).noise_floor == pytest.approx(math.sqrt(levels) * delta)


def test_returning_users_are_paid_for_by_their_worst_placement() -> None:
    made = plan(max_participations=3, levels=2)
    delta = LAYOUT.device_sensitivity / mu_of(1.0, 1e-5)
    assert made.noise_floor == pytest.approx(math.sqrt(3 + 9) * delta)


def test_levels_are_three_unless_named_or_too_many_for_the_batches() -> None:
    assert tree_of(plan()).tree.levels == 3
    assert tree_of(plan(levels=4)).tree.levels == 4
    assert tree_of(plan(horizon=100)).tree.levels == 1
    assert tree_of(plan(horizon=200)).tree.levels == 2
    with pytest.raises(ValueError, match="levels must leave every level a complete node"):
        plan(horizon=100, levels=4)


def test_a_horizon_is_needed() -> None:
    with pytest.raises(ValueError, match="horizon must be given for concurrent-tree, got None"):
        plan(batches="growing", horizon=None)


def test_other_protocols_have_no_levels() -> None:
    with pytest.raises(ValueError, match="vector-sum has none"):
        Plan.calibrate(
            "vector-sum", dim=2, batch_size=20, horizon=200, epsilon=1.0, delta=1e-5, levels=2
        )


def test_only_certified_calibration_is_offered() -> None:
    assert ConcurrentTree.calibrations == ("certified",)


# Which batch sends what, and what is released when.


def test_a_batch_that_no_complete_node_will_hold_has_no_report_for_that_level() -> None:
    made = tree_of(plan(levels=2, horizon=20 * 23))
    assert (made.tree.batches, made.tree.fan_out) == (23, 5)
    sent = [len(made.release(index).nodes) for index in range(23)]
    assert sent == [2] * 20 + [1] * 3
    row = np.zeros(LAYOUT.size)
    levels = [
        {name.partition("/")[0] for name in made.release(index).randomize(row, SeededCoins(0))}
        for index in (0, 19, 20, 22)
    ]
    assert levels == [{"0", "1"}, {"0", "1"}, {"0"}, {"0"}]
    with pytest.raises(ValueError, match="index must be below the 23 batches, got 23"):
        made.release(23)


def test_channels_close_with_the_last_batch_of_their_node() -> None:
    made = plan(levels=2, horizon=20 * 23)
    for index in range(23):
        closing = made.closing(index)
        assert closing is not None
        levels = {name.partition("/")[0] for name in closing}
        assert levels == ({"0", "1"} if index in (4, 9, 14, 19) else {"0"})
        assert len(closing) == len(levels) * LAYOUT.size
        assert closing <= made.shapes(index).keys()


def test_a_plan_of_another_protocol_closes_everything() -> None:
    asked: dict[str, Any] = {"dim": 2, "epsilon": 1.0, "delta": 1e-5, "horizon": 2000}
    for protocol in ("vector-sum", "local"):
        assert Plan.calibrate(protocol, **asked).closing(0) is None


@pytest.mark.parametrize("changes", [{}, {"batches": "doubling", "horizon": 3000, "levels": 2}])
def test_the_largest_noise_is_that_of_the_worst_prefix(changes: dict[str, Any]) -> None:
    made = tree_of(plan(**changes))
    batches = made.tree.batches
    variances = [
        sum(
            made.release(node.start).nodes[level].noise_std ** 2
            for level, node in made.tree.prefix(count)
        )
        for count in range(1, batches + 1)
    ]
    assert made.largest_noise_variance(batches) == pytest.approx(max(variances))
    assert made.largest_noise_variance(3) == pytest.approx(max(variances[:3]))
    size = made.layout.size
    running = PrefixSums(made.running_sum(), size)
    for index in range(batches):
        sums = np.zeros(size * len(made.covers(index)))
        assert running.add(index, sums)[1] == pytest.approx(variances[index])


# What is promised.


def test_the_guarantee_gets_worse_with_participations_and_ends_with_the_batches() -> None:
    made = tree_of(plan(max_participations=3, levels=2))
    found = [made.guarantee(present).epsilon(1e-5) for present in (1, 2, 3, 5, 10, 11, 100)]
    assert found == sorted(found)
    assert made.guarantee(101).delta(1.0) == made.guarantee(100).delta(1.0)
    with pytest.raises(ValueError, match="participations"):
        made.guarantee(0)


def test_one_level_promises_what_vector_sum_promises() -> None:
    asked: dict[str, Any] = {"dim": 2, "batches": "fixed", "batch_size": 20, "horizon": 2000}
    asked["honest_fraction"] = 1.0
    for present in (1, 4):
        plain = Plan.calibrate(
            "vector-sum", **asked, epsilon=1.0, delta=1e-5, max_participations=present
        )
        made = plan(levels=1, max_participations=present)
        node = made.release(0).nodes[0]  # type: ignore[attr-defined]
        assert node == plain.release(0)
        assert made.promise.epsilon(1e-5) == pytest.approx(plain.promise.epsilon(1e-5), rel=1e-9)


def test_fewer_bits_in_any_one_node_break_the_promise() -> None:
    made = tree_of(plan(batches="doubling", horizon=3000, levels=2))
    budget = Budget(1.0, 1e-5)
    assert made.guarantee().meets(budget)
    for level, node in ((0, range(1)), (0, range(7, 8)), (1, range(3)), (1, range(3, 6))):
        fewer = tuple(
            thinned(release, level) if index in node else release
            for index, release in enumerate(made.made)
        )
        assert not replace(made, releases=fewer).guarantee().meets(budget)


def thinned(release: ConcurrentTreeRelease, level: int) -> ConcurrentTreeRelease:
    bits = list(release.noise_bits)
    bits[level] -= 1 + bits[level] // 10
    return replace(release, noise_bits=tuple(bits))


def test_users_who_are_not_honest_are_not_counted() -> None:
    made = tree_of(plan(batch_size=30, honest_fraction=2 / 3))
    assert made.guarantee().meets(Budget(1.0, 1e-5))
    assert not replace(made, honest_fraction=0.5).guarantee().meets(Budget(1.0, 1e-5))
    with pytest.raises(GuaranteeError, match="at least 1 honest user is needed"):
        replace(made, honest_fraction=0.01).guarantee()


def test_the_coins_of_one_report_alone_hide_something_only_if_there_are_many() -> None:
    few = tree_of(plan())
    assert not few.local_guarantee().proved
    assert "too far" in few.local_guarantee().reason
    release = ConcurrentTreeRelease(LAYOUT, 5, (5, 10), (1.0, 1.0), (4000, 4000))
    many = ConcurrentTree(LAYOUT, FixedBatches(5, 20), (release,))
    alone, once = many.local_guarantee(), many.guarantee()
    assert alone.proved
    assert alone.epsilon(1e-5) > once.epsilon(1e-5)


def test_bits_are_raised_until_the_whole_guarantee_meets_the_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_few(batch: Any, budget: Budget, overhead: float) -> tuple[float, int]:
        return 1.75, max(1, round(250 / batch.users))

    monkeypatch.setattr("croupier.protocols.concurrent_tree.fewest_node_bits", too_few)
    budget = Budget(1.0, 1e-5)
    made = ConcurrentTree.calibrate(budget, LAYOUT, FixedBatches(20, 200), Terms("certified"))
    assert made.guarantee().meets(budget)
    assert made.made[0].noise_bits[0] > 250 / 20


# Parameters that do not fit together.


def releases() -> list[ConcurrentTreeRelease]:
    return [
        ConcurrentTreeRelease(LAYOUT, 3, (3, 9), (2.0, 3.0), (9, 5)),
        ConcurrentTreeRelease(LAYOUT, 6, (6, 9), (2.5, 3.0), (7, 5)),
        ConcurrentTreeRelease(LAYOUT, 12, (12, 36), (2.5, 4.0), (7, 4)),
        ConcurrentTreeRelease(LAYOUT, 24, (24, 36), (2.5, 4.0), (7, 4)),
    ]


def test_batches_of_a_node_must_agree_on_it() -> None:
    schedule = DoublingBatches(3, 45)
    assert ConcurrentTree(LAYOUT, schedule, tuple(releases())).tree.fan_out == 2
    for changed in (
        {"grids": (2.5, 3.5)},
        {"noise_bits": (7, 6)},
        {"node_users": (6, 10)},
        {"node_users": (5, 9)},
    ):
        other = releases()
        other[1] = replace(other[1], **changed)
        with pytest.raises(ValueError, match="releases must agree on range"):
            ConcurrentTree(LAYOUT, schedule, tuple(other))


def test_every_batch_needs_its_release() -> None:
    with pytest.raises(ValueError, match="releases must be 4 of a tree, got 1"):
        ConcurrentTree(LAYOUT, DoublingBatches(3, 45), tuple(releases()[:1]))
    with pytest.raises(ValueError, match="releases must be 1 of a tree, got 2"):
        ConcurrentTree(LAYOUT, FixedBatches(3, 12), tuple(releases()[:2]))


def test_a_document_whose_nodes_do_not_agree_is_refused() -> None:
    made = plan(batches="doubling", horizon=3000, levels=2)
    first, second = (made.release(index).parameters["grids"][1] for index in (0, 3))
    assert first != second
    text = made.to_json().replace(str(first), str(second), 1)
    with pytest.raises(DocumentError):
        Plan.from_json(text)


# Running it.


def test_it_runs_through_the_three_roles() -> None:
    made = plan(levels=2, horizon=20 * 5, batch_size=20, delta=0.1, epsilon=5.0)
    tree = tree_of(made).tree
    assert (tree.batches, tree.fan_out) == (5, 3)
    shuffler, analyzer = Shuffler(made), Analyzer(made)
    coins = SeededCoins(np.random.SeedSequence(0))
    for _ in range(20 * 5):
        client = Client._seeded(made, coins)
        client.update(analyzer.model)
        batch = shuffler.collect(client.report([1.0, 0.0], 1.0))
        if batch is not None:
            analyzer.receive(batch)
    assert analyzer.model.version == 5
    assert analyzer.model.users == 100
    # Rewards are 1/2 + theta_0 + beta = 1, and the priors' precisions are 3 and 12.
    assert analyzer.model.theta[0] == pytest.approx(0.5 * 12 / 15, abs=0.1)


def test_it_simulates_and_learns() -> None:
    made = plan(levels=2, horizon=4000, epsilon=10.0, delta=0.1)
    curves = run(made, Sphere(2, 3), seed=1, trials=range(4), points=4)
    halves = np.diff(curves.regret[:, [1, 3]], axis=1)[:, 0] / curves.regret[:, 1]
    assert halves.mean() < 0.7  # the second half costs less than the first


def test_a_tree_of_many_batches_has_less_noise_than_fresh_batches() -> None:
    asked: dict[str, Any] = {"batches": "fixed", "batch_size": 20, "horizon": 20_000}
    asked["honest_fraction"] = 1.0
    fresh = Plan.calibrate("vector-sum", dim=2, epsilon=1.0, delta=1e-5, **asked)
    many = plan(**asked)
    noise = [math.sqrt(one.mechanism.largest_noise_variance(1000)) for one in (fresh, many)]
    # MATH 6.1: 31.6 against 9.0 for 1000 batches and three levels.
    assert noise[0] / noise[1] == pytest.approx(31.6 / 9.0, rel=0.01)


def test_people_are_told_levels_fan_out_and_rate() -> None:
    told = tree_of(plan()).words()
    assert told["tree"].startswith("3 levels, fan-out 5")
    assert "T^(7/13)" in told["rate"]
    asked: dict[str, Any] = {"dim": 2, "batches": "fixed", "batch_size": 20, "horizon": 2000}
    asked["honest_fraction"] = 1.0
    assert Plan.calibrate("noiseless", **asked).mechanism.words() == {}


def test_a_growing_tree_lists_every_batch() -> None:
    made = tree_of(plan(batches="growing", batch_size=20, horizon=2000, levels=2))
    assert isinstance(made.schedule, GrowingBatches)
    assert [release.users for release in made.releases] == list(made.schedule.sizes())
    for index, release in enumerate(made.made):
        users = [made.planned.users(node) for node in made.tree.holding(index)]
        assert list(release.node_users) == users
