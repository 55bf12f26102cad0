"""The certificate of shuffled bits against exact privacy, computed without it (MATH 4, PROOF).

Small counts are enumerated, both ways, at many epsilons.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri

from croupier.privacy.shuffled_bits import count_release
from croupier.privacy.shuffled_bits.binomial_tails import binomial, quantiles
from croupier.privacy.shuffled_bits.count_release import CountRelease, sure_coins
from croupier.privacy.shuffled_bits.quantile_slope import (
    Slope,
    find_slope,
    find_window,
    general_slope,
)

from .counts import Floats, released

EPSILONS = np.concatenate((np.linspace(0.0, 2.0, 17), np.linspace(2.3, 8.0, 12)))
NEAR = (0.0, 1e-9, 1 - 1e-9, 0.5, 1e-3, 1 - 1e-3)


@dataclass(frozen=True)
class Case:
    """Counts of one law with tails of tau, and two inputs (in steps) that are neighbours."""

    coins: int
    bias: float
    tau: float
    first: Floats
    second: Floats
    epsilons: Floats = field(default_factory=lambda: EPSILONS)

    @property
    def distance(self) -> float:
        return float(np.linalg.norm(self.first - self.second))

    @property
    def slope(self) -> Slope:
        shift = math.ceil(self.distance)
        return find_slope(self.coins, self.bias, shift, self.tau)

    def exact(self) -> Floats:
        """The true delta at every epsilon, the worse of both directions."""
        low = np.floor(np.minimum(self.first, self.second))
        room = math.ceil(float(np.max(np.maximum(self.first, self.second) - low))) + 2
        left, right = (self._joint(value - low, room) for value in (self.first, self.second))
        growth = np.exp(self.epsilons)[:, None]
        forth = np.maximum(left - growth * right, 0.0).sum(axis=1)
        back = np.maximum(right - growth * left, 0.0).sum(axis=1)
        return np.asarray(np.maximum(forth, back))

    def _joint(self, values: Floats, room: int) -> Floats:
        laws = [released(self.coins, self.bias, float(value), room) for value in values]
        return reduce(lambda one, other: np.outer(one, other).ravel(), laws)

    def bound(self, slope: Slope, *, tails: bool = True) -> Floats:
        """tau' + (1 - tau') delta_GDP(mu) at every epsilon."""
        labels = self.first.size
        mu = slope.mu(self.distance, labels)
        lost = 1 - (1 - self.tau) ** labels if tails else 0.0
        return lost + (1 - lost) * gaussian_deltas(mu)

    def excess(self, slope: Slope, *, tails: bool = True) -> float:
        """The largest exact delta in units of its bound."""
        return float(np.max(self.exact() / self.bound(slope, tails=tails)))


def gaussian_deltas(mu: float) -> Floats:
    kept = ndtr(mu / 2 - EPSILONS / mu)
    lost = np.exp(EPSILONS + log_ndtr(-mu / 2 - EPSILONS / mu))
    # Far in the tail the difference is rounding only; 1e-16 is far below every tau used here.
    return np.asarray(np.maximum(kept - lost, 1e-16))


def fractions(rng: np.random.Generator, labels: int) -> Floats:
    """Positions between two integers, often within 1e-9 of one."""
    uniform = rng.random(labels)
    return np.where(rng.random(labels) < 0.4, rng.choice(NEAR, labels), uniform)


def directions(rng: np.random.Generator, labels: int) -> Floats:
    """Unit vectors, some along an axis and some along the diagonal."""
    kind = rng.integers(3)
    vector = (np.eye(labels)[0], np.ones(labels), rng.standard_normal(labels))[kind]
    return np.asarray(vector * rng.choice((-1.0, 1.0), labels) / np.linalg.norm(vector))


def distances(rng: np.random.Generator, longest: int) -> float:
    """Distances up to the longest, often within 1e-9 of an integer but never above it."""
    whole = float(rng.integers(1, longest + 1)) * (1 - 1e-13)
    return (whole, whole - 1e-9, whole * max(rng.random(), 1e-3))[rng.integers(3)]


SIZES = {1: (2, 60), 2: (2, 34), 3: (2, 13)}


def cases(seed: int, number: int, labels: int) -> Iterator[Case]:
    """Random cases in which the window stays inside the support."""
    rng = np.random.default_rng(seed)
    while number:
        coins = int(rng.integers(SIZES[labels][0], SIZES[labels][1] + 1))
        bias = float(rng.choice((0.5, 0.25, 0.03, 0.95, 0.4)))
        tau = float(10 ** rng.uniform(-6, math.log10(0.2)))
        window = find_window(coins, bias, tau)
        longest = min(window.low, coins - 1 - window.high)
        if longest < 1:
            continue
        number -= 1
        first = fractions(rng, labels)
        second = first + distances(rng, longest) * directions(rng, labels)
        yield Case(coins, bias, tau, first, second)


@pytest.mark.parametrize(
    ("labels", "number", "tight"), [(1, 1200, 0.97), (2, 500, 0.85), (3, 150, 0.7)]
)
def test_no_exact_delta_is_above_the_bound(labels: int, number: int, tight: float) -> None:
    worst = max(case.excess(case.slope) for case in cases(labels, number, labels))
    assert tight < worst <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 104))
@pytest.mark.parametrize(("labels", "number"), [(1, 8000), (2, 4000), (3, 1500)])
def test_no_exact_delta_is_above_the_bound_in_many_more_cases(
    seed: int, labels: int, number: int
) -> None:
    worst = max(case.excess(case.slope) for case in cases(10 * seed + labels, number, labels))
    assert worst <= 1 + 1e-9


def climbed(case: Case, rng: np.random.Generator, steps: int) -> float:
    """The largest excess found by moving the two inputs, their distance kept."""
    slope, best, width = case.slope, 0.0, 0.3
    for _ in range(steps):
        first = case.first + width * rng.standard_normal(case.first.size)
        first -= np.floor(first)
        turn = case.second - case.first + width * rng.standard_normal(first.size)
        # One part in 1e15 is taken off, so that rounding never makes the distance longer.
        turn *= case.distance * (1 - 1e-15) / np.linalg.norm(turn)
        moved = replace(case, first=first, second=first + turn)
        excess = moved.excess(slope) if moved.distance <= math.ceil(case.distance) else 0.0
        if excess > best:
            case, best = moved, excess
        else:
            width = max(width * 0.93, 1e-4)
    return best


@pytest.mark.parametrize(("labels", "number", "tight"), [(1, 120, 0.96), (2, 50, 0.9)])
def test_no_pair_found_by_climbing_is_above_the_bound(
    labels: int, number: int, tight: float
) -> None:
    rng = np.random.default_rng(10 + labels)
    worst = max(climbed(case, rng, 60) for case in cases(20 + labels, number, labels))
    assert tight < worst <= 1 + 1e-9


def test_two_reports_in_one_release_stay_below_their_bound() -> None:
    """Contributions of one user add up linearly, and every rounding may go the worst way."""
    rng = np.random.default_rng(7)
    for coins, tau, distance in itertools.product((60, 200), (1e-2, 1e-4), (0.4, 1.0, 3.7)):
        mu = CountRelease(coins, 0.5, distance, 1, reports=2).mu(tau)
        bound = tau + (1 - tau) * gaussian_deltas(mu)
        for start in fractions(rng, 12):
            laws = [_twice(coins, float(start) + moved) for moved in (0.0, distance)]
            exact = np.maximum(laws[0] - np.exp(EPSILONS)[:, None] * laws[1], 0.0).sum(axis=1)
            assert np.all(exact <= bound * (1 + 1e-9))


def _twice(coins: int, value: float) -> Floats:
    """The noise plus the same value rounded twice, independently."""
    share = value - math.floor(value)
    once = released(coins, 0.5, 2 * math.floor(value) + share, 12)
    return np.asarray((1 - share) * once + share * np.roll(once, 1))


WITHOUT = {
    "the deviation": lambda slope: replace(slope, deviation=0.0),
    "two percent of the slope": lambda slope: replace(slope, slope=0.98 * slope.slope),
}


def wide_cases(number: int) -> Iterator[Case]:
    """Many coins and thick tails, where the slope is that of the Gaussian to half a percent."""
    rng = np.random.default_rng(5)
    for _ in range(number):
        first = fractions(rng, 1)
        yield Case(400, 0.5, 1e-3, first, first + 10 + 20 * rng.random())


def power_cases() -> list[Case]:
    return [*cases(1, 800, 1), *wide_cases(40)]


def test_the_cases_for_power_keep_the_bound() -> None:
    assert max(case.excess(case.slope) for case in power_cases()) <= 1 + 1e-9


@pytest.mark.parametrize("part", WITHOUT)
def test_without_a_part_of_the_certificate_the_cases_break_it(part: str) -> None:
    broken = [case.excess(WITHOUT[part](case.slope)) > 1 + 1e-6 for case in power_cases()]
    assert sum(broken) >= 10


def test_without_the_tails_the_cases_break_it() -> None:
    broken = [case.excess(case.slope, tails=False) > 1 + 1e-6 for case in power_cases()]
    assert sum(broken) >= 100


def quarter_cases(seed: int, number: int) -> Iterator[Case]:
    """Coins of bias 1/4, enough of them that half may stand for all."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        coins, tau = int(rng.integers(200, 900)), float(10 ** rng.uniform(-6, -1.5))
        first = fractions(rng, 1)
        yield Case(coins, 0.25, tau, first, first + 4 * rng.random())


def test_half_of_the_coins_of_bias_a_quarter_stand_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is certified beyond the reach of the general form, at counts that can be summed."""
    monkeypatch.setattr(count_release, "MOST_UNFAIR", 0)
    ratios = []
    for case in quarter_cases(3, 300):
        release = CountRelease(case.coins, 0.25, case.distance, 1)
        assert (release.halved, release.tails) == (True, 2)
        lost = 1 - (1 - case.tau) ** release.tails
        bound = lost + (1 - lost) * gaussian_deltas(release.mu(case.tau))
        ratios.append(float(np.max(case.exact() / bound)))
    # Half as many fair coins have two thirds of the variance.
    assert 0.5 < max(ratios) <= 1 + 1e-9


def test_the_coins_that_are_sure_to_be_left_are_but_for_their_tail() -> None:
    for coins, tau in itertools.product((50, 1000, 10**6), (0.2, 1e-3, 1e-9)):
        sure = sure_coins(coins, tau)
        assert stats.binom.cdf(sure - 1, coins, 0.5) <= tau
        # Hoeffding's own bound, which the proof rests on.
        assert math.exp(-2 * (coins / 2 - sure) ** 2 / coins) <= tau
        assert sure > coins / 2 - 1.2 * math.sqrt(coins * math.log(1 / tau)) - 2
    assert sure_coins(10, 1e-9) == 0
    assert sure_coins(10**16, 1e-9) == 10**12
    assert 0 < CountRelease(10**16, 0.25, 300.0, 20).mu(1e-9) < 1e-3
    assert CountRelease(10, 0.5, 1.0, 1).tails == 1


# Lemma M: the increments of z grow away from the centre (PROOF 7).


def exact_quantiles(coins: int) -> Floats:
    """z(u) of fair coins for u from the centre to coins-1, from integers."""
    totals = itertools.accumulate(math.comb(coins, count) for count in range(coins // 2))
    tails = [total / 2**coins for total in totals]
    # tails[j] = P[W <= j] = P[W > coins-1-j]
    return -ndtri(np.array(tails[::-1]))


@pytest.mark.parametrize("start", [24, 60, 100, 140])
def test_increments_grow_away_from_the_centre_in_exact_arithmetic(start: int) -> None:
    for coins in range(start, start + 61):
        above = exact_quantiles(coins)
        whole = np.concatenate((-above[::-1], [] if coins % 2 == 0 else [0.0], above))
        growth = np.diff(whole, 2)[(coins - 1) // 2 :]
        assert np.all(growth >= -1e-14 * above[-1])
        # Rounding is far below the growth itself, so the sign above is not an accident.
        assert np.median(growth) > 1e-9


@pytest.mark.parametrize("coins", [501, 2000, 7003, 20000])
def test_increments_grow_away_from_the_centre_in_doubles(coins: int) -> None:
    last = math.ceil(coins / 2 + 6 * math.sqrt(coins))
    values = quantiles(binomial(coins, 0.5), coins // 2, last)
    assert np.all(np.diff(values, 2) >= -1e-14)
    assert np.median(np.diff(values, 2)) > 1e-10


def test_the_worst_window_is_the_outermost() -> None:
    """Chords anywhere else are not steeper than the one that the fast form takes (PROOF 7)."""
    for coins, shift, tau in itertools.product((200, 1001, 4000), (1, 7, 30), (1e-2, 1e-6)):
        window = find_window(coins, 0.5, tau)
        ends = quantiles(binomial(coins, 0.5), window.high, window.high + shift)
        outermost = (ends[-1] - ends[0]) / shift
        assert general_slope(coins, 0.5, shift, tau).slope == pytest.approx(outermost, rel=3e-9)
