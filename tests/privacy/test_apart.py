"""Releases that differ, composed curve by curve (PROOF 9e)."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from croupier.errors import GuaranteeError
from croupier.privacy import apart as module
from croupier.privacy import binomial, gdp
from croupier.privacy.apart import LARGEST_MU, MOST_KINDS, Smallest, apart, fitting
from croupier.privacy.pace import Clocked, Pace, steady
from croupier.privacy.several import Part, composed, gaussian
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve, SquaresCurve
from croupier.privacy.shuffled_bits.placements import PlacedCurve, placed

TAU = 5e-13
WIDE = CountRelease(2000, 0.5, 0.3, 65)
LONG = CountRelease(9000, 0.5, 0.66, 65)
NARROW = CountRelease(4000, 0.5, 0.25, 65)
FINE = CountRelease(10**6, 0.5, 40.0, 65)


def parts(*releases: CountRelease, times: int = 1) -> list[tuple[Part, int]]:
    return [(release.part(TAU), times) for release in releases]


def known(losses: Smallest | None) -> Smallest:
    assert losses is not None
    return losses


def shown(mu: float) -> Part:
    return replace(gaussian(mu, mu), shows=True)


# Composition.


@pytest.mark.parametrize("mus", [(0.01, 0.011), (0.3, 0.4, 0.5), (1.0, 0.05)])
def test_gaussian_parts_compose_as_gaussians(mus: tuple[float, ...]) -> None:
    made = known(apart([(shown(mu), 1) for mu in mus], TAU))
    whole = math.hypot(*mus)
    for level in (0.1, 1.0, 3.0, 5.0):
        delta = made.delta(whole * level)
        assert whole <= gdp.mu_of(whole * level, delta) <= whole * (1 + 2e-4)


def test_many_of_one_kind_take_the_better_of_two_bounds() -> None:
    many = parts(WIDE, times=20)
    beside = (shown(0.001), 1)
    journey = composed(many, TAU)
    both, alone = known(apart([*many, beside], TAU)), journey.delta
    for epsilon in (0.05, 0.15, 0.3):
        ratio = gdp.mu_of(epsilon, both.delta(epsilon)) / gdp.mu_of(epsilon, alone(epsilon))
        assert 1 < ratio < 1 + 1e-3
    # Where it is not known what they are together, each by itself.
    deep = replace(many[0][0], plain=100.0)
    assert composed([(deep, 20)], TAU) == steady(composed([(deep, 20)], TAU).mu)
    each = known(apart([(deep, 20), beside], TAU))
    assert both.delta(0.15) < each.delta(0.15) < composed([(deep, 20)], TAU).delta(0.15)


def test_curves_are_no_worse_than_their_mu() -> None:
    every = parts(WIDE, LONG, NARROW)
    made = known(apart(every, TAU))
    whole = math.hypot(*(part.mu for part, _ in every))
    for epsilon in (0.0, 0.02, 0.1, 0.2):
        assert made.delta(epsilon) < gdp.delta_of(whole, epsilon) * (1 + 1e-4)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_whichever_releases_it_is_is_no_worse(number: int) -> None:
    every = parts(WIDE, LONG, NARROW, FINE)
    any_of_them = known(apart(every, TAU, number))
    for chosen in itertools.combinations(every, number):
        # The releases that are not taken are there with next to nothing.
        made = known(apart([*chosen, (shown(1e-9), 1)], TAU))
        for epsilon in (0.0, 0.03, 0.1, 0.2):
            assert made.delta(epsilon) <= any_of_them.delta(epsilon) * (1 + 1e-3)


def test_a_place_is_as_bad_as_the_worst_that_may_take_it() -> None:
    """The wider one is worse deep down, the longer one near the median: both count once."""
    every = parts(WIDE, LONG)
    one = known(apart(every, TAU, 1))
    for epsilon in (0.0, 0.02, 0.05, 0.08):
        worst = max(part.paces[0].delta(epsilon) for part, _ in every)
        assert worst <= one.delta(epsilon) <= worst * (1 + 1e-3)


def test_a_release_of_which_one_is_there_counts_once() -> None:
    wide = CountRelease(2000, 0.5, 0.227, 65)
    curve = PlacedCurve(((wide, 1), (NARROW, 1), (LONG, 1)), 3)
    longest = BinomialCurve(((LONG, 3),))
    for epsilon in (0.08, 0.12):
        ratio = gdp.mu_of(epsilon, curve.delta(epsilon)) / gdp.mu_of(
            epsilon, longest.delta(epsilon)
        )
        assert 0.999 < ratio < 1.005
        followed = gdp.mu_of(epsilon, curve.pace(1e-7).delta(epsilon))
        assert followed > 1.015 * gdp.mu_of(epsilon, longest.delta(epsilon))


def test_of_two_releases_about_as_long_the_wider_counts_once() -> None:
    """Either may be put first: it is enough that one order tells how often the wider one comes."""
    longer, wider = CountRelease(9000, 0.5, 0.0843, 65), CountRelease(2500, 0.5, 0.0443, 65)
    curve = PlacedCurve(((longer, 1), (wider, 1), (replace(NARROW, distance=0.02), 1)), 2)
    taken, twice = BinomialCurve(((longer, 1), (wider, 1))), BinomialCurve(((wider, 2),))
    for epsilon in (0.008, 0.012):
        needed, both, most = (
            gdp.mu_of(epsilon, found.delta(epsilon)) for found in (curve, taken, twice)
        )
        assert 0.999 < needed / both < 1.002
        assert most > 1.005 * both


def test_every_order_of_releases_bounds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    every = parts(WIDE, LONG, NARROW, FINE)
    both = known(apart(every, TAU, 2))
    assert len(both.losses) == 2
    for epsilon in (0.0, 0.05, 0.15):
        assert both.delta(epsilon) == min(losses.delta(epsilon) for losses in both.losses)
    assert len(known(apart(every, TAU)).losses) == 1
    monkeypatch.setattr(module, "ORDERS", (lambda part: -part.mu,))
    backwards = known(apart(every, TAU, 2))
    assert all(backwards.delta(epsilon) > both.delta(epsilon) for epsilon in (0.0, 0.05, 0.15))


# When it is asked.


def test_nothing_is_said_where_it_would_be_no_better_or_is_not_known() -> None:
    assert apart(parts(WIDE), TAU) is None
    assert apart(parts(WIDE, times=7), TAU) is None
    assert apart(parts(FINE, replace(FINE, coins=2 * 10**6)), TAU) is None
    assert apart([(shown(math.inf), 1), *parts(WIDE)], TAU) is None
    assert apart(parts(WIDE, WIDE), TAU) is None
    far, farther = LARGEST_MU / 1.42, LARGEST_MU / math.sqrt(2)
    assert apart([(shown(far), 1), (shown(0.1), 1)], TAU) is not None
    assert apart([(shown(farther), 1), (shown(0.1), 1)], TAU) is None
    kinds = [(shown(0.1 + number / 1000), 1) for number in range(MOST_KINDS + 1)]
    assert apart(kinds[1:], TAU) is not None
    assert apart(kinds, TAU) is None


def test_releases_that_are_alike_are_one_kind() -> None:
    listed = known(apart([*parts(WIDE, WIDE, LONG, WIDE)], TAU))
    counted = known(apart([*parts(WIDE, times=3), *parts(LONG)], TAU))
    assert listed.delta(0.05) == counted.delta(0.05)


def test_a_curve_without_a_pair_leaves_nothing() -> None:
    class Broken(Pace):
        def delta(self, epsilon: float) -> float:
            return 0.9 if epsilon == 0 else 0.0

    broken = Part((Broken(1.0),), 1.0, 1.0, gaussian(1.0, 1.0).leg, shows=True)
    for times in (1, 2):
        assert apart([(broken, times), *parts(WIDE)], TAU) is None
        assert apart([*parts(WIDE), (broken, times)], TAU) is None


@pytest.mark.parametrize("mu", [1e-6, 0.1, 0.124, 0.125, 1.0, 7.9])
def test_grids_fit_their_mu(mu: float) -> None:
    grid = fitting(mu)
    assert grid.unit <= mu < 2 * grid.unit
    assert math.frexp(grid.step)[0] == 0.5
    table = grid.tabled(lambda epsilon: gdp.delta_of(mu, epsilon))
    assert table[0] == gdp.delta_of(mu, 0)
    assert table[1] == gdp.delta_of(mu, grid.step)
    assert table[-1] < 1e-37
    assert table.size < 2000


# What curves make of it.

DIFFERING = BinomialCurve(
    ((CountRelease(2500, 0.5, 0.045, 230), 2), (CountRelease(2000, 0.5, 0.052, 230), 1))
)


def test_a_curve_takes_what_is_smaller() -> None:
    for epsilon in (0.002, 0.01):
        delta = DIFFERING.delta(epsilon)
        followed = DIFFERING._with_tails(DIFFERING.pace(delta).delta(epsilon), DIFFERING.tau(delta))
        assert delta < followed
        assert DIFFERING.bound(epsilon, delta) <= delta
        assert DIFFERING.bound(epsilon, delta / 1.0001) > delta / 1.0001
        assert DIFFERING.delta(DIFFERING.epsilon(delta)) <= delta
        assert DIFFERING.epsilon(delta) == pytest.approx(epsilon, rel=1e-6)
    assert isinstance(DIFFERING.pace(1e-6), Clocked)


def test_tails_are_those_of_a_power_of_two_no_larger_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def spy(_: BinomialCurve, tau: float) -> None:
        asked.append(tau)

    monkeypatch.setattr(binomial, "_losses", spy)
    for delta in (1e-3, 1e-6, 3e-9):
        assert DIFFERING._apart(0.01, delta) == 1.0
        tau = DIFFERING.tau(delta)
        assert tau / 2 < asked[-1] <= tau
        assert math.frexp(asked[-1])[0] == 0.5
    assert DIFFERING._apart(0.01, 1e-40) == 1.0
    assert len(asked) == 3


def test_squares_and_single_kinds_are_not_tabled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(binomial, "apart", refuse)
    assert 0 < BinomialCurve(((WIDE, 4),)).delta(0.05) < 1
    squares = SquaresCurve(((WIDE, 1), (LONG, 1)))
    monkeypatch.undo()
    delta = squares.delta(0.1)
    assert delta == pytest.approx(gdp.delta_of(squares.mu_at(delta), 0.1), rel=2e-3)


def test_where_the_general_form_refuses_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise GuaranteeError("too much work")

    binomial._losses.cache_clear()
    monkeypatch.setattr(binomial, "apart", refuse)
    assert DIFFERING._apart(0.01, 1e-6) == 1.0
    binomial._losses.cache_clear()


@pytest.mark.parametrize("visits", [2, 3])
def test_more_visits_and_worse_batches_are_never_better(visits: int) -> None:
    batches = (NARROW, WIDE, LONG)
    curve = placed(batches, visits)
    more, fewer = placed(batches, visits + 1), placed((WIDE, LONG), visits)
    wider = placed((NARROW, replace(WIDE, distance=0.33), LONG), visits)
    for epsilon in (0.03, 0.1):
        delta = curve.delta(epsilon)
        assert fewer.delta(epsilon) <= delta * (1 + 1e-3)
        assert delta <= wider.delta(epsilon) * (1 + 1e-3)
        assert delta < more.delta(epsilon)
