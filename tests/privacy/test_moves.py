"""The second certificate of coarse grids: how all labels move, and what releases make of it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

from croupier.privacy.levels import PIECES, REACHES, Levels
from croupier.privacy.moves import Move
from croupier.privacy.rounding import Rounding, find_rounding
from croupier.privacy.skewness import EDGES, TILTS, moments, moments_of, rests, skewed

Floats = NDArray[np.float64]


def found(coins: int, shift: int, tau: float) -> Rounding:
    rounding = find_rounding(coins, shift, tau)
    assert rounding is not None
    return rounding


def level_speeds(weights: Floats, widenings: Floats, growing: Floats, edge: float) -> Floats:
    """The least upper bound of E[s 1_A] / phi(z) for z = 0, 1/2, .., by convolving the labels."""
    bins, points = 1 << 17, (np.arange(40_000) + 0.5) / 40_000 * 18 - 9
    chances = norm.pdf(points) * 18 / 40_000
    spectrum, unit = np.ones(bins // 2 + 1, dtype=complex), 16 * np.linalg.norm(weights) / bins
    cubic = np.where(np.abs(points) < edge, points**3 - 2 * points, edge**2 * points)
    for weight, widening, skew in zip(weights, widenings, growing, strict=True):
        score = weight * points + widening * (points**2 - 1) + skew * cubic
        places = np.rint(score / unit).astype(int) % bins
        spectrum *= np.fft.rfft(np.bincount(places, chances, bins))
    law = np.roll(np.fft.irfft(spectrum, bins), bins // 2)[::-1]
    scores = ((np.arange(bins) - bins // 2) * unit)[::-1]
    tails, sums = np.cumsum(law), np.cumsum(law * scores)
    levels = np.arange(0, 5.6, 0.5)
    return np.asarray(np.interp(norm.sf(levels), tails, sums) / norm.pdf(levels))


def wider(kind: str, labels: int) -> Floats:
    """By which share of what is possible every label is made wider."""
    if kind == "random":
        return np.random.default_rng(labels).uniform(-1, 1, labels)
    signs = {"all wider": (1, 1), "all narrower": (-1, -1), "half and half": (1, -1)}[kind]
    return np.resize(np.array(signs, dtype=float), labels)


KINDS = ["all wider", "all narrower", "half and half", "random"]


def speeds_reached(move: Move, ways: Floats, signs: Floats) -> Floats:
    """With every label as wide, or narrow, and as skewed as its part of the way allows."""
    rounding, moved = move.rounding, move.distance * ways / np.linalg.norm(ways)
    part = np.minimum(np.abs(moved), 0.5)
    widenings = signs * rounding.spread / 2 * part * (1 - part)
    growing = rounding.growing * np.minimum(1.0, np.abs(moved) / rounding.near)
    weights = move.length * moved / move.distance
    return level_speeds(weights, widenings, growing * np.sign(moved), rounding.edge)


MOVES = [(1000, 20, 2.2), (4000, 9, 1.5), (1000, 2, 0.3), (2000, 2, 0.03), (2000, 60, 0.2)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("coins", "labels", "distance"), MOVES)
def test_the_speed_covers_tests_of_every_level(
    coins: int, labels: int, distance: float, kind: str
) -> None:
    move = Move(found(coins, math.ceil(distance), 1e-9), distance, labels)
    signs, levels = wider(kind, labels), Levels(5.5)
    rng = np.random.default_rng(labels)
    # The piece that ends at or above each level that is tried.
    pieces = np.searchsorted(levels.cuts[1:], np.arange(0, 5.5, 0.5))
    bounds = move.speeds(levels)[pieces]
    for ways in (np.ones(labels), rng.standard_normal(labels), np.exp(-2.0 * np.arange(labels))):
        assert np.all(speeds_reached(move, ways, signs)[:-1] <= bounds)


@pytest.mark.parametrize(("coins", "labels", "distance"), MOVES)
def test_the_speed_is_nearly_reached(coins: int, labels: int, distance: float) -> None:
    """By one label that moves and is wider; with many short moves rounding could do no worse."""
    move, levels = Move(found(coins, math.ceil(distance), 1e-9), distance, labels), Levels(5.5)
    ways = np.eye(labels)[0] if distance < 0.5 else np.ones(labels)
    reached = speeds_reached(move, ways + 1e-12, np.ones(labels))
    pieces = np.searchsorted(levels.cuts[1:], np.arange(0, 5.5, 0.5))
    assert np.all(reached[2:-1] >= 0.98 * move.speeds(levels)[pieces[2:]])
    assert reached[-2] > move.length + move.widening * 4.5


def test_a_move_whose_variances_change_too_much_is_refused() -> None:
    rounding = Rounding(0.5, 0.2, 0.0, 0.1, 6.0, 0.2)
    assert not rounding.follows
    speeds = Move(rounding, 0.5, 40).speeds(Levels(8.0))
    assert np.isfinite(speeds[0])
    assert np.isinf(speeds[-1])


def test_moves_keep_their_order_as_far_as_they_are_followed() -> None:
    """b u + e (u^2 - 1) grows, and its law is log-concave, where there is room (PROOF 8b, ii)."""
    assert REACHES.min() >= 1
    levels, finite = Levels(9.0), 0
    for spread in np.geomspace(1e-4, 0.5, 40):
        move = Move(Rounding(0.5, float(spread), 0.0, 1e-9, 6.0, 0.2), 0.5, 40)
        speeds = move.speeds(levels)
        known = levels.cuts[1:][np.isfinite(speeds)]
        finite += known.size
        ordered = move.length / (2 * move.widening) - 4 * move.widening / move.length
        assert np.all(known + 1 <= ordered)
    assert 0.2 < finite / (40 * PIECES) < 0.9


def test_labels_share_what_rounding_leaves_over() -> None:
    """A longer way than ``near`` can fill so many labels, a shorter one not even one."""
    rounding = replace(found(2000, 1, 1e-9), near=0.2)
    assert (Move(rounding, 0.8, 5).part, Move(rounding, 0.8, 5).parts) == (1.0, 5.0)
    assert Move(rounding, 0.8, 50).parts == pytest.approx(16.0)
    assert Move(rounding, 0.05, 50).part == pytest.approx(0.25)
    assert Move(rounding, 0.05, 50).parts == 1.0
    for distance in (0.05, 0.8):
        move = Move(rounding, distance, 50)
        left_over = move.length - rounding.slope * distance
        assert left_over == pytest.approx(rounding.steady * distance / 0.2, rel=1e-9, abs=0)


# Skewness.


def cubic(point: float, edge: float, line: float | None = None) -> float:
    slope = edge**2 - 2 if line is None else line
    return point**3 - 2 * point if abs(point) < edge else slope * point


@lru_cache(maxsize=1024)
def integrated_moment(edge: float, tilt: float, line: float | None = None) -> float:
    def mass(point: float) -> float:
        # 2 sinh(x/2)^2 is cosh x - 1 without cancellation.
        bent = math.exp(tilt * cubic(point, edge, line) / 2 - point**2 / 4)
        back = math.exp(-tilt * cubic(point, edge, line) / 2 - point**2 / 4)
        return (bent - back) ** 2 / math.sqrt(2 * math.pi)

    parts = ((0.0, 0.6 * edge), (0.6 * edge, edge), (edge, edge + 8), (edge + 8, 3 * edge + 20))
    return sum(quad(mass, *ends, epsabs=0, epsrel=1e-10, limit=200)[0] for ends in parts)


def test_moments_of_skewness_are_integrated() -> None:
    for place, number in itertools.product((0, 5, 9, 14, 24), range(TILTS.size)):
        exact = integrated_moment(float(EDGES[place]), float(TILTS[number] / EDGES[place]))
        assert moments()[place, number] == pytest.approx(exact, rel=1e-6, abs=3e-12)
        assert moments()[place, number] > exact


@pytest.mark.parametrize("edge", [2.7, 6.4, 11.3, 37.9])
def test_moments_of_all_skewness_are_integrated_too(edge: float) -> None:
    values = moments_of(edge, edge**2)
    for value, tilt in zip(values.tolist(), (TILTS / edge).tolist(), strict=True):
        exact = integrated_moment(edge, tilt, edge**2)
        assert value == pytest.approx(exact, rel=1e-6, abs=3e-12)
        assert value > exact


def test_levels_beyond_the_edge_see_no_jump_of_skewness() -> None:
    """Nor does an edge that is out of reach of the moments do harm."""
    levels = Levels(12.0)
    near = skewed(levels, 1200, 60.0, 8.5)
    assert np.all(near < 6 * skewed(Levels(8.0), 1200, 60.0, 8.5).max())
    assert np.all(np.isfinite(skewed(levels, 1200, 60.0, 45.0)))


@pytest.mark.parametrize("cap", [3.1, 6.4, 11.0])
def test_what_lines_leave_over_of_skewness_is_covered(cap: float) -> None:
    values = rests(cap, np.array([0.0, 2.0]))
    for place, edge in enumerate(EDGES[:16].tolist()):

        def square(point: float, edge: float = edge) -> float:
            whole = point**3 - 2 * point if point < cap else cap**2 * point
            return 2 * float((whole - cubic(point, edge)) ** 2 * norm.pdf(point))

        cuts = sorted({min(edge, cap), max(edge, cap), edge + 12, cap + 12})
        left = sum(quad(square, *ends, epsabs=0)[0] for ends in itertools.pairwise(cuts))
        shown = values[place] * np.sqrt(norm.pdf([0.0, 2.0]))
        assert math.sqrt(left) <= shown[0] <= 6 * math.sqrt(left) + 1e-12
        assert shown[1] == pytest.approx(shown[0], rel=1e-9, abs=0)


# The statement of docs/closer-forms.md once more, with plain numbers.


def stated_speeds(move: Move, top: float) -> list[float]:
    """Piece by piece, every part at its worse end."""
    cuts = [top * number / PIECES for number in range(PIECES + 1)]
    return [_stated_piece(move, *ends) for ends in itertools.pairwise(cuts)]


def _stated_piece(move: Move, low: float, high: float) -> float:
    spreads = [_stated_spread(move, low, high, high + reach) for reach in STATED_REACHES]
    return min(spreads) + _stated_skew(move, low, high)


STATED_REACHES = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5)


def _stated_spread(move: Move, low: float, high: float, u: float) -> float:
    rounding, a, beta = move.rounding, move.rounding.slope, move.rounding.spread
    r = min(move.distance, 0.5)
    e0 = beta * r * (1 - r) / 2
    squares = min(move.labels * e0**2, (beta * move.distance / 2) ** 2)
    c, n = _stated_parts(move)
    b = a * move.distance + c * rounding.steady * math.sqrt(n)
    eta = beta * b * math.sqrt(1 + beta / 4) / (2 * a)
    lost = (norm.pdf(u) - high * norm.sf(u)) / (norm.pdf(high) - high * norm.sf(high))
    found = []
    for number, sign in itertools.product(range(16), (1, -1)):
        most = e0 * math.cos(number / 16 * math.pi / 2)
        least = e0 * math.cos((number + 1) / 16 * math.pi / 2)
        slowest = b if sign > 0 else b - 2 * most * u
        kappa = 1 / (slowest * (1 - lost) * (_hazard(high) - high))
        q2 = min(e0**2 - least**2, (eta**2 - least**2) / 2)
        noise = (squares + 2 * u**2 * q2) / (1 - 2 * kappa * e0)
        bend = slowest * (1 - lost) * _hazard(low) * (_hazard(low) - low)
        found.append(b + (most * high if sign > 0 else -least * low) + noise / bend)
        if not 0 < kappa * e0 < 0.5:
            return math.inf
    size = b + (2 * u + 3) * e0 + math.sqrt(2 * squares)
    return float(max(found) + 2 * size * math.exp((high**2 - u**2) / 2))


def _stated_parts(move: Move) -> tuple[float, float]:
    ratio = move.distance / move.rounding.near
    return min(1.0, ratio), min(float(move.labels), max(1.0, ratio**2))


def _stated_skew(move: Move, low: float, high: float) -> float:
    c, n = _stated_parts(move)
    found = []
    for place, edge in enumerate(EDGES.tolist()):
        rest = max(_stated_rest(edge, move.rounding.edge, level) for level in (low, high))
        for number, tilt in enumerate((TILTS / edge).tolist()):
            logs = move.labels * math.log(1 + moments()[place, number] * n / move.labels)
            ends = [(logs - log_ndtr(-level)) / (_hazard(level) * tilt) for level in (low, high)]
            found.append(max(ends) + math.sqrt(n) * rest)
    edge = move.rounding.edge
    for tilt, moment in zip(TILTS / edge, moments_of(edge, edge**2), strict=True):
        logs = move.labels * math.log(1 + moment * n / move.labels)
        found.append(max((logs - log_ndtr(-z)) / (_hazard(z) * tilt) for z in (low, high)))
    return float(c * move.rounding.growing * min(found))


def _stated_rest(edge: float, cap: float, level: float) -> float:
    cut = min(edge, cap)
    inside = norm.pdf(cut) * (15 * cut - cut**3) + norm.sf(cut) * (cut**4 - 6 * cut**2 + 15)
    jump = 4 * norm.pdf(cap) * (cap + 1 / cap)
    root = math.sqrt(2 * inside) + math.sqrt(2 * jump)
    return float(root / math.sqrt(_hazard(level) * norm.pdf(level)))


def _hazard(level: float) -> float:
    return float(math.exp(-level * level / 2 - log_ndtr(-level)) / math.sqrt(2 * math.pi))


@pytest.mark.parametrize("labels", [1, 230])
@pytest.mark.parametrize("distance", [0.04, 0.3, 2.1213, 9.9])
def test_the_speeds_are_those_stated(labels: int, distance: float) -> None:
    move = Move(found(2000, math.ceil(distance), 1e-10), distance, labels)
    assert move.speeds(Levels(6.5)) == pytest.approx(stated_speeds(move, 6.5), rel=1e-8)


def test_normal_quantities_of_levels() -> None:
    levels = Levels(6.0)
    assert levels.cuts[0] == 0
    assert levels.cuts[-1] == 6
    assert levels.hazard == pytest.approx(norm.pdf(levels.cuts) / ndtr(-levels.cuts), rel=1e-12)
    assert levels.gap == pytest.approx(levels.hazard - levels.cuts, rel=1e-12)
    assert levels.bend == pytest.approx(levels.hazard * levels.gap, rel=1e-12)
    assert levels.surprise == pytest.approx(-np.log(ndtr(-levels.cuts)), rel=1e-12)
