"""Several releases of one user: how they compose, level by level or by squares (PROOF 9)."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from croupier.privacy import gdp
from croupier.privacy.budget import Budget
from croupier.privacy.groups import Kind, apart
from croupier.privacy.journeys import Journey, Leg, largest, leg_of, longest, ranked
from croupier.privacy.levels import DEEPEST, Levels
from croupier.privacy.moves import Move
from croupier.privacy.pace import Clocked, steady
from croupier.privacy.rounding import find_rising, least_step
from croupier.privacy.several import Part, composed, gaussian, worst
from croupier.privacy.shares import equal_shares
from croupier.privacy.shuffled_bits.calibration import Batch, fewest_bits
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve, SquaresCurve
from croupier.privacy.shuffled_bits.placements import PlacedCurve
from croupier.privacy.skewness import skewed
from croupier.privacy.told import Told

COARSE = CountRelease(2600, 0.5, 1.48, 20)
FINE = CountRelease(20_420, 0.5, 19.1, 20)
TAU = 1e-9


def leg(release: CountRelease = COARSE) -> Leg:
    return release.part(TAU).leg


def test_the_largest_of_values_that_are_there_several_times() -> None:
    values = [(3.0, 2), (5.0, 1), (4.0, 10)]
    assert largest(values, 3) == 13.0
    assert largest(values, 100) == 5 + 40 + 6
    assert ranked(values, 3) == [(5.0, 1), (4.0, 2)]
    assert ranked(values, 12) == [(5.0, 1), (4.0, 10), (3.0, 1)]


def test_a_leg_is_what_a_release_moves() -> None:
    rounding = find_rising(2600, 2, TAU / 2)
    assert rounding is not None
    move = Move(rounding, 1.48, 20)
    found = leg()
    assert found == leg_of(move)
    assert (found.length, found.widening, found.widenings) == (
        move.length,
        move.widening,
        move.widenings,
    )
    left_over, rising = move.part * rounding.growing, 1.48 * rounding.rising
    assert rising > 0
    assert found.skew == pytest.approx(left_over + rising, rel=1e-12, abs=0)
    root = left_over * math.sqrt(move.parts) + rising
    assert found.skews == pytest.approx(root, rel=1e-12, abs=0)
    assert (found.labels, found.edge, found.farthest) == (20, rounding.edge, rounding.farthest)


def test_releases_of_which_only_a_mu_is_known_are_legs_without_rounding() -> None:
    for release in (
        replace(COARSE, coins=400),
        replace(COARSE, bias=0.25, coins=900),
        replace(COARSE, reports=3),
    ):
        part = release.part(TAU)
        assert part == gaussian(release.mu(TAU), release.mu(TAU / 2))
        assert part.leg == Leg(release.mu(TAU / 2))
        assert not part.shows


def test_a_journey_takes_the_worst_of_what_may_come_together() -> None:
    long, wide = Leg(3.0, 0.1, 0.02, 0.3, 0.18, 5, 7.0), Leg(2.0, 0.2, 0.05, 0.2, 0.12, 4, 6.0)
    journey = Journey(((long, 1), (wide, 3)), 2)
    assert journey.length == pytest.approx(math.sqrt(9 + 4))
    assert journey.labels == 9
    assert longest([long, wide]) == Leg(3.0, 0.2, 0.05, 0.3, 0.18, 5, 7.0)
    ends = [replace(long, farthest=9.0), replace(wide, farthest=8.0)]
    assert longest(ends).farthest == 8.0
    # A wide one may take the place of the long one.
    assert [kind.widening for kind in journey.kinds] == [0.2, 0.2]
    assert [kind.whole for kind in journey.kinds] == [pytest.approx(9 / 13), pytest.approx(4 / 13)]
    assert journey.widenings == pytest.approx(2 * 0.05)


def test_where_all_come_together_each_has_its_own_place() -> None:
    long, wide = Leg(3.0, 0.1, 0.02, 0.3, 0.18, 5, 7.0), Leg(2.0, 0.2, 0.05, 0.2, 0.12, 4, 6.0)
    journey = Journey(((long, 1), (wide, 3)), 4)
    assert [(kind.number, kind.widening) for kind in journey.kinds] == [(1, 0.1), (3, 0.2)]
    assert sum(kind.whole for kind in journey.kinds) == pytest.approx(1)
    assert journey.widenings == pytest.approx(0.02 + 3 * 0.05)


def test_the_places_are_those_of_the_longest_legs() -> None:
    """With two of three releases, moves are filled up to the second longest."""
    legs = tuple((replace(leg(), length=length), 1) for length in (1.0, 2.0, 3.0))
    assert [place.length for place, _ in Journey(legs, 2).places] == [3.0, 2.0]
    assert [place.length for place, _ in Journey(legs, 3).places] == [3.0, 2.0, 1.0]


def test_every_release_finds_a_place_that_is_no_shorter() -> None:
    """Whichever come, in whichever order: the shortest free place that is long enough."""
    lengths = [5.0, 4.0, 4.0, 3.0, 2.0, 1.0]
    for chosen in itertools.permutations(range(6), 3):
        places = sorted(lengths, reverse=True)[:3]
        for release in chosen:
            places.remove(min(place for place in places if place >= lengths[release]))


def test_the_speeds_of_a_journey_are_means_variances_and_skewness() -> None:
    """Again with plain numbers: ten rates, and the worse end of every piece."""
    one, levels = leg(), Levels(5.0, 24)
    journey = Journey(((one, 4),), 4)
    b, e = 2 * one.length, one.widening
    groups = apart([Kind(0.25, 4, e)])
    cuts = levels.cuts
    for place, (low, high) in enumerate(itertools.pairwise(cuts.tolist())):
        found = []
        for number in range(10):
            rate = min(max(6 * 1.5**number, high), 0.35 * b / e)
            near = np.array([(low + high) / 2])
            told = Told(b, 4 * one.widenings, groups, np.array([[rate]]), near)
            both = told.lines(), told.untold((equal_shares(4),))
            ends = [[lines.speeds(np.array([z]))[0, 0] for z in (low, high)] for lines in both]
            found += [max(speeds) for speeds in ends]
        widened = journey._widened(levels)[place]
        assert widened == pytest.approx(min(found), rel=1e-12)
        assert widened > b + e * high
    four = Move(find_rising(2600, 2, TAU / 2), 1.48, 20)  # type: ignore[arg-type]
    once = Journey(((one, 1),), 1)._skew(levels)
    assert once == pytest.approx(four._skew(levels), rel=1e-9, abs=0)
    assert np.all(journey._skew(levels) > once)
    assert np.all(journey._skew(levels) <= 2.0001 * once)


def test_the_farthest_edge_counts_for_all_legs() -> None:
    one, levels = leg(), Levels(5.0, 24)
    near, far = replace(one, edge=3.0), replace(one, edge=9.0)
    both = Journey(((near, 1), (far, 1)), 2)
    assert both.edge == 9.0
    assert np.array_equal(both._skew(levels), Journey(((far, 2),), 2)._skew(levels))
    beside = Journey(((far, 1), (Leg(1.0), 1)), 2)
    assert beside.edge == 9.0


def test_the_largest_skew_counts_for_all_legs() -> None:
    one, levels = leg(), Levels(5.0, 24)
    less = replace(one, skew=one.skew / 3, skews=one.skews / 2)
    squares = (one.skews / one.skew) ** 2 * (1 + 3 / 4)
    expected = one.skew * skewed(levels, 4 * one.labels, squares, one.edge)
    assert Journey(((less, 3), (one, 1)), 4)._skew(levels) == pytest.approx(expected, rel=1e-12)


def test_legs_that_cannot_put_off_their_edge_are_not_followed() -> None:
    part = COARSE.part(TAU)
    assert part.leg.edge < 9
    assert part.leg.farthest > 11
    short = replace(part, leg=replace(part.leg, farthest=10.0))
    for edge, followed in ((9.99, True), (10.0, False), (10.01, False)):
        far = replace(part, leg=replace(part.leg, edge=edge))
        assert math.isfinite(Journey(((short.leg, 1), (far.leg, 1)), 2).edge) == followed
        assert bool(composed([(short, 1), (far, 1)], TAU).levels) == followed


def test_speeds_are_rounded_up() -> None:
    pace = composed([(COARSE.part(TAU), 4)], TAU)
    levels = Levels(pace.levels[-1], len(pace.levels))
    speeds = Journey(((leg(), 4),), 4).speeds(levels)
    free = speeds > COARSE.part(TAU).least * 2.001
    assert np.count_nonzero(free) > 20
    assert np.all(np.array(pace.mus)[free] > speeds[free])


@pytest.mark.parametrize("times", [2, 5, 40])
def test_differing_releases_are_never_better_than_alike_ones(times: int) -> None:
    one, levels = leg(), Levels(6.0, 48)
    nearly = replace(one, length=one.length * (1 - 1e-12))
    alike = Journey(((one, times),), times).speeds(levels)
    differ = Journey(((one, times - 1), (nearly, 1)), times).speeds(levels)
    assert np.all(differ >= alike * (1 - 1e-9))
    assert np.all(differ <= 1.05 * alike)


# What a user in several releases is promised.


def test_gaussian_parts_compose_by_their_squares() -> None:
    parts = [(gaussian(0.3, 0.3), 2), (gaussian(0.5, 0.5), 1)]
    mu = math.sqrt(2 * 0.09 + 0.25)
    assert composed(parts, TAU).mu == pytest.approx(mu, rel=1e-13)
    assert composed(parts, TAU) == steady(composed(parts, TAU).mu)
    assert composed(parts, TAU, 2).mu == pytest.approx(math.sqrt(0.25 + 0.09), rel=1e-13)
    assert composed([(gaussian(math.inf, math.inf), 1), *parts], TAU) == steady(math.inf)


def test_fine_grids_keep_the_squares_of_mu() -> None:
    pace = BinomialCurve(((FINE, 7),)).pace(1e-6)
    tau = 1e-9 / (20 * 7)
    assert pace == steady(pace.mu)
    assert pace.mu == pytest.approx(math.sqrt(7) * FINE.mu(tau), rel=1e-13)
    assert pace.mu >= math.sqrt(7) * FINE.mu(tau)


@pytest.mark.parametrize("times", [2, 4, 20, 300])
def test_coarse_grids_are_followed_through_all_releases(times: int) -> None:
    curve, squares = BinomialCurve(((COARSE, times),)), SquaresCurve(((COARSE, times),))
    pace = curve.pace(1e-6)
    assert isinstance(pace, Clocked)
    assert pace.mu <= squares.mu_at(1e-6)
    assert squares.pace(1e-6) == steady(squares.mu_at(1e-6))
    for epsilon in (0.2, 0.5, 1.0):
        assert curve.delta(epsilon * math.sqrt(times) / 4) < squares.delta(
            epsilon * math.sqrt(times) / 4
        )


def test_a_journey_is_never_taken_to_be_better_than_without_rounding() -> None:
    slope = 1.01 * least_step(2600) * COARSE.distance
    part = COARSE.part(TAU)
    assert part.least == pytest.approx(slope, rel=1e-12)
    assert part.least < part.plain
    pace = composed([(part, 50)], TAU)
    assert min(pace.mus) >= math.sqrt(50) * slope
    fine = FINE.part(TAU)
    assert fine.least == fine.plain == fine.mu


def test_a_fine_release_among_coarse_ones_is_followed_too() -> None:
    parts = [(COARSE.part(TAU), 3), (FINE.part(TAU), 1)]
    pace = composed(parts, TAU)
    assert isinstance(pace, Clocked)
    whole = math.sqrt(3 * COARSE.mu(TAU) ** 2 + FINE.mu(TAU) ** 2)
    assert pace.mu <= whole * (1 + 1e-12)
    assert pace.delta(0.9) < gdp.delta_of(whole, 0.9)


def test_the_worst_of_several_parts_is_no_better_than_any() -> None:
    one, other = COARSE.part(TAU), replace(COARSE, coins=1300, distance=1.0).part(TAU)
    both = worst([one, other])
    assert both.mu == max(one.mu, other.mu)
    assert both.leg == longest([one.leg, other.leg])
    assert both.shows
    for part in (one, other):
        assert composed([(both, 3)], TAU).delta(0.4) >= composed([(part, 3)], TAU).delta(0.4)


def test_journeys_too_deep_or_with_too_large_tails_keep_the_squares() -> None:
    part = COARSE.part(TAU)
    assert isinstance(composed([(part, 2)], 1e-3), Clocked)
    assert composed([(part, 10**6)], 1e-3) == steady(composed([(part, 10**6)], 1e-3).mu)
    far = replace(part, plain=DEEPEST, paces=(steady(DEEPEST),))
    assert composed([(far, 2)], TAU) == steady(composed([(far, 2)], TAU).mu)
    endless = Part((steady(0.1),), 0.1, 0.1, Leg(math.inf), shows=True)
    assert composed([(endless, 2), (part, 1)], TAU).levels == ()


def test_delta_grows_with_releases_and_falls_with_epsilon_and_coins() -> None:
    def delta(times: int, epsilon: float, coins: int = 2600) -> float:
        release = replace(COARSE, coins=coins)
        return BinomialCurve(((release, times),)).delta(epsilon)

    times = [delta(number, 0.6) for number in (2, 3, 4, 8, 9, 20)]
    assert times == sorted(times)
    epsilons = [delta(6, epsilon) for epsilon in np.linspace(0.3, 1.2, 13).tolist()]
    assert epsilons == sorted(epsilons, reverse=True)
    coins = [delta(6, 0.6, number) for number in (1000, 1001, 1100, 1500, 2600, 9000)]
    assert coins == sorted(coins, reverse=True)


@pytest.mark.parametrize("delta", [1e-4, 1e-9, 1e-40, 1e-200])
def test_epsilon_and_delta_end_on_the_safe_side(delta: float) -> None:
    for times in (2, 30):
        curve = BinomialCurve(((COARSE, times),))
        epsilon = curve.epsilon(delta)
        assert curve.delta(epsilon) <= delta
        assert curve.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)


def test_several_visits_to_one_batch_are_those_of_a_placement() -> None:
    placed = PlacedCurve(((COARSE, 1),), 5)
    assert placed.pace(1e-6) == BinomialCurve(((COARSE, 5),)).pace(1e-6)


# Calibration.

BUDGET = Budget(1.0, 1e-5)


def bits(users: int, times: int, *, alike: bool = True) -> tuple[float, int]:
    return fewest_bits(
        BUDGET,
        users=users,
        honest_fraction=1.0,
        sensitivity=math.sqrt(4.5),
        ranges=[2.0] * 20,
        participations=times,
        overhead=0.05,
        alike=alike,
    )


@pytest.mark.parametrize(("users", "times"), [(100, 20), (60, 4), (1000, 20)])
def test_returning_users_of_batches_that_are_alike_need_fewer_bits(users: int, times: int) -> None:
    grid, found = bits(users, times)
    _, squares = bits(users, times, alike=False)
    assert found <= squares
    batch = Batch(users, 1.0, math.sqrt(4.5), 20, times)
    assert batch.confirms(BUDGET, grid, found)
    assert isinstance(replace(batch, alike=False).curve(grid, found), SquaresCurve)
    if users == 100:
        assert found <= 0.7 * squares
