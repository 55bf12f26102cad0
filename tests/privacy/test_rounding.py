"""The second certificate of coarse grids: its parts against what they bound (PROOF 8)."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp
from scipy.stats import binom, norm

from croupier.privacy.binomial import BinomialCurve, CountRelease
from croupier.privacy.pace import steady
from croupier.privacy.rounding import (
    PIECES,
    TILTS,
    Levels,
    Move,
    Rounding,
    find_rounding,
    rounded_pace,
)
from croupier.privacy.slopes import fast_slope, find_slope, find_window

Floats = NDArray[np.float64]

SETTINGS = [(60, 1e-2, 2), (400, 1e-6, 1), (401, 1e-3, 8), (2000, 5e-10, 3), (20_001, 1e-12, 5)]
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
    rounding, worst = found(coins, shift, tau), 0.0
    for moved, far, near, far_scale, near_scale in thresholds(coins, shift, tau, rounding.spread):
        over = far_scale * far - near_scale * near - rounding.slope * moved
        closest = np.where(far * near < 0, 0.0, np.minimum(np.abs(far), np.abs(near)))
        allowed = rounding.steady + rounding.growing * closest**2
        worst = max(worst, float((over / allowed).max()))
    assert 0.15 < worst <= 1


@pytest.mark.parametrize(("coins", "tau", "shift"), SETTINGS)
def test_every_threshold_flows_past_its_count(coins: int, tau: float, shift: int) -> None:
    """The path of PROOF 8a, followed in small steps: what starts at q(x') ends below q(x)."""
    rounding, steps = found(coins, shift, tau), 40
    for moved, far, near, far_scale, near_scale in thresholds(coins, shift, tau, rounding.spread):
        change = near_scale**2 - far_scale**2
        level = far.copy()
        for step in range(steps):
            spread = far_scale**2 + (step + 0.5) / steps * change
            speed = rounding.slope * moved / np.sqrt(spread) + change / (2 * spread) * level
            speed += rounding.steady + rounding.growing * np.minimum(level**2, rounding.edge**2)
            level -= speed / steps
        assert np.all(level <= near)


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


def level_speeds(weights: Floats, widenings: Floats, growing: float, edge: float) -> Floats:
    """The least upper bound of E[s 1_A] / phi(z) for z = 0, 1/2, .., by convolving the labels."""
    bins, points = 1 << 17, (np.arange(40_000) + 0.5) / 40_000 * 18 - 9
    chances = norm.pdf(points) * 18 / 40_000
    spectrum, unit = np.ones(bins // 2 + 1, dtype=complex), 16 * np.linalg.norm(weights) / bins
    cubic = np.where(np.abs(points) < edge, points**3 - 2 * points, edge**2 * points)
    for weight, widening in zip(weights, widenings, strict=True):
        score = weight * points + widening * (points**2 - 1) + growing * cubic
        places = np.rint(score / unit).astype(int) % bins
        spectrum *= np.fft.rfft(np.bincount(places, chances, bins))
    law = np.roll(np.fft.irfft(spectrum, bins), bins // 2)[::-1]
    scores = ((np.arange(bins) - bins // 2) * unit)[::-1]
    tails, sums = np.cumsum(law), np.cumsum(law * scores)
    levels = np.arange(0, 5.6, 0.5)
    return np.asarray(np.interp(norm.sf(levels), tails, sums) / norm.pdf(levels))


@pytest.mark.parametrize("kind", ["all wider", "all narrower", "half and half", "random"])
@pytest.mark.parametrize(("coins", "labels", "distance"), [(1000, 20, 2.2), (4000, 9, 1.5)])
def test_the_speed_covers_tests_of_every_level(
    coins: int, labels: int, distance: float, kind: str
) -> None:
    rounding = found(coins, math.ceil(distance), 1e-9)
    move = Move(rounding, distance, labels)
    rng = np.random.default_rng(labels)
    signs = {
        "all wider": np.ones(labels),
        "all narrower": -np.ones(labels),
        "half and half": np.where(np.arange(labels) % 2, 1.0, -1.0),
        "random": rng.uniform(-1, 1, labels),
    }[kind]
    ways = np.ones(labels) if kind != "random" else rng.standard_normal(labels)
    weights = move.length * ways / np.linalg.norm(ways)
    speeds = level_speeds(weights, move.widening * signs, rounding.growing, rounding.edge)
    levels = Levels(5.5)
    # The piece that ends at or above each level that was tried.
    pieces = np.searchsorted(levels.cuts[1:], np.arange(0, 5.5, 0.5))
    assert np.all(speeds[:-1] <= move.speeds(levels)[pieces])
    if kind == "all wider":
        assert np.all(speeds[2:-1] >= 0.985 * move.speeds(levels)[pieces[2:]])
        assert speeds[-2] > move.length + move.widening * 4.5


def test_thresholds_follow_only_below_a_certain_edge() -> None:
    """The condition on a of PROOF 8a, at both sides of where it turns."""
    turn = 0.05 / (math.sqrt(1.001) * 0.002)
    assert Rounding(0.05, 0.004, 0.0, 0.0, turn * (1 - 1e-9)).follows
    assert not Rounding(0.05, 0.004, 0.0, 0.0, turn * (1 + 1e-9)).follows


@pytest.mark.parametrize("coins", [1000, 1001])
def test_the_spread_is_below_the_square_of_every_increment(coins: int) -> None:
    steps = np.diff(fine_quantiles(coins, coins // 2 - 40, coins // 2 + 40)[0][::FINE])
    spread = found(coins, 3, 1e-9).spread
    assert spread < np.min(steps) ** 2 < spread * (1 + 1e-7)


def test_a_move_whose_variances_change_too_much_is_refused() -> None:
    rounding = Rounding(0.5, 0.9, 0.1, 0.1, 4.0)
    assert not rounding.follows
    speeds = Move(rounding, 0.5, 40).speeds(Levels(8.0))
    assert np.isfinite(speeds[0])
    assert np.isinf(speeds[-1])


# The statement of docs/guarantees.md once more, number by number.


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
    c1 = (d**2 - beta) / 8 + beta * (d**2 + beta / 2) / 32
    c2 = d**3 / (18 * math.sqrt(3)) + c1 / 4
    steady = beta * d / (12 * math.sqrt(3)) + d**3 / 16 + c1 + c2 * (w + w**2)
    return Rounding(plain.slope, beta, steady, c2 * (1 + w), float(edge))


@pytest.mark.parametrize(("coins", "tau", "shift"), SETTINGS)
def test_the_rounding_is_the_one_stated(coins: int, tau: float, shift: int) -> None:
    rounding, stated = found(coins, shift, tau), stated_rounding(coins, shift, tau)
    assert rounding.slope == stated.slope
    assert rounding.edge == pytest.approx(stated.edge, rel=1e-9)
    assert rounding.spread == pytest.approx(stated.spread, rel=1e-8)
    # Rounded to the safe side, and d^2 - beta cancels.
    assert stated.steady <= rounding.steady <= stated.steady * (1 + 1e-4)
    assert stated.growing <= rounding.growing <= stated.growing * (1 + 1e-4)


def test_skewness_is_integrated() -> None:
    rounding = found(2000, 3, 5e-10)

    edge, tilts = rounding.edge, TILTS / rounding.edge

    def score(point: float) -> float:
        return point**3 - 2 * point if abs(point) < edge else edge**2 * point

    def mass(point: float, tilt: float) -> float:
        return 2 * math.cosh(tilt * score(point)) * float(norm.pdf(point))

    for tilt, value in zip(tilts.tolist(), rounding.skews, strict=True):
        ranges = ((0.0, 3.0), (3.0, edge), (edge, edge + 12))
        whole = sum(quad(mass, *ends, args=(tilt,), epsabs=1e-13)[0] for ends in ranges)
        assert value == pytest.approx(math.log(whole), rel=1e-6)


def stated_speeds(move: Move, top: float) -> list[float]:
    """Piece by piece with plain numbers, every part at its worse end."""
    cuts = [top * number / PIECES for number in range(PIECES + 1)]
    return [_stated_piece(move, top, *ends) for ends in itertools.pairwise(cuts)]


def _stated_piece(move: Move, top: float, low: float, high: float) -> float:
    rounding, u = move.rounding, top + 2
    r = min(move.distance, 0.5)
    e0 = rounding.spread * r * (1 - r) / 2
    squares = min(move.labels * e0**2, (rounding.spread * move.distance / 2) ** 2)
    b = rounding.slope * move.distance + rounding.steady * math.sqrt(move.labels)
    kappa = 1 / (b * (_hazard(high) - high))
    bend = b * _hazard(low) * (_hazard(low) - low)
    half = brentq(lambda t: log_ndtr(-t) + math.log(2) - log_ndtr(-high), high, high + 2)
    stretch = 2 * half * math.exp((high**2 - half**2) / 2)
    widened = []
    for number in range(16):
        turned = e0 * math.sin((number + 1) / 16 * math.pi / 2)
        noise = (squares + 2 * u**2 * turned**2) / (1 - 2 * kappa * e0)
        across = noise * math.exp(kappa**2 * noise) / bend
        widened.append(e0 * math.cos(number / 16 * math.pi / 2) * stretch + across)
    skew = min(
        max(_stated_skew(move, number, level) for level in (low, high))
        for number in range(TILTS.size)
    )
    beyond = 2 * (b + 2 * e0 + math.sqrt(2 * squares)) * math.exp((high**2 - u**2) / 2)
    return b + max(widened) + skew + beyond


def _stated_skew(move: Move, number: int, level: float) -> float:
    rounding = move.rounding
    tilt = TILTS[number] / rounding.edge
    logs = move.labels * rounding.skews[number] - log_ndtr(-level)
    return float(rounding.growing * logs / (_hazard(level) * tilt))


def _hazard(level: float) -> float:
    return float(math.exp(-level * level / 2 - log_ndtr(-level)) / math.sqrt(2 * math.pi))


@pytest.mark.parametrize("labels", [1, 20, 230])
@pytest.mark.parametrize("distance", [0.3, 2.1213, 9.9])
def test_the_speeds_are_those_stated(labels: int, distance: float) -> None:
    move = Move(found(2000, math.ceil(distance), 1e-10), distance, labels)
    for top in (0.7, 3.0, 6.5):
        assert move.speeds(Levels(top)) == pytest.approx(stated_speeds(move, top), rel=1e-9)


@pytest.mark.parametrize(("labels", "distance"), [(20, 2.1213), (65, 0.8), (230, 5.0)])
def test_the_pace_reaches_up_to_the_tail_of_all_labels(labels: int, distance: float) -> None:
    coins, tau, shift = 5000, 1e-9, math.ceil(distance)
    slope = fast_slope(coins, shift, tau)
    assert slope is not None
    plain = slope.mu(distance, labels)
    move = Move(found(coins, shift, tau / 2), distance, labels)
    top = -float(ndtri(1 - (1 - tau / 2) ** labels)) + plain
    pace = rounded_pace(coins, distance, labels, tau, plain)
    stated = np.maximum.accumulate(stated_speeds(move, top))
    assert pace.levels[-1] == pytest.approx(top, rel=1e-7)
    assert pace.mus == pytest.approx(stated.tolist(), rel=1e-6)
    assert np.all(np.array(pace.mus) >= stated)
    assert pace.mu < plain


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
    plain = slope.mu(distance, 5)
    pace = rounded_pace(1000, distance, 5, tau, plain)
    assert pace.mu == plain < pace.mus[-1]
    assert pace.delta(0.115) < 0.95 * steady(plain).delta(0.115)


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
    slope = find_slope(20_000, 0.5, math.ceil(distance), 5e-10).slope
    assert shown == max(second, 1.01 * slope * distance)
    assert shown < plain


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


def test_normal_quantities_of_levels() -> None:
    levels = Levels(6.0)
    assert levels.cuts[0] == 0
    assert levels.cuts[-1] == 6
    assert levels.hazard == pytest.approx(norm.pdf(levels.cuts) / ndtr(-levels.cuts), rel=1e-12)
    assert levels.gap == pytest.approx(levels.hazard - levels.cuts, rel=1e-12)
    assert levels.surprise == pytest.approx(-np.log(ndtr(-levels.cuts)), rel=1e-12)


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
