"""Randomly rounded counts on coarse grids: what is left over of a label (PROOF 8a)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri, ndtri_exp
from scipy.stats import binom, norm

from croupier.privacy.rounding import Cell, Rounding, _around, find_rising, find_rounding
from croupier.privacy.shuffled_bits.quantile_slope import fast_slope, find_window

Floats = NDArray[np.float64]

SETTINGS = [(60, 1e-2, 2), (400, 1e-6, 1), (401, 1e-3, 8), (2000, 5e-10, 3), (20_001, 1e-12, 5)]
# So many steps that what is left over is told by the inner one of two thresholds.
LONG = [(401, 1e-6, 60), (2001, 1e-12, 90)]
FINE = 16


def found(coins: int, shift: int, tau: float) -> Rounding:
    rounding = find_rounding(coins, shift, tau)
    assert rounding is not None
    return rounding


def fine_quantiles(coins: int, first: int, last: int) -> tuple[Floats, Floats]:
    """q and its fractional part on a fine grid of the cells from ``first`` to ``last``."""
    counts = np.arange(first, last + 1)
    below, above = binom.logcdf(counts, coins, 0.5), binom.logsf(counts, coins, 0.5)
    share = np.arange(FINE) / FINE
    lower, upper = (_mixed_logs(logs, share) for logs in (below, above))
    values = np.where(below[:-1, None] < -1, ndtri_exp(lower), -ndtri_exp(upper))
    return values.ravel(), np.tile(share, counts.size - 1)


def _mixed_logs(logs: Floats, share: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        ends = np.log1p(-share) + logs[:-1, None], np.log(share) + logs[1:, None]
    return np.asarray(np.logaddexp(*ends))


def thresholds(
    coins: int, shift: int, tau: float, spread: float
) -> list[tuple[float, Floats, Floats, Floats, Floats]]:
    """For every lag all pairs in the window: q(x'), q(x) and both scales (PROOF 8a)."""
    window = find_window(coins, 0.5, tau)
    first = window.low - shift
    values, share = fine_quantiles(coins, first, window.high + shift)
    scales = np.sqrt(1 + spread * share * (1 - share))
    places = first + np.arange(values.size) / FINE
    pairs = []
    for lag in range(1, shift * FINE + 1):
        kept = np.flatnonzero((places[lag:] > window.low) & (places[:-lag] < window.high))
        far = kept + lag
        pairs.append((lag / FINE, values[far], values[kept], scales[far], scales[kept]))
    return pairs


@pytest.mark.parametrize(("coins", "tau", "shift"), SETTINGS)
def test_what_is_left_over_covers_every_pair_of_thresholds(
    coins: int, tau: float, shift: int
) -> None:
    rounding, apart, close = found(coins, shift, tau), 0.0, 0.0
    for moved, far, near, far_scale, near_scale in thresholds(coins, shift, tau, rounding.spread):
        over = far_scale * far - near_scale * near - rounding.slope * moved
        closest = np.where(far * near < 0, 0.0, np.minimum(np.abs(far), np.abs(near)))
        part = min(1.0, moved / rounding.near)
        worst = float((over / (part * (rounding.steady + rounding.growing * closest**2))).max())
        apart, close = max(apart, worst), max(close, worst if part < 1 else 0.0)
    assert 0.15 < apart <= 1
    assert close > 0.05


@pytest.mark.parametrize(("coins", "tau", "shift"), LONG)
def test_what_is_left_over_of_long_moves_is_that_of_the_inner_threshold(
    coins: int, tau: float, shift: int
) -> None:
    """s q - z~ itself: the slope of a long move would hide what rounding leaves over."""
    rounding, window, worst = found(coins, shift, tau), find_window(coins, 0.5, tau), 0.0
    values, share = fine_quantiles(coins, window.low - shift, window.high + shift + 1)
    places = np.arange(values.size) / FINE
    chords = np.interp(places, places[::FINE], values[::FINE])
    over = (np.sqrt(1 + rounding.spread * share * (1 - share)) * values - chords)[: 1 - FINE]
    levels = values[: over.size]
    for lag in range(1, shift * FINE + 1, FINE // 2 - 1):
        far, near = levels[lag:], levels[:-lag]
        closest = np.where(far * near < 0, 0.0, np.minimum(np.abs(far), np.abs(near)))
        allowed = rounding.steady + rounding.growing * closest**2
        worst = max(worst, float(((over[lag:] - over[:-lag]) / allowed).max()))
    assert 0.1 < worst <= 1


FINDERS = {"steepest": find_rounding, "rising": find_rising}


@pytest.mark.parametrize("name", FINDERS)
@pytest.mark.parametrize(("coins", "tau", "shift"), SETTINGS)
def test_every_threshold_flows_past_its_count(
    coins: int, tau: float, shift: int, name: str
) -> None:
    """The path of PROOF 8a, followed in small steps: what starts at q(x') ends below q(x)."""
    rounding, steps = FINDERS[name](coins, shift, tau), 40
    assert rounding is not None
    for moved, far, near, far_scale, near_scale in thresholds(coins, shift, tau, rounding.spread):
        change, part = near_scale**2 - far_scale**2, min(1.0, moved / rounding.near)
        level = far.copy()
        for step in range(steps):
            spread = far_scale**2 + (step + 0.5) / steps * change
            speed = rounding.slope * moved / np.sqrt(spread) + change / (2 * spread) * level
            square = np.minimum(level**2, rounding.edge**2)
            speed += part * (rounding.steady + rounding.growing * square)
            speed += moved * rounding.rising * square
            level -= speed / steps
        assert np.all(level <= near)


@pytest.mark.parametrize(("coins", "tau", "shift"), [*SETTINGS, (300, 1e-20, 4)])
def test_a_rising_slope_covers_every_increment(coins: int, tau: float, shift: int) -> None:
    """Cells up to the edge of all windows, by their inner ends; and chords by their outer ones."""
    steepest, rising = found(coins, shift, tau), find_rising(coins, shift, tau)
    assert rising is not None
    last = find_window(coins, 0.5, tau).high + shift
    values = fine_quantiles(coins, coins - 1 - last, last + 1)[0][::FINE]
    inner = np.minimum(np.abs(values[1:]), np.abs(values[:-1])) * (values[1:] * values[:-1] > 0)
    # At the level where it touches, it is that of the furthest cell.
    touched = max(1.0, rising.edge - 4)
    growth = rising.rising / (1 + rising.width / touched)
    flat = rising.slope + rising.rising * touched**2 - growth * (touched + rising.width) ** 2
    shares = np.diff(values) / (flat + growth * inner**2)
    assert 0.995 < shares.max() <= 1
    assert flat <= rising.slope < steepest.slope
    # It rises no higher than needed, but for the pieces it is cut into.
    assert flat + growth * inner[-1] ** 2 < np.diff(values)[-1] + 0.5 * (steepest.slope - flat)
    same = replace(rising, slope=steepest.slope, rising=0.0)
    assert same == steepest


@pytest.mark.parametrize("level", [0.5, 1.0, 3.0, 7.0])
def test_a_parabola_covers_the_furthest_cell_and_touches_it(level: float) -> None:
    steady, growing = _around(0.3, 0.02, 0.7, level)
    points = np.linspace(-12, 12, 2401)
    gaps = steady + growing * points**2 - (0.3 + 0.02 * (np.abs(points) + 0.7) ** 2)
    assert np.all(gaps >= -1e-15)
    assert np.abs(points[np.argmin(gaps)]) == pytest.approx(level, abs=0.01)
    assert gaps.min() == pytest.approx(0, abs=1e-12)


def test_a_slope_rises_only_from_below_the_steepest() -> None:
    """Windows that hardly reach beyond the first level keep theirs."""
    assert find_rising(5000, 1, 0.2) == find_rounding(5000, 1, 0.2)
    assert find_rising(300, 4, 1e-60) is find_rounding(300, 4, 1e-60) is None
    for coins, tau, shift in SETTINGS:
        rising = find_rising(coins, shift, tau)
        assert rising is not None
        assert rising.follows


@pytest.mark.parametrize(("coins", "tau", "shift"), SETTINGS)
def test_what_is_left_over_rises_no_more_steeply_than_stated(
    coins: int, tau: float, shift: int
) -> None:
    """The slope of s q - z~ within cells; q rises by a mass over a density, so nothing cancels."""
    rounding, window = found(coins, shift, tau), find_window(coins, 0.5, tau)
    first, last = window.low - shift, window.high + shift
    values, share = (grid.reshape(-1, FINE) for grid in fine_quantiles(coins, first, last + 1))
    ends, masses = values[:, 0], binom.pmf(np.arange(first + 1, last + 1), coins, 0.5)
    scale = np.sqrt(1 + rounding.spread * share * (1 - share))
    turning = rounding.spread * (1 - 2 * share) / (2 * scale) * values
    slopes = turning[:-1] + scale[:-1] * masses[:, None] / norm.pdf(values[:-1])
    over = slopes - np.diff(ends)[:, None]
    outer = np.maximum(np.abs(ends[1:]), np.abs(ends[:-1]))[:, None]
    steepest = Cell(float(np.diff(ends).max()), rounding.spread, float(outer.max())).steepness
    worst = float((over / np.polynomial.polynomial.polyval(outer, steepest)).max())
    assert 0.3 < worst <= 1


def test_without_the_change_of_variance_or_the_rest_thresholds_fall_short() -> None:
    """The test above has power: neither part can be left out."""
    coins, tau, shift = 2000, 5e-10, 3
    rounding = found(coins, shift, tau)
    pairs = thresholds(coins, shift, tau, rounding.spread)
    over = [far - near - rounding.slope * moved for moved, far, near, _, _ in pairs]
    allowed = rounding.steady + rounding.growing * rounding.edge**2
    assert max(float(values.max()) for values in over) > 5 * allowed
    scaled = [one * far - other * near - rounding.slope * by for by, far, near, one, other in pairs]
    assert max(float(values.max()) for values in scaled) > 5 * rounding.steady


def test_thresholds_follow_only_below_a_certain_edge() -> None:
    """The condition on a of PROOF 8a, at both sides of where it turns."""
    turn = 0.05 / (math.sqrt(1.001) * 0.002)
    assert Rounding(0.05, 0.004, 0.0, 0.0, turn * (1 - 1e-9), 1.0).follows
    assert not Rounding(0.05, 0.004, 0.0, 0.0, turn * (1 + 1e-9), 1.0).follows


@pytest.mark.parametrize("coins", [1000, 1001])
def test_the_spread_is_below_the_square_of_every_increment(coins: int) -> None:
    steps = np.diff(fine_quantiles(coins, coins // 2 - 40, coins // 2 + 40)[0][::FINE])
    spread = found(coins, 3, 1e-9).spread
    assert spread < np.min(steps) ** 2 < spread * (1 + 1e-7)


# The statement of docs/closer-forms.md once more, number by number.


def stated_rounding(coins: int, shift: int, tau: float) -> Rounding:
    high = find_window(coins, 0.5, tau).high
    plain = fast_slope(coins, shift, tau)
    assert plain is not None
    tails = binom.logsf([high + shift - 1, high + shift], coins, 0.5)
    before, edge = -ndtri_exp(np.asarray(tails))
    d = float(edge - before)
    if coins % 2:
        least = float(ndtri(binom.cdf((coins + 1) // 2, coins, 0.5)))
    else:
        least = 2 * float(ndtri(binom.cdf(coins // 2, coins, 0.5)))
    beta = least**2
    w = plain.slope * shift + plain.deviation + d
    c0, c1 = (d**2 - beta) / 8, beta * (d**2 + beta / 2) / 32
    c2 = d**3 / (18 * math.sqrt(3)) + c1 / 6
    steady = beta * d / (12 * math.sqrt(3)) + d**3 / 16 + 3 * (c0 + c1) / 2
    steady += c0 / 6 * (d + d**2) + c2 * (w + w**2)
    growing = c0 / 6 * (1 + d) + c2 * (1 + w)
    t, w = float(edge) * d, plain.slope + plain.deviation + d
    c1 = (d**2 - beta) / 2 + beta * (d**2 + beta) / 16
    c3 = d**3 * (math.exp(t) - 1 - t) / (3 * t**2) + c1 / 6
    steep = d**3 / 12 + beta * d * (math.exp(t) - 1) / (8 * t) + 3 * c1 / 2 + c3 * (w + w**2)
    near = min(1.0, steady / steep, growing / (c3 * (1 + w)))
    return Rounding(plain.slope, beta, steady, growing, float(edge), near)


@pytest.mark.parametrize(("coins", "tau", "shift"), SETTINGS)
def test_the_rounding_is_the_one_stated(coins: int, tau: float, shift: int) -> None:
    rounding, stated = found(coins, shift, tau), stated_rounding(coins, shift, tau)
    assert rounding.slope == stated.slope
    assert rounding.edge == pytest.approx(stated.edge, rel=1e-9)
    assert rounding.spread == pytest.approx(stated.spread, rel=1e-8)
    # Rounded to the safe side, and d^2 - beta cancels.
    assert stated.steady <= rounding.steady <= stated.steady * (1 + 1e-4)
    assert stated.growing <= rounding.growing <= stated.growing * (1 + 1e-4)
    assert rounding.near == pytest.approx(stated.near, rel=1e-4)


def test_the_terms_of_a_cell_are_those_stated() -> None:
    d, beta, edge = 0.05, 0.0024, 6.0
    t = d * edge
    apart, close = Cell(d, beta, edge).left_over, Cell(d, beta, edge).steepness
    inner = (0.0, (d**2 - beta) / 8, 0.0)
    assert Cell(d, beta, edge).inner == pytest.approx(inner, rel=1e-12, abs=0)
    constant = beta * d / (12 * math.sqrt(3)) + d**3 / 16
    linear = beta * (d**2 + beta / 2) / 32
    assert apart == pytest.approx((constant, linear, d**3 / (18 * math.sqrt(3))), rel=1e-12, abs=0)
    constant = d**3 / 12 + beta * d * (math.exp(t) - 1) / (8 * t)
    linear = (d**2 - beta) / 2 + beta * (d**2 + beta) / 16
    square = d**3 * (math.exp(t) - 1 - t) / (3 * t**2)
    assert close == pytest.approx((constant, linear, square), rel=1e-12, abs=0)
