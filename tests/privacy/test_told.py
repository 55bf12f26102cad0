"""Tests of several releases that are told where they end: moments, turns and speeds (PROOF 9)."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import exp1
from scipy.stats import norm

from croupier.privacy.groups import Group, Groups, Kind, apart, pulls, together
from croupier.privacy.shares import any_shares
from croupier.privacy.told import BACK, Told

Floats = NDArray[np.float64]

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
CHANCES = WEIGHTS / math.sqrt(2 * math.pi)


def told(rate: float, level: float, *, groups: Groups | None = None, rest: float = 0.0) -> Told:
    """Releases that move by 1 together, looked at with one rate near one level.

    ``rest`` is what widenings are more than the groups' own.
    """
    groups = groups or alike(5)
    widenings = groups.mean**2 + 2 * groups.across + rest
    return Told(1.0, widenings, groups, np.array([[rate]]), np.array([level]))


def alike(number: int, widening: float = 0.02) -> Groups:
    return apart([Kind(1 / number, number, widening)])


UNEQUAL = [Kind(0.15, 2, 0.02), Kind(0.1, 4, 0.012), Kind(0.3, 1, 0.0)]
MIXED = {"alike": alike(5), "apart": apart(UNEQUAL), "together": together(UNEQUAL)}


# What a release adds to a moment, given where all will end.


def told_moment(matrix: Floats, ahead: Floats, kappa: float, share: float, left: float) -> float:
    """ln E exp(kappa (g'Eg - tr E) + kappa e n'^2) for u = sqrt(p) n + sqrt(1-p) y, by algebra.

    ``ahead`` is the unit vector along which the release moves, ``left`` n, ``share`` p; e is 1.
    """
    size = len(matrix)
    across = np.linalg.qr(np.column_stack((ahead, np.eye(size))))[0][:, 1:size]
    # g and n' are linear in (y, h): g = g0 + G (y, h), n' = n0 - sqrt(p) y.
    moved = np.column_stack((math.sqrt(1 - share) * ahead, across))
    mean = math.sqrt(share) * left * ahead
    turn = np.zeros(size)
    turn[0] = -math.sqrt(share)
    stays = math.sqrt(1 - share) * left
    square = moved.T @ matrix @ moved + np.outer(turn, turn)
    linear = moved.T @ matrix @ mean + stays * turn
    constant = mean @ matrix @ mean + stays**2 - np.trace(matrix)
    inverse = np.linalg.inv(np.eye(size) - 2 * kappa * square)
    gained = 2 * kappa**2 * linear @ inverse @ linear
    return float(kappa * constant + gained + np.linalg.slogdet(inverse)[1] / 2)


def test_a_release_adds_no_more_than_its_squares_and_a_turn() -> None:
    """9b, with any directions, variances and shares; nearly reached by the worst of them."""
    rng, nearest = np.random.default_rng(3), -math.inf
    for _ in range(4000):
        size, kappa = int(rng.integers(1, 5)), float(rng.uniform(0.01, 0.48))
        share, left = float(rng.random()), float(2 * rng.standard_normal())
        widths = rng.uniform(-1, 1, size) if rng.random() < 0.6 else rng.choice((-1.0, 1.0), size)
        ahead: Floats = rng.standard_normal(size) if rng.random() < 0.7 else np.eye(size)[0]
        found = told_moment(np.diag(widths), ahead / np.linalg.norm(ahead), kappa, share, left)
        squares = kappa**2 * float(widths @ widths) * (1 + 4 * kappa / (3 * (1 - 2 * kappa)))
        turn = share * math.atanh(2 * kappa) * max(0.0, 1 - (1 - 2 * kappa) * left**2)
        excess = found - kappa * left**2 - squares - turn
        assert excess <= 1e-12
        nearest = max(nearest, excess)
    assert nearest > -1e-3


@lru_cache(maxsize=64)
def best_moment(number: int, tilt: float, end: float) -> float:
    """The largest E exp(kappa (Z - N)) of one label and ``number`` moves, signs turned freely."""
    flat, turn = 1 - 2 * tilt, math.atanh(2 * tilt)

    def paid(share: float, left: float) -> float:
        return share * turn * max(0.0, 1 - flat * left**2)

    def best(after: int, left: float) -> float:
        share = 1 / after
        if after == 1:
            moved = max(sign * tilt * (left**2 - 1) for sign in (-1, 0, 1))
            return math.exp(moved - paid(1.0, left))
        points = math.sqrt(share) * left + math.sqrt(1 - share) * NODES
        lefts = math.sqrt(1 - share) * left - math.sqrt(share) * NODES
        later = np.interp(lefts, GRID, values[after - 1])
        gained = (CHANCES @ (np.exp(sign * tilt * (points**2 - 1)) * later) for sign in (-1, 0, 1))
        return float(max(gained) * math.exp(-paid(share, left)))

    values: dict[int, Floats] = {}
    for after in range(1, number):
        values[after] = np.array([best(after, float(left)) for left in GRID])
    return best(number, end)


GRID = np.linspace(-12, 12, 2401)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("tilt", [0.03, 0.1])
def test_moments_of_the_best_adaptive_signs_are_covered(number: int, tilt: float) -> None:
    for end in (0.0, 0.8, 2.0, 3.5):
        squares = (number - 1) * tilt**2 * (1 + 4 * tilt / (3 * (1 - 2 * tilt)))
        bound = tilt * (end**2 - 1) + squares
        found = math.log(best_moment(number, tilt, end))
        assert found <= bound + 1e-6
        if end >= 2:
            assert found >= bound - 0.2 * tilt


# Speeds, against tests that really choose the signs.

SCORES = np.linspace(-8, 8, 641)
POINTS = np.linspace(-9, 9, 2001)
MASSES = norm.pdf(POINTS) * (POINTS[1] - POINTS[0])


@lru_cache(maxsize=16)
def best_excesses(number: int, widening: float) -> Floats:
    """E(s - x)+ for -x in ``SCORES``, of moves of 1 together whose signs the past decides."""
    values = np.maximum(SCORES, 0.0)
    for _ in range(number):
        ways = [POINTS / math.sqrt(number) + sign * widening * (POINTS**2 - 1) for sign in (-1, 1)]
        chosen = [
            [MASSES @ np.interp(score + way, SCORES, values) for score in SCORES] for way in ways
        ]
        values = np.max(chosen, axis=0)
    return np.asarray(values)


def best_speed(number: int, widening: float, level: float) -> float:
    """E[s 1_A] / phi(z) of the best test, at its best threshold."""
    near = np.abs(SCORES + level) < 0.8
    sums = -SCORES * norm.sf(level) + best_excesses(number, widening)
    return float(sums[near].min() / norm.pdf(level))


def bound_speeds(number: int, level: float, groups: Groups) -> tuple[float, ...]:
    """Of tests that are told where the way ends, and of those that are not."""
    rates = np.minimum(6 * 1.5 ** np.arange(10)[:, None], 0.35 / groups.widening)
    test = Told(1.0, number * groups.widening**2, groups, rates, np.array([level]))
    lines = test.lines(), test.untold((groups.shares,))
    return tuple(float(line.speeds(np.array([level])).min()) for line in lines)


@pytest.mark.parametrize("widening", [0.005, 0.02])
@pytest.mark.parametrize("number", [2, 3, 6])
def test_the_speed_covers_tests_whose_signs_the_past_decides(number: int, widening: float) -> None:
    any_length = Groups((Group(1.0, widening, any_shares(float(number))),))
    for level in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0):
        reached = best_speed(number, widening, level)
        found = bound_speeds(number, level, alike(number, widening))
        any_lengths = bound_speeds(number, level, any_length)
        assert reached <= min(found)
        assert all(one <= other for one, other in zip(found, any_lengths, strict=True))
        assert min(found) <= (1 + 1.5 * widening) * reached
        if level <= 1:
            assert found[1] < found[0]
        if level >= 2:
            assert reached >= 1 + widening * level


# Moves that differ, in whichever order the past decides.

ORDERED = [(0.55, 0.03), (0.25, 0.02), (0.2, 0.004)]
"""Shares of the way, and their widenings."""


@lru_cache(maxsize=1)
def best_ordered_excesses() -> Floats:
    """E(s - x)+ as above, where the past decides the order of moves besides their signs."""
    done: dict[frozenset[int], Floats] = {frozenset(): np.maximum(SCORES, 0.0)}
    for size in range(1, 4):
        for left in map(frozenset, itertools.combinations(range(3), size)):
            ways = [
                (left - {place}, math.sqrt(ORDERED[place][0]) * POINTS + sign * wide)
                for place in left
                for sign in (-1, 1)
                for wide in [ORDERED[place][1] * (POINTS**2 - 1)]
            ]
            done[left] = np.max([expected(done[rest], way) for rest, way in ways], axis=0)
    return done[frozenset(range(3))]


def expected(values: Floats, way: Floats) -> Floats:
    """The mean of a function of the score after one move."""
    return np.array([MASSES @ np.interp(score + way, SCORES, values) for score in SCORES])


def test_the_speed_covers_moves_in_any_order() -> None:
    kinds = [Kind(share, 1, widening) for share, widening in ORDERED]
    widenings = sum(widening**2 for _, widening in ORDERED)
    rates = np.minimum(6 * 1.5 ** np.arange(10)[:, None], 0.35 / 0.03)
    for level in (0.0, 0.7, 1.5, 2.5, 3.5):
        near = np.abs(SCORES + level) < 0.8
        sums = -SCORES * norm.sf(level) + best_ordered_excesses()
        reached = float(sums[near].min() / norm.pdf(level))
        found = []
        for groups in (apart(kinds), together(kinds)):
            test = Told(1.0, max(widenings, groups.widening**2), groups, rates, np.array([level]))
            both = test.lines(), test.untold(pulls(kinds))
            found += [float(lines.speeds(np.array([level])).min()) for lines in both]
        assert reached <= min(found) <= 1.05 * reached


def test_signs_that_the_past_decides_gain_something() -> None:
    """So the tests above see more than the best signs chosen beforehand."""
    assert best_speed(6, 0.02, 0.0) > 1 + 0.01


# The statement once more, with plain numbers.


def stated_line(test: Told) -> tuple[float, float]:
    """x0 and K of docs/closer-forms.md."""
    b, level, groups = test.length, float(test.near[0]), test.groups.groups
    kappa, e = float(test.rates[0, 0]) / b, max(group.widening for group in groups)
    mean = sum(group.share * group.widening for group in groups)
    across = sum(group.share * group.widening**2 for group in groups) - mean**2
    x = kappa * e
    f, turn = 1 - 2 * x, math.atanh(2 * x) / (2 * x)
    wide = mean + 2 * kappa * across / f
    noise = (test.widenings - mean**2 - 2 * across) * (1 + 4 * x / (3 * f))
    u1 = level + 1 / max(kappa * b - level, 1.0)
    u0 = u1 - BACK / (kappa * b)

    def moved(u: float) -> float:
        return b * u + wide * u * u - mean

    def moment(u: float) -> float:
        whole = quad(lambda v: math.exp(kappa * (moved(v) - moved(u))) * norm.pdf(v), -60, u)[0]
        return float(whole)

    x0 = moved(u1) - 1 / kappa
    turns = [
        (weight * group.widening / e, stated_turn(f, u0, group.share * left))
        for group in groups
        for left, weight in zip(group.shares.left, group.shares.weights, strict=True)
    ]
    every = math.exp(2 * x * turn * sum(weight for weight, _ in turns)) - 1
    below = moment(u1) + every * math.exp(kappa * (moved(u0) - moved(u1))) * moment(u0)
    ratio = u1 / (kappa * b)
    means = norm.pdf(u1) * (b + wide * u1) + (wide - mean - x0) * norm.sf(u1)
    above = noise / b * norm.pdf(u1) * math.exp(ratio) * exp1(ratio)
    turned = 2 * e * turn * sum(weight * gain for weight, gain in turns)
    return x0, means + math.exp(kappa**2 * noise) * below / kappa + above + turned


def stated_turn(f: float, u0: float, share: float) -> float:
    """G(r), by trying every g."""
    found = []
    for g in np.geomspace(1, 20, 200).tolist():
        spread = math.sqrt(1 - 2 * f * g / (1 + 2 * f * g) * (1.0 if u0 < 0 else share))
        found.append(math.exp(g - 1) / g / math.sqrt(1 + 2 * f * g) * norm.sf(u0 / spread))
    return float(min(found))


@pytest.mark.parametrize("level", [0.0, 0.1, 1.5, 4.0])
@pytest.mark.parametrize("rate", [7.0, 16.0])
@pytest.mark.parametrize("rest", [0.0, 1e-3])
@pytest.mark.parametrize("name", MIXED)
def test_the_lines_are_those_stated(rate: float, level: float, name: str, rest: float) -> None:
    test = told(rate, level, groups=MIXED[name], rest=rest)
    x0, constant = stated_line(test)
    for near in (level - 0.05, level + 0.05):
        found = float(test.lines().speeds(np.array([near]))[0, 0])
        stated = (x0 * norm.sf(near) + constant) / norm.pdf(near)
        assert stated * (1 - 1e-9) <= found <= stated * (1 + 5e-4)


def test_turns_are_covered() -> None:
    """E[(1 - f n^2)+; U > u0] by integration, for n and U of every correlation."""
    for flat, back, share in itertools.product(
        (0.3, 0.8, 0.99), (-0.5, 0.4, 2.5), (0.1, 0.5, 0.95)
    ):

        def gained(n: float, flat: float = flat, back: float = back, share: float = share) -> float:
            likely = norm.sf((back - math.sqrt(share) * n) / math.sqrt(1 - share))
            return float((1 - flat * n * n) * norm.pdf(n) * likely)

        edge = 1 / math.sqrt(flat)
        exact = quad(gained, -edge, edge, limit=200)[0]
        assert exact <= stated_turn(flat, back, share) <= 2.2 * exact + 0.02


@pytest.mark.parametrize("level", [0.0, 0.1, 0.9, 2.0])
@pytest.mark.parametrize("rate", [7.0, 16.0])
@pytest.mark.parametrize("rest", [0.0, 1e-3])
@pytest.mark.parametrize("name", MIXED)
def test_the_lines_of_untold_tests_are_those_stated(
    rate: float, level: float, name: str, rest: float
) -> None:
    groups = MIXED[name]
    test, pulled = told(rate, level, groups=groups, rest=rest), pulls(UNEQUAL)
    x = rate * groups.widening
    turn = math.atanh(2 * x) / (2 * x) * groups.shares.weights.sum()
    noise = rate**2 * rest * (1 + 4 * x / (3 * (1 - 2 * x)))
    wide = groups.mean + 2 * rate * groups.across / (1 - 2 * x)

    def rare(u: float) -> float:
        widened = rate * (wide * u * u - groups.mean)
        power = widened + 2 * x * turn + noise - 1 - rate * abs(u - level)
        return float(math.exp(power) / rate * norm.pdf(u))

    rest_of_it = quad(rare, level - 30, level)[0] + quad(rare, level, level + 30)[0]
    pull = min(float(one.pull(np.array([level]))[0]) for one in pulled)
    constant = norm.pdf(level) * (1 + groups.widening * pull) - level * norm.sf(level) + rest_of_it
    for near in (level - 0.05, level + 0.05):
        found = float(test.untold(pulled).speeds(np.array([near]))[0, 0])
        stated = (level * norm.sf(near) + constant) / norm.pdf(near)
        assert found == pytest.approx(stated, rel=1e-8)


def test_far_from_the_median_untold_tests_are_no_bound() -> None:
    """They overflow to infinity and leave it to those that are told."""
    shares = alike(3).shares
    lines = told(17.0, 45.0).untold((shares,))
    assert np.all(lines.speeds(np.array([45.0])) > 1e100)
    assert np.all(told(17.0, 0.0).lines().speeds(np.array([0.0])) < 1.2)


def test_what_turning_gains_is_not_lost_at_levels_of_tiny_chances() -> None:
    """Beyond 38 chances are below the smallest number, but what they gain over them is not."""
    for level in (30.0, 37.0, 39.0, 45.0):
        lines = told(60.0, level, groups=alike(400, 0.002)).lines()
        lost = np.exp(lines.turned + level**2 / 2)
        assert np.all(lost > 1e-9)
        assert np.all(lost < 0.1)


def both_speeds(test: Told) -> list[Floats]:
    lines = test.lines(), test.untold((test.groups.shares,))
    return [line.speeds(test.near) for line in lines]


def test_more_rest_and_wider_moves_are_faster() -> None:
    plain = both_speeds(told(15.0, 2.0, rest=1e-4))
    for wider in (told(15.0, 2.0, rest=4e-4), told(15.0, 2.0, groups=alike(5, 0.022), rest=1e-4)):
        for more, less in zip(both_speeds(wider), plain, strict=True):
            assert np.all(more > less)
    assert min(float(speed.min()) for speed in plain) > 1 + 0.02 * 2


@pytest.mark.parametrize("unit", [0.01, 3.0])
def test_speeds_are_in_the_units_of_lengths(unit: float) -> None:
    rates, levels = np.array([[9.0], [20.0]]), np.array([0.5, 3.0])

    def speeds(scale: float) -> list[Floats]:
        kinds = [replace(kind, widening=scale * kind.widening / 2) for kind in UNEQUAL]
        return both_speeds(Told(scale, 3e-4 * scale**2, apart(kinds), rates, levels))

    for one, other in zip(speeds(unit), speeds(1.0), strict=True):
        assert one == pytest.approx(unit * other, rel=1e-12)
