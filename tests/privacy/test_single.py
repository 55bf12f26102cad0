"""What one release of rounded counts promises: two certificates, level by level (PROOF 8)."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtri

from croupier.privacy.journeys import Journey, leg_of
from croupier.privacy.levels import Levels
from croupier.privacy.moves import Move
from croupier.privacy.pace import steady
from croupier.privacy.rounding import find_rounding, least_step
from croupier.privacy.several import composed
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve
from croupier.privacy.shuffled_bits.quantile_slope import fast_slope, find_slope
from croupier.privacy.single import _followed, rounded_pace, slower, spread_mu
from croupier.privacy.spread import find_spread, rounded


@pytest.mark.parametrize("distance", [0.006, 0.2, 2.1213])
def test_the_slower_of_a_release_and_a_journey_of_one_counts(distance: float) -> None:
    """Near the median, on coarse grids, that is the journey; further out the release."""
    rounding, levels = find_rounding(2000, math.ceil(distance), 1e-10), Levels(7.0)
    assert rounding is not None
    move = Move(rounding, distance, 20)
    one = Journey(((leg_of(move), 1),), 1).speeds(levels)
    both, alone = slower(move, levels), move.speeds(levels)
    assert np.array_equal(both, np.minimum(alone, one))
    assert np.array_equal(both[10:40], alone[10:40])
    if distance < 1:
        assert both[0] < 0.995 * alone[0]


@pytest.mark.parametrize(("labels", "distance"), [(20, 2.1213), (65, 0.8), (230, 5.0)])
def test_the_pace_reaches_up_to_the_tail_of_all_labels(labels: int, distance: float) -> None:
    coins, tau, shift = 5000, 1e-9, math.ceil(distance)
    slope = fast_slope(coins, shift, tau)
    assert slope is not None
    plain = slope.mu(distance, labels)
    rounding = find_rounding(coins, shift, tau / 2)
    assert rounding is not None
    move = Move(rounding, distance, labels)
    top = -float(ndtri(1 - (1 - tau / 2) ** labels)) + plain
    pace = rounded_pace(coins, distance, labels, tau, plain)
    stated = np.maximum.accumulate(slower(move, Levels(top)))
    assert pace.levels[-1] == pytest.approx(top, rel=1e-7)
    assert pace.mus == pytest.approx(stated.tolist(), rel=3e-8)
    assert np.all(np.array(pace.mus) >= stated)
    assert pace.mu == pace.mus[-1] < plain


def test_where_it_is_no_better_or_does_not_hold_the_first_certificate_stays() -> None:
    assert rounded_pace(2000, 2.1, 20, 1e-9, 0.09).mu == 0.09
    assert rounded_pace(2000, 2.1, 10**9, 1e-3, 7.0) == steady(7.0)
    assert find_rounding(20, 2, 1e-3) is None
    assert rounded_pace(20, 2.0, 20, 1e-3, 7.0) == steady(7.0)


def test_levels_that_count_are_certified_though_the_deepest_are_not() -> None:
    """Short distances: the second mu is above the first one, and yet the curve is better."""
    tau, distance = 1e-10, 0.5
    slope = fast_slope(1000, 1, tau)
    assert slope is not None
    plain = slope.mu(distance, 1)
    pace = rounded_pace(1000, distance, 1, tau, plain)
    assert pace.mu == plain < pace.mus[-1]
    assert pace.delta(0.115) < 0.7 * steady(plain).delta(0.115)


def test_the_window_covers_its_own_mu() -> None:
    """A larger first mu widens the window, so the second may only grow with it."""
    mus = [rounded_pace(2000, 2.1, 20, 1e-9, plain).mu for plain in (0.1, 0.2, 0.4, 0.8)]
    assert all(one <= other for one, other in itertools.pairwise(mus))


def test_the_smallest_deltas_are_answered() -> None:
    pace = CountRelease(2**20, 0.5, 2.1, 20).pace(1e-306)
    assert 0 < pace.mu < 0.1


# What a release makes of it.


def release_mu(coins: int, distance: float, labels: int = 20, bias: float = 0.5) -> float:
    return CountRelease(coins, bias, distance, labels).mu(5e-10)


def plain_mu(coins: int, distance: float, labels: int = 20, bias: float = 0.5) -> float:
    return find_slope(coins, bias, math.ceil(distance), 5e-10).mu(distance, labels)


@pytest.mark.parametrize("distance", [0.4, 1.0, 2.1213, 4.0])
def test_coarse_grids_get_the_second_certificate(distance: float) -> None:
    plain, shown = plain_mu(20_000, distance), release_mu(20_000, distance)
    second = rounded_pace(20_000, distance, 20, 5e-10, plain).mu
    assert shown == max(second, 1.01 * least_step(20_000) * distance)
    assert shown < plain


def test_levels_that_are_too_deep_keep_the_first() -> None:
    far = CountRelease(2590, 0.5, 993.0, 10**6)
    assert far.follows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = far.plain(3.5e-23)
        assert rounded_pace(2590, 993.0, 10**6, 3.5e-23, plain) == steady(plain)
        assert far.pace(3.5e-23) == steady(far.mu(3.5e-23))


@pytest.mark.parametrize(("distance", "labels"), [(0.05, 5), (0.18, 20), (0.18, 5150)])
def test_deep_windows_are_followed_by_a_slope_that_rises_as_well(
    distance: float, labels: int
) -> None:
    curve = BinomialCurve(((CountRelease(2001, 0.5, distance, labels), 1),))
    epsilon = 6.5 * 2 * distance / math.sqrt(2001)
    delta = curve.delta(epsilon)
    tau = curve.tau(delta)
    usual, rising = (pace.delta(epsilon) for pace, _ in curve._paces(delta))
    assert rising == composed(curve.parts(tau), tau).delta(epsilon) < usual
    assert delta == pytest.approx(curve._with_tails(rising, tau), rel=1e-9, abs=0)


def test_other_releases_and_those_that_prove_nothing_are_followed_once() -> None:
    for release in (CountRelease(2001, 0.5, 1.0, 5150), CountRelease(20, 0.5, 0.5, 5)):
        assert len(list(BinomialCurve(((release, 1),))._paces(1e-9))) == 1
    twice = BinomialCurve(((CountRelease(2001, 0.5, 0.5, 5), 2),))
    assert len(list(twice._paces(1e-9))) == 1


def test_fine_grids_few_coins_and_other_biases_keep_the_first() -> None:
    assert release_mu(20_000, 19.1) == plain_mu(20_000, 19.1)
    assert release_mu(499, 2.1) == plain_mu(499, 2.1)
    assert release_mu(500, 2.1) < plain_mu(500, 2.1)
    assert release_mu(20_000, 2.1, bias=0.25) == plain_mu(20_000, 2.1, bias=0.25)


def test_mu_has_no_jump_where_the_two_certificates_meet() -> None:
    distances = np.linspace(0.05, 12, 400)
    mus = np.array([release_mu(20_000, float(distance)) / distance for distance in distances])
    # a takes a small step with every whole K; nothing else may jump.
    assert np.all(np.abs(np.diff(np.log(mus[20:]))) < 2e-3)


def test_more_coins_less_distance_fewer_labels_and_larger_tails_never_hurt() -> None:
    base = CountRelease(5000, 0.5, 2.0, 20)
    mu = base.mu(1e-9)
    assert replace(base, coins=5001).mu(1e-9) < mu
    assert replace(base, distance=1.99).mu(1e-9) < mu
    assert replace(base, labels=19).mu(1e-9 * 20 / 19) < mu
    assert base.mu(1e-8) < mu


def test_coins_always_help_at_every_distance() -> None:
    for distance in (0.3, 1.0, 2.1213, 6.0):
        mus = [release_mu(coins, distance) for coins in range(500, 60_000, 977)]
        assert all(later < earlier for earlier, later in itertools.pairwise(mus))


def test_delta_falls_with_epsilon_and_coins_and_grows_with_distance_and_labels() -> None:
    """Also where the second certificate's mu passes the first one's."""

    def delta(coins: int, distance: float, labels: int, epsilon: float) -> float:
        return BinomialCurve(((CountRelease(coins, 0.5, distance, labels), 1),)).delta(epsilon)

    epsilons = [delta(1000, 0.5, 5, epsilon) for epsilon in (0.115, 0.1153, 0.1154, 0.116, 0.117)]
    assert epsilons == sorted(epsilons, reverse=True)
    distances = [delta(1001, distance, 20, 0.14506) for distance in (0.495, 0.505, 0.515, 0.525)]
    assert distances == sorted(distances)
    labels = [delta(5000, 0.5, labels, 0.06844) for labels in (1, 2, 3, 5, 20)]
    assert labels == sorted(labels)
    coins = [delta(coins, 5.0, 2, 1.72574) for coins in (1000, 1001, 1002, 1003)]
    assert coins == sorted(coins, reverse=True)


@pytest.mark.parametrize("tau", [1e-9, 3e-7, 1e-12])
def test_half_of_every_tail_is_a_counts_own(tau: float) -> None:
    """With a million coins a window is a count shorter if a tail is 3 % larger."""
    coins, distance, labels, plain = 10**6, 0.3, 65, 0.1
    half, more = (find_rounding(coins, 1, share) for share in (tau / 2, tau / 1.94))
    assert half is not None
    assert more is not None
    assert more.edge < half.edge
    pace = rounded_pace(coins, distance, labels, tau, plain)
    assert pace == _followed(Move(half, distance, labels), tau, plain)
    assert pace != _followed(Move(more, distance, labels), tau, plain)


# Coins, distance, labels, and tails with which windows are a count apart from those of 3 % more.
FAR_MOVES = [
    (20_000, 1500.5, 65, 1e-9),
    (20_000, 3000.5, 1325, 1e-11),
    (2000, 150.5, 1325, 1e-11),
    (8000, 1200.7, 20, 1e-7),
]


@pytest.mark.parametrize(("coins", "distance", "labels", "tau"), FAR_MOVES)
def test_of_far_moves_a_twentieth_of_every_tail_is_that_of_a_label_at_rest(
    coins: int, distance: float, labels: int, tau: float
) -> None:
    """Half of all tails are the counts' own, and a tenth of these the labels have alike."""
    plain = find_slope(coins, 0.5, math.ceil(distance), tau).mu(distance, labels)
    tail = rounded(tau)
    spread = find_spread(coins, distance, labels, tail / 2)
    deepest = find_rounding(coins, math.ceil(distance), tail / 20)
    assert spread is not None
    assert deepest is not None
    known = min(plain, spread.mu(labels))
    assert spread_mu(coins, distance, labels, tau, math.inf) <= spread.mu(labels)
    flatter = deepest.flatter(spread.steepest)
    assert flatter is not None
    stated = _followed(Move(flatter, distance, labels), tail, known).mu
    assert spread_mu(coins, distance, labels, tau, plain) == stated


def test_levels_beyond_fifty_are_not_followed() -> None:
    rounding = find_rounding(2000, 3, 1e-9)
    assert rounding is not None
    move, further = (
        Move(one, 2.1, 20) for one in (rounding, replace(rounding, edge=math.nextafter(50, 51)))
    )
    assert _followed(move, 1e-9, 0.2) != steady(0.2)
    assert _followed(further, 1e-9, 0.2) == steady(0.2)
    assert _followed(move, 1e-9, 60.0) == steady(60.0)
