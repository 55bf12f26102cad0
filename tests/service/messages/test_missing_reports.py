"""How many reports may be missing from a sum: as many as the guarantee computed again allows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.service.messages.missing_reports import _largest_fitting, least_opened

from ..packed_reports import USERS, plan_of


def weaker(plan: Plan, honest: int, users: int) -> Plan:
    fraction = honest / users
    return replace(plan, mechanism=replace(plan.mechanism, honest_fraction=fraction))


def test_a_calibrated_plan_has_nobody_to_spare() -> None:
    plan = plan_of("vector-sum")
    assert plan.met
    assert not weaker(plan, USERS - 1, USERS).met
    assert least_opened(plan, 0) == USERS


@pytest.mark.parametrize("protocol", ["vector-sum", "concurrent-tree"])
@pytest.mark.parametrize("honest", [1.0, 0.8])
def test_what_may_be_missing_is_all_that_the_budget_allows_and_no_more(
    protocol: str, honest: float
) -> None:
    users = 100
    plan = Plan.calibrate(
        protocol,
        dim=2,
        batches="fixed",
        batch_size=users,
        horizon=4 * users,
        epsilon=1.0,
        delta=1e-4,
        honest_fraction=honest,
    )
    looser = replace(plan, budget=Budget(1.2, 1e-4))
    missing = users - least_opened(looser, 0)
    assert 0 < missing < honest * users
    left = round(honest * users) - missing
    assert weaker(looser, left, users).met
    assert not weaker(looser, left - 1, users).met


def test_batches_that_grow_are_all_kept_at_once() -> None:
    """One fraction holds for every batch, so the guarantee is that of all of them missing some."""
    plan = Plan.calibrate(
        "vector-sum", dim=2, batch_size=50, horizon=2000, epsilon=1.0, delta=1e-4,
        batches="growing", honest_fraction=1.0,
    )  # fmt: skip
    looser = replace(plan, budget=Budget(1.3, 1e-4))
    batches = range(plan.schedule.batches)
    sizes = [plan.users(index) for index in batches]
    assert len(set(sizes)) > 2
    least = [least_opened(looser, index) for index in batches]
    assert all(0 < few < size for few, size in zip(least, sizes, strict=True))
    fraction = max(few / size for few, size in zip(least, sizes, strict=True)) + 1e-12
    fewest = replace(looser.mechanism, honest_fraction=fraction)
    assert [fewest.honest_users(index) for index in batches] == least
    assert replace(looser, mechanism=fewest).met


def test_a_plan_that_is_not_met_or_promises_nothing_spares_nobody() -> None:
    plan = plan_of("vector-sum")
    assert least_opened(replace(plan, budget=Budget(0.01, 1e-6)), 0) == USERS
    assert least_opened(replace(plan, budget=None), 0) == USERS


@pytest.mark.parametrize("limit", [0, 1, 2, 7, 100])
def test_the_search_finds_the_last_that_fits(limit: int) -> None:
    for last in range(limit + 2):
        assert _largest_fitting(limit, lambda count, last=last: count <= last) == min(last, limit)  # type: ignore[misc]
