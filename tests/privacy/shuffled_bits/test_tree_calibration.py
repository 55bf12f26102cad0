from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from croupier.errors import GuaranteeError
from croupier.layouts import LightOffset
from croupier.privacy.budget import Budget
from croupier.privacy.shuffled_bits.calibration import fewest_bits
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve
from croupier.privacy.shuffled_bits.quantile_slope import find_window
from croupier.privacy.shuffled_bits.tree import Tree
from croupier.privacy.shuffled_bits.tree_calibration import (
    NodeSum,
    TreeCurve,
    fewest_node_bits,
    mu_per_report,
)

LAYOUT = LightOffset(5)
BUDGET = Budget(1.0, 1e-6)
TREE = Tree(10_000, 3)
COUNTS = CountRelease(4000, 0.5, 8.3, 20)


def node(level: int = 1, present: int = 1, users: int = 20, share: float = 1.0) -> NodeSum:
    """A node of the tree of ten thousand batches of ``users``."""
    size = users * TREE.width(level)
    return NodeSum(
        size,
        share,
        LAYOUT.device_sensitivity,
        LAYOUT.size,
        sum(TREE.worst_squares(one, present) for one in range(3)),
        math.floor(share * users) * TREE.width(level),
        TREE.most_reports(level, present),
    )


@pytest.mark.parametrize("level", range(3))
def test_one_participation_is_as_many_batches_as_levels(level: int) -> None:
    wanted = fewest_bits(
        BUDGET,
        users=20 * TREE.width(level),
        honest_fraction=1.0,
        sensitivity=LAYOUT.device_sensitivity,
        ranges=LAYOUT.high - LAYOUT.low,
        participations=3,
        overhead=0.05,
    )
    assert fewest_node_bits(node(level), BUDGET, 0.05) == wanted


@pytest.mark.parametrize("present", [1, 2, 4, 16])
@pytest.mark.parametrize("level", range(3))
def test_the_bits_meet_the_budget_within_the_overhead_and_few_fewer_do(
    level: int, present: int
) -> None:
    batch = node(level, present)
    grid, bits = fewest_node_bits(batch, BUDGET, 0.05)
    assert batch.confirms(BUDGET, grid, bits)
    std = math.sqrt(batch.users * (bits + 1)) / 2 / grid
    assert std <= 1.05 * batch.floor(BUDGET)
    fewer = bits - max(1, bits // 300)
    assert not batch.meets(BUDGET, batch.coarsest_grid(BUDGET, fewer, 0.05), fewer)


@pytest.mark.parametrize("present", [1, 4, 16, 100])
def test_a_calibration_asks_a_few_dozen_times(
    present: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    meets = NodeSum.meets

    def counted(batch: NodeSum, budget: Budget, grid: float, noise_bits: int) -> bool:
        asked.append(noise_bits)
        return meets(batch, budget, grid, noise_bits)

    monkeypatch.setattr(NodeSum, "meets", counted)
    for level in range(3):
        asked.clear()
        _, bits = fewest_node_bits.__wrapped__(node(level, present), BUDGET, 0.05)
        assert bits in asked
        assert len(asked) <= 36


def test_all_nodes_have_the_same_floor() -> None:
    for present in (1, 4):
        floors = {node(level, present).floor(BUDGET) for level in range(3)}
        assert len(floors) == 1
        squares = sum(TREE.worst_squares(level, present) for level in range(3))
        one = replace(node(0), participations=1)
        assert floors.pop() == pytest.approx(math.sqrt(squares) * one.floor(BUDGET))


def test_users_who_are_not_honest_add_no_coins_that_count() -> None:
    batch = node(1, share=2 / 3)
    assert batch.honest_users == 13 * 22
    assert batch.counts(2.0, 10).coins == 13 * 22 * 10
    assert batch.floor(BUDGET) == pytest.approx(node(1).floor(BUDGET) * math.sqrt(20 / 13))
    with pytest.raises(GuaranteeError, match="at least 1 honest user is needed"):
        node(1, users=1, share=0.5)


# The curve.


def test_one_report_a_level_is_the_certificate_of_several_releases() -> None:
    other = replace(COUNTS, coins=9000)
    tree = TreeCurve(((COUNTS, 1), (other, 1)), (0, 1))
    plain = BinomialCurve(((COUNTS, 1), (other, 1)))
    for delta in (1e-9, 1e-5, 0.1):
        assert tree.mu_at(delta) == pytest.approx(plain.mu_at(delta), rel=1e-13)
        assert tree.epsilon(delta) == pytest.approx(plain.epsilon(delta), rel=1e-10)


def test_a_level_is_as_bad_as_its_worst_node_not_their_sum() -> None:
    quiet = replace(COUNTS, coins=9000)
    both = TreeCurve(((quiet, 2), (COUNTS, 2)), (0, 0))
    worst = TreeCurve(((COUNTS, 2),), (0,))
    assert both.mu_at(1e-5) == worst.mu_at(1e-5)
    assert both.tails == worst.tails == 2 * 20


def test_levels_add_up_in_squares() -> None:
    one = TreeCurve(((COUNTS, 3),), (0,))
    two = TreeCurve(((COUNTS, 3), (COUNTS, 3)), (0, 1))
    # The tails are shared by twice as many counts, which changes next to nothing.
    assert two.mu_at(1e-5) == pytest.approx(math.sqrt(2) * one.mu_at(1e-5), rel=2e-3)


@pytest.mark.parametrize("tau", [1e-4, 1e-8, 1e-12])
def test_the_bound_per_report_holds_for_every_smaller_number_of_reports(tau: float) -> None:
    for most in (1, 2, 3, 8, 30):
        bound = mu_per_report(replace(COUNTS, coins=10**6, reports=most), tau)
        for reports in range(1, most + 1):
            own = replace(COUNTS, coins=10**6, reports=reports).mu(tau)
            assert own <= bound * reports


def test_any_placement_is_within_the_curve_of_the_worst_one() -> None:
    counts, delta = replace(COUNTS, coins=10**6), 1e-6
    worst = TreeCurve(((replace(counts, reports=4), 4 * 4 + 2 * 2),), (0,))
    for parts in ([4, 2], [3, 3], [4, 1, 1], [2, 2, 2], [1] * 6, [3, 1, 1, 1]):
        placed = BinomialCurve(tuple((replace(counts, reports=part), 1) for part in parts))
        assert placed.mu_at(delta) <= worst.mu_at(delta)
        assert placed.delta(0.5) <= worst.delta(0.5)


def test_more_reports_never_cost_less() -> None:
    found = []
    for present in (1, 2, 3, 5, 21, 22, 23, 39):
        levels = [
            (replace(COUNTS, coins=10**7, reports=TREE.most_reports(level, present)), level)
            for level in range(3)
        ]
        nodes = tuple((one, TREE.worst_squares(level, present)) for one, level in levels)
        found.append(TreeCurve(nodes, (0, 1, 2)).epsilon(1e-6))
    assert all(less <= more for less, more in pairwise(found))


def test_where_the_general_form_gives_up_nothing_is_certified() -> None:
    # So near the end of the support only the general form holds, and it has too much to look at.
    reach = 4_000_000 - 1 - find_window(4_000_000, 0.5, 1e-6).high
    refused = CountRelease(4_000_000, 0.5, float(reach), 20)
    with pytest.raises(GuaranteeError, match="was not evaluated"):
        refused.mu(1e-6)
    assert mu_per_report(refused, 1e-6) == math.inf


def test_a_curve_needs_the_level_of_every_node_and_a_delta_in_range() -> None:
    with pytest.raises(ValueError, match="levels must be 1, got"):
        TreeCurve(((COUNTS, 1),), (0, 1))
    with pytest.raises(ValueError, match="releases must not be empty"):
        TreeCurve((), ())
    with pytest.raises(ValueError, match="delta must be between"):
        TreeCurve(((COUNTS, 1),), (0,)).mu_at(1.0)
    with pytest.raises(ValueError, match="reports must be a whole number of at least 1, got 0"):
        replace(node(), reports=0)


def test_a_level_is_charged_for_its_worst_sum_of_squares() -> None:
    """Of nodes that hold several reports of a user."""
    tau = 1e-9
    nodes = [CountRelease(coins, 0.5, 9.0, 20, reports=2) for coins in (10**6, 2 * 10**6)]
    tree = TreeCurve(((nodes[0], 8), (nodes[1], 8)), (0, 0))
    worst = math.sqrt(8) * mu_per_report(nodes[0], tau)
    assert mu_per_report(nodes[1], tau) < mu_per_report(nodes[0], tau)
    assert worst <= tree.mu(tau) <= worst * (1 + 1e-13)


# Why rounding must be fresh on every level (MATH 4), exactly: no sampling can see it.


def trade_off(roundings: np.ndarray, coins: int, levels: int, epsilon: float) -> float:
    """The exact delta of the sum of ``levels`` counts, with the law of how many round up."""
    total = coins * levels
    counts = np.arange(total + levels + 1)
    moved = sum(
        chance * binom.pmf(counts - ups, total, 0.5) for ups, chance in enumerate(roundings)
    )
    return float(np.maximum(moved - math.exp(epsilon) * binom.pmf(counts, total, 0.5), 0).sum())


@pytest.mark.parametrize(
    ("coins", "levels", "distance", "epsilon"), [(128, 7, 0.05, 0.3), (256, 7, 0.1, 0.3)]
)
def test_rounding_reused_over_levels_breaks_the_certificate_and_fresh_rounding_does_not(
    coins: int, levels: int, distance: float, epsilon: float
) -> None:
    claimed = BinomialCurve(((CountRelease(coins, 0.5, distance, 2), levels),)).delta(epsilon)
    fresh = binom.pmf(np.arange(levels + 1), levels, distance)
    reused = np.zeros(levels + 1)
    reused[[0, levels]] = 1 - distance, distance
    assert trade_off(fresh, coins, levels, epsilon) <= claimed
    assert trade_off(reused, coins, levels, epsilon) > 10 * claimed
