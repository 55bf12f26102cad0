"""The certificate of shuffled bits: what several releases earn, and its curve (MATH 4)."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from croupier.privacy import gdp
from croupier.privacy.budget import LEAST_DELTA
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve

SENSITIVITY = math.sqrt(4.5)


def labels_of(dim: int) -> int:
    return dim + dim * (dim + 1) // 2


def curve(coins: int, distance: float, labels: int = 20, times: int = 1) -> BinomialCurve:
    return BinomialCurve(((CountRelease(coins, 0.5, distance, labels), times),))


def test_releases_compose_by_squares_and_share_the_tails() -> None:
    first, second = CountRelease(10**5, 0.5, 20.0, 20), CountRelease(10**6, 0.5, 30.0, 20)
    both = BinomialCurve(((first, 3), (second, 2)))
    tau = 1e-3 * 1e-6 / 100
    assert both.tails == 100
    assert both.tau(1e-6) == pytest.approx(tau, rel=1e-12, abs=0)
    expected = math.sqrt(3 * first.mu(tau) ** 2 + 2 * second.mu(tau) ** 2)
    assert both.mu_at(1e-6) == pytest.approx(expected, rel=1e-12)
    tails = 1e-3 * 1e-6
    bound = tails + (1 - tails) * gdp.delta_of(expected, 1.0)
    assert both.bound(1.0, 1e-6) == pytest.approx(bound, rel=1e-6, abs=0)
    assert both.bound(1.0, 1e-6) >= bound


def test_the_mu_of_a_curve_is_rounded_up() -> None:
    once = CountRelease(20_000, 0.5, 19.0, 20)
    assert BinomialCurve(((once, 1),)).mu(1e-9) > once.mu(1e-9)


def test_more_coins_fewer_participations_and_shorter_distances_are_more_private() -> None:
    base = curve(20_000, 19.0, times=2).epsilon(1e-5)
    assert curve(40_000, 19.0, times=2).epsilon(1e-5) < base
    assert curve(20_000, 19.0, times=1).epsilon(1e-5) < base
    assert curve(20_000, 15.0, times=2).epsilon(1e-5) < base
    assert curve(20_000, 19.0, labels=10, times=2).epsilon(1e-5) < base


@settings(deadline=None, max_examples=30)
@given(
    coins=st.integers(30, 10**7),
    distance=st.floats(0.1, 100.0),
    labels=st.integers(1, 230),
    times=st.integers(1, 100),
    power=st.floats(-14.0, -0.5),
)
def test_a_round_trip_ends_on_the_safe_side(
    coins: int, distance: float, labels: int, times: int, power: float
) -> None:
    proved, delta = curve(coins, distance, labels, times), 10.0**power
    epsilon = proved.epsilon(delta)
    assume(math.isfinite(epsilon))
    assert proved.delta(epsilon) <= delta
    assert proved.holds(epsilon, proved.delta(epsilon))
    if epsilon > 1e-6:
        assert not proved.holds(epsilon * (1 - 1e-6), delta)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_delta_is_the_smallest_that_is_proved(epsilon: float) -> None:
    proved = curve(20_000, 19.0)
    delta = proved.delta(epsilon)
    assert proved.holds(epsilon, delta)
    assert not proved.holds(epsilon, delta * (1 - 1e-9))


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 300.0])
def test_where_nothing_is_certified_delta_is_one(epsilon: float) -> None:
    assert curve(40, 30.0).delta(epsilon) == 1
    assert curve(40, 30.0).epsilon(1e-3) == math.inf


def test_beyond_all_losses_delta_is_the_least_that_is_answered() -> None:
    proved = curve(20_000, 19.0)
    assert proved.delta(40.0) == LEAST_DELTA
    assert proved.holds(40.0, LEAST_DELTA)


def test_an_unfair_coin_has_a_curve_too() -> None:
    fair = curve(20_000, 19.0)
    unfair = BinomialCurve(((CountRelease(20_000, 0.25, 19.0, 20), 1),))
    assert unfair.epsilon(1e-5) > fair.epsilon(1e-5)
    assert unfair.delta(unfair.epsilon(1e-5)) <= 1e-5


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="releases must not be empty"):
        BinomialCurve(())
    with pytest.raises(ValueError, match="times must be a whole number of at least 1, got 0"):
        curve(100, 1.0, times=0)
    with pytest.raises(ValueError, match=r"delta must be between 1e-300 and 1, got 1\.0"):
        curve(100, 1.0).epsilon(1.0)
