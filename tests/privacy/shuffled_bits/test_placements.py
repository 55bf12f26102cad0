"""A user is where it is worst: curves over several batches against every placement (MATH 4)."""

from __future__ import annotations

import itertools
import math

import pytest

from croupier.plan import Plan
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve
from croupier.privacy.shuffled_bits.placements import (
    PlacedCurve,
    WorstBatchCurve,
    drawn,
    placed,
)
from croupier.protocols.vector_sum import VectorSum

# The first is worse by distance over coins, the second because rounding costs few coins more.
MANY = CountRelease(8376, 0.5, 3.32, 20)
FEW = CountRelease(1612, 0.5, 1.455, 20)
FINE = CountRelease(200_000, 0.5, 15.0, 20)
ORDERS = list(itertools.permutations((MANY, FEW, FINE)))


def once(batch: CountRelease) -> BinomialCurve:
    return BinomialCurve(((batch, 1),))


def test_the_worst_batch_is_not_the_one_with_the_longest_distance_per_coin() -> None:
    assert MANY.distance**2 / MANY.coins > FEW.distance**2 / FEW.coins
    assert once(FEW).delta(0.3) > 1.1 * once(MANY).delta(0.3)
    assert placed((MANY, FEW), 1).delta(0.3) == once(FEW).delta(0.3)
    assert placed((FEW, MANY, FINE), 1).delta(0.3) == once(FEW).delta(0.3)


@pytest.mark.parametrize("batches", ORDERS)
@pytest.mark.parametrize("delta", [1e-9, 1e-6, 1e-2])
def test_a_user_of_one_batch_gets_what_holds_in_all(
    batches: tuple[CountRelease, ...], delta: float
) -> None:
    curve = placed(batches, 1)
    assert isinstance(curve, WorstBatchCurve)
    assert curve.mu_at(delta) == max(once(batch).mu_at(delta) for batch in batches)
    worst = max(once(batch).epsilon(delta) for batch in batches)
    assert worst <= curve.epsilon(delta) <= worst * (1 + 1e-12)
    assert curve.delta(worst) <= delta
    assert curve.delta(0.9 * worst) == max(once(batch).delta(0.9 * worst) for batch in batches)


class Uneven(BinomialCurve):
    """Proved at a delta, and at smaller epsilons, but not at some larger delta."""

    def holds(self, epsilon: float, delta: float) -> bool:
        return delta < 5e-5 and super().holds(epsilon, delta)


def test_a_batch_that_fails_at_a_delta_and_has_a_smaller_one_changes_nothing() -> None:
    uneven = Uneven(((FINE, 1),))
    epsilon = once(FEW).epsilon(1e-4)
    assert not uneven.holds(epsilon, 1e-4)
    assert uneven.delta(epsilon) < 5e-5
    worst = WorstBatchCurve((once(FEW), uneven))
    assert worst.delta(epsilon) == once(FEW).delta(epsilon)
    assert worst.epsilon(1e-4) == pytest.approx(epsilon, rel=1e-12)


def test_batches_that_hide_nothing_leave_nothing() -> None:
    curve = placed((FEW, CountRelease(4, 0.5, 9.0, 20)), 1)
    assert curve.delta(1.0) == 1.0
    assert math.isinf(curve.epsilon(1e-6))
    assert curve.mu_at(1e-6) == math.inf


@pytest.mark.parametrize("batches", ORDERS)
@pytest.mark.parametrize("participations", [2, 3, 4])
def test_a_returning_user_is_in_the_batches_with_the_largest_mu(
    batches: tuple[CountRelease, ...], participations: int
) -> None:
    """The last batch stands for all later ones: a user may be in it again and again."""
    curve = placed(batches, participations)
    assert isinstance(curve, PlacedCurve)
    tau = curve.tau(1e-6)
    assert tau == pytest.approx(1e-9 / (20 * participations), rel=1e-12, abs=0)
    every = [*batches, *[batches[-1]] * participations]
    worst = max(
        math.hypot(*(batch.mu(tau) for batch in chosen))
        for chosen in itertools.combinations(every, participations)
    )
    assert 0.98 * worst < curve.mu_at(1e-6) <= worst * (1 + 1e-12)
    assert curve.delta(curve.epsilon(1e-6)) <= 1e-6


def test_draws_may_all_be_for_the_worst_batch() -> None:
    """A batch of shares that begins again is drawn for again, the first as well as the last."""
    for batches in ORDERS:
        curve = drawn(batches, 4)
        worst = max(BinomialCurve(((one, 4),)).epsilon(1e-6) for one in batches)
        assert worst <= curve.epsilon(1e-6) <= worst * (1 + 1e-12)
    assert drawn((MANY, MANY), 2) == BinomialCurve(((MANY, 2),))


def test_one_batch_for_all_is_composed_with_itself() -> None:
    assert placed((MANY,), 3) == BinomialCurve(((MANY, 3),))


@pytest.mark.parametrize(
    ("dim", "epsilon", "batches", "overhead"),
    [(5, 0.3, "growing", 0.3), (3, 1.0, "doubling", 0.3), (5, 0.3, "growing", 0.05)],
)
def test_a_plan_promises_what_holds_in_every_batch(
    dim: int, epsilon: float, batches: str, overhead: float
) -> None:
    plan = Plan.calibrate(
        "vector-sum",
        dim=dim,
        epsilon=epsilon,
        delta=1e-6,
        batches=batches,
        horizon=20_000,
        overhead=overhead,
    )
    mechanism = plan.mechanism
    assert isinstance(mechanism, VectorSum)
    counts = [
        mechanism._counts(index, mechanism.honest_users(index))
        for index in range(len(mechanism.releases))
    ]
    worst = max(once(batch).delta(epsilon) for batch in counts)
    assert mechanism.guarantee().delta(epsilon) == worst <= 1e-6


def test_a_user_in_any_batches_pays_for_the_tails_of_the_worst() -> None:
    """Many coins of bias 1/4 are seen as half as many fair ones, with a second tail."""
    many, few = CountRelease(4 * 10**9, 0.25, 9.0, 20), CountRelease(10**6, 0.25, 9.0, 20)
    assert (many.tails, few.tails) == (40, 20)
    for batches in ((many, few), (few, many)):
        curve = placed(batches, 3)
        assert isinstance(curve, PlacedCurve)
        assert curve.tails == 3 * 40
