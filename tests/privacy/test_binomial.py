"""The certificate of shuffled bits: both forms, several releases and its curve (MATH 4)."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from croupier.errors import GuaranteeError
from croupier.privacy import gdp
from croupier.privacy.binomial import BinomialCurve
from croupier.privacy.counts import CountRelease
from croupier.privacy.journeys import leg_of
from croupier.privacy.moves import Move
from croupier.privacy.rounding import find_rising
from croupier.privacy.slopes import Slope, _bend, fast_slope, find_slope, find_window, general_slope

SENSITIVITY = math.sqrt(4.5)


def labels_of(dim: int) -> int:
    return dim + dim * (dim + 1) // 2


def curve(coins: int, distance: float, labels: int = 20, times: int = 1) -> BinomialCurve:
    return BinomialCurve(((CountRelease(coins, 0.5, distance, labels), times),))


@settings(deadline=None, max_examples=150)
@given(
    coins=st.integers(24, 4000),
    distance=st.floats(0.2, 60.0),
    dim=st.integers(1, 20),
    power=st.floats(-12.0, -1.0),
    times=st.integers(1, 100),
)
def test_the_fast_form_is_never_below_the_general_one_and_close_to_it(
    coins: int, distance: float, dim: int, power: float, times: int
) -> None:
    labels = labels_of(dim)
    tau = 1e-3 * 10**power / (labels * times)
    fast = fast_slope(coins, math.ceil(distance), tau)
    assume(fast is not None)
    assert fast is not None
    general = general_slope(coins, 0.5, math.ceil(distance), tau)
    assert fast.slope >= general.slope * (1 - 1e-10)
    mus = fast.mu(distance, labels), general.mu(distance, labels)
    assert mus[1] * (1 - 1e-10) <= mus[0] <= mus[1] * 1.001


@pytest.mark.slow
@pytest.mark.parametrize("coins", [20_001, 300_000, 4_000_000])
@pytest.mark.parametrize("shift", [3, 40, 300])
@pytest.mark.parametrize("tau", [1e-4, 1e-9, 1e-16])
def test_the_fast_form_is_the_general_one_for_many_coins(
    coins: int, shift: int, tau: float
) -> None:
    fast, general = fast_slope(coins, shift, tau), general_slope(coins, 0.5, shift, tau)
    assert fast is not None
    assert general.slope * (1 - 1e-10) <= fast.slope <= general.slope * (1 + 1e-6)
    assert general.mu(shift, 230) * (1 - 1e-10) <= fast.mu(shift, 230)


@pytest.mark.parametrize("users", [100, 1000])
@pytest.mark.parametrize("honest", [1.0, 2 / 3])
def test_both_forms_agree_at_batches_honest_fractions_and_participations(
    users: int, honest: float
) -> None:
    coins = math.floor(honest * users) * 40
    for dim, times in ((1, 1), (5, 20), (20, 100)):
        tau = 1e-3 * 1e-12 / (labels_of(dim) * times)
        fast, general = fast_slope(coins, 15, tau), general_slope(coins, 0.5, 15, tau)
        assert fast is not None
        assert general.mu(14.5, labels_of(dim)) * (1 - 1e-10) <= fast.mu(14.5, labels_of(dim))
        assert fast.mu(14.5, labels_of(dim)) <= general.mu(14.5, labels_of(dim)) * 1.001


@pytest.mark.parametrize(("bias", "product"), [(0.5, 1.005), (0.25, 1.069)])
def test_skew_steepens_the_slope(bias: float, product: float) -> None:
    found = find_slope(2000, bias, 20, 5e-10)
    spread = math.sqrt(2000 * bias * (1 - bias))
    assert found.slope * spread == pytest.approx(product, abs=1e-3)


def test_the_slope_of_many_coins_is_that_of_the_gaussian() -> None:
    for coins in (10**6, 10**9):
        found = fast_slope(coins, 100, 1e-9)
        assert found is not None
        spread = math.sqrt(coins) / 2
        tail = gdp.epsilon_of(1.0, 1e-9) ** 2  # larger than the square of the tail's quantile
        assert 1 <= found.slope * spread <= 1 + 2 * tail / coins + 1e-8


@pytest.mark.parametrize(
    ("coins", "shift", "tau"),
    [
        pytest.param(23, 1, 0.1, id="too few coins"),
        pytest.param(100, 45, 1e-3, id="window beyond the support"),
        pytest.param(60, 4, 1e-12, id="window at the end of the support"),
        pytest.param(24, 1, 0.2499, id="slope too steep for Lemma M"),
    ],
)
def test_the_fast_form_says_nothing_outside_its_conditions(
    coins: int, shift: int, tau: float
) -> None:
    assert fast_slope(coins, shift, tau) is None
    assert fast_slope(100 * coins, shift, tau) is not None


def test_the_general_form_takes_over_where_the_fast_one_is_silent() -> None:
    assert find_slope(24, 0.5, 1, 0.2499) == general_slope(24, 0.5, 1, 0.2499)


def test_the_window_is_where_the_tails_end() -> None:
    # 10 fair coins: P[W > 7] = 56/1024, P[W > 8] = 11/1024.
    assert find_window(10, 0.5, 0.06).high == 7
    assert find_window(10, 0.5, 0.05).high == 8
    assert find_window(10, 0.5, 56 / 1024).high == 8  # on an atom: rounded to the safe side
    window = find_window(200, 0.25, 1e-4)
    mirror = find_window(200, 0.75, 1e-4)
    assert (mirror.low, mirror.high) == (199 - window.high, 199 - window.low)


def test_a_window_that_leaves_the_support_is_refused_with_both_numbers() -> None:
    with pytest.raises(GuaranteeError, match=r"counts from -\d+ to \d+, but 40 coins .* 0 to 39"):
        find_slope(40, 0.5, 30, 1e-3)
    assert CountRelease(40, 0.5, 30.0, 5).mu(1e-3) == math.inf
    assert CountRelease(0, 0.5, 1.0, 5).mu(1e-3) == math.inf
    assert curve(40, 30.0).epsilon(1e-3) == math.inf
    assert curve(40, 30.0).delta(1.0) == 1.0


def test_too_many_chords_are_not_evaluated() -> None:
    with pytest.raises(GuaranteeError, match="not evaluated: it compares"):
        general_slope(10**9, 0.25, 20_000, 1e-9)


def test_a_tail_of_a_quarter_or_more_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tau must be between 0 and 0\.25, got 0\.25"):
        find_slope(100, 0.5, 1, 0.25)


def test_mu_takes_the_smaller_surcharge() -> None:
    slope = Slope(0.1, 0.02, 0.03)
    assert slope.mu(2.0, 100) == pytest.approx(0.2 + 0.06)
    assert slope.mu(2.0, 4) == pytest.approx(0.2 + 0.04)
    assert Slope(0.1, 0.02).mu(2.0, 100) == pytest.approx(0.2 + 0.2)


def test_the_bend_is_r_minus_one_minus_its_logarithm() -> None:
    halves = np.array([0.049, 0.051, 0.3, 2.0, 20.0])
    ratio = 2 * halves / -np.expm1(-2 * halves)
    np.testing.assert_allclose(_bend(halves), ratio - 1 - np.log(ratio), rtol=1e-11)
    np.testing.assert_allclose(_bend(np.array([1e-9])), [5e-19], rtol=1e-15)


def test_reports_in_one_release_add_up_linearly() -> None:
    one = CountRelease(10**6, 0.5, 20.0, 25)
    three = CountRelease(10**6, 0.5, 20.0, 25, reports=3)
    assert three.shift in {75, 76}
    assert three.mu(1e-9) == pytest.approx(3 * 25 / 500, rel=1e-3)
    assert three.mu(1e-9) > 3 * one.mu(1e-9)


def test_the_reach_of_several_reports_is_rounded_up() -> None:
    for number in range(1, 200):
        release = CountRelease(10**6, 0.5, 0.1 * number, number, reports=3)
        exact = 3 * (Decimal(release.distance) + Decimal(number).sqrt())
        assert exact <= Decimal(release.reach) <= exact * (1 + Decimal("3e-15"))


def test_releases_compose_by_squares_and_share_the_tails() -> None:
    first, second = CountRelease(10**5, 0.5, 20.0, 20), CountRelease(10**6, 0.5, 30.0, 20)
    both = BinomialCurve(((first, 3), (second, 2)))
    tau = 1e-3 * 1e-6 / 100
    assert both.counts == 100
    assert both.tau(1e-6) == pytest.approx(tau, rel=1e-12, abs=0)
    expected = math.sqrt(3 * first.mu(tau) ** 2 + 2 * second.mu(tau) ** 2)
    assert both.mu_at(1e-6) == pytest.approx(expected, rel=1e-12)
    tails = 1e-3 * 1e-6
    bound = tails + (1 - tails) * gdp.delta_of(expected, 1.0)
    assert both.bound(1.0, 1e-6) == pytest.approx(bound, rel=1e-6, abs=0)
    assert both.bound(1.0, 1e-6) >= bound


def test_one_of_several_releases_keeps_half_of_every_tail_for_its_counts() -> None:
    """With a million coins a window is a count shorter if a tail is 3 % larger."""
    tau = 1e-9
    coarse = CountRelease(10**6, 0.5, 0.3, 65)
    rounding = find_rising(10**6, 1, tau / 2)
    assert rounding is not None
    part = coarse.part(tau)
    assert part.leg == leg_of(Move(rounding, 0.3, 65))
    assert part.plain == coarse.plain(tau)
    plain = replace(coarse, followed=False).part(tau)
    assert (plain.mu, plain.leg.length) == (coarse.plain(tau), coarse.plain(tau / 2))
    assert coarse.plain(tau / 1.94) < coarse.plain(tau / 2)


@pytest.mark.parametrize("times", [1, 4])
def test_a_simpler_curve_is_the_first_form_alone(times: int) -> None:
    coarse = CountRelease(2000, 0.5, 0.5, 65)
    proved = BinomialCurve(((coarse, times),))
    tau = proved.tau(1e-6)
    assert proved.simpler.mu_at(1e-6) == pytest.approx(math.sqrt(times) * coarse.plain(tau))
    assert proved.simpler.delta(0.1) > 1.2 * proved.delta(0.1)
    assert proved.simpler.simpler == proved.simpler
    fine = curve(10**6, 40.0, times=times)
    assert fine.simpler.delta(0.5) == fine.delta(0.5)


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
    with pytest.raises(ValueError, match="distance must be above 0"):
        CountRelease(100, 0.5, 0.0, 1)
    with pytest.raises(ValueError, match=r"delta must be between 1e-300 and 1, got 1\.0"):
        curve(100, 1.0).epsilon(1.0)
