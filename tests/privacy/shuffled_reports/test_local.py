"""The curve of shuffled reports with a bounded likelihood ratio: round trips, order, limits."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, PureCurve
from croupier.privacy.shuffled_reports.clones import clones_delta
from croupier.privacy.shuffled_reports.local import ShuffledLocalCurve, most_local_epsilon

CASES = [(0.5, 1000, 1), (3.0, 1000, 1), (2.0, 20, 3), (1.0, 1, 1), (12.0, 50, 2), (900.0, 10, 1)]


@pytest.mark.parametrize(("local", "users", "batches"), CASES)
@pytest.mark.parametrize("delta", [0.1, 1e-4, 1e-9])
def test_delta_at_the_epsilon_of_a_delta_is_within_it(
    local: float, users: int, batches: int, delta: float
) -> None:
    curve = ShuffledLocalCurve(local, users, batches)
    epsilon = curve.epsilon(delta)
    assert curve.delta(epsilon) <= delta
    assert epsilon <= batches * local
    if epsilon > 0:
        assert curve.delta(epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize(("local", "users", "batches"), CASES)
def test_the_curve_falls_and_is_never_above_that_of_reports_alone(
    local: float, users: int, batches: int
) -> None:
    curve, alone = ShuffledLocalCurve(local, users, batches), PureCurve(batches * local)
    epsilons = np.linspace(0, batches * local, 12)
    deltas = [curve.delta(epsilon) for epsilon in epsilons]
    assert all(later <= earlier * (1 + 1e-8) for earlier, later in pairwise(deltas))
    assert all(curve.delta(epsilon) <= alone.delta(epsilon) for epsilon in epsilons)
    assert curve.delta(batches * local) == 0


def test_a_batch_of_one_is_randomised_response() -> None:
    curve = ShuffledLocalCurve(1.5, 1)
    for epsilon in (0.0, 0.4, 1.4):
        assert curve.delta(epsilon) == pytest.approx(PureCurve(1.5).delta(epsilon), rel=1e-8)


def test_a_crowd_is_worth_what_clones_say() -> None:
    assert ShuffledLocalCurve(2.0, 1000).delta(0.5) == clones_delta(2.0, 1000, 0.5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "batches"),
    [
        (1.0, 1e-5, 1000, 1),
        (1.0, 0.1, 20, 1),
        (0.2, 1e-6, 10**5, 1),
        (1.0, 1e-5, 1000, 4),
        (30.0, 1e-3, 50, 2),
        (3.0, 0.999, 1, 1),
        (1e9, 1e-300, 10, 1),
        (0.5, 1e-300, 1, 1),
    ],
)
def test_the_largest_local_epsilon_meets_the_budget_and_a_thousandth_more_does_not(
    epsilon: float, delta: float, users: int, batches: int
) -> None:
    budget = Budget(epsilon, delta)
    local = most_local_epsilon(budget, users=users, batches=batches)

    def meets(tried: float) -> bool:
        return Guarantee("clones", ShuffledLocalCurve(tried, users, batches)).meets(budget)

    assert meets(local)
    assert not meets(1.001 * local)
    assert local * batches >= epsilon * (1 - 1e-12)


def test_clones_have_no_mu() -> None:
    assert Guarantee("clones", ShuffledLocalCurve(1.0, 10)).mu is None


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, 10, 1), "local_epsilon"),
        ((math.inf, 10, 1), "local_epsilon"),
        ((1.0, 0, 1), "users"),
        ((1.0, 10, 0), "batches"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[float, int, int], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ShuffledLocalCurve(*arguments)
