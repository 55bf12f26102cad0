"""Tails where the moves are: one label that moves all the way, and all that share the way (4a)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.privacy.shuffled_bits.count_release import FAR, CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve
from croupier.privacy.shuffled_bits.quantile_slope import Slope, fast_slope, find_slope
from croupier.privacy.single import spread_mu
from croupier.privacy.spread import Spread, _tails, find_spread, rounded

Floats = NDArray[np.float64]

# Coins, distance, labels and tail; near the end of the support too.
SETTINGS = [
    (2000, 90.0, 20, 1e-9),
    (2000, 150.3, 5150, 1e-16),
    (2000, 700.5, 230, 1e-8),
    (600, 60.2, 5, 1e-6),
    (500, 49.9, 5150, 1e-12),
    (2001, 860.0, 20, 1e-3),
    (100_000, 4000.3, 5150, 1e-15),
]


def spread_of(coins: int, distance: float, labels: int, tau: float) -> Spread:
    found = find_spread(coins, distance, labels, tau)
    assert found is not None
    return found


def splits(distance: float, labels: int, rng: np.random.Generator) -> list[Floats]:
    """Ways to share a distance: one label, several alike, one and all others, at random."""
    alike = (1, 2, 3, min(labels, 40), labels)
    shared = [(np.arange(labels) < number) / math.sqrt(number) for number in alike]
    for part in (0.5, 0.9, 0.99, 0.9999):
        rest = math.sqrt((1 - part**2) / (labels - 1))
        shared.append(np.append(part, np.full(labels - 1, rest)))
    for power in (1, 3, 8):
        values = np.abs(rng.standard_normal(labels)) ** power
        shared.append(values / np.linalg.norm(values))
    return [distance * values for values in shared]


def piece_of(spread: Spread, moved: float) -> int:
    """The last piece that a label may be in."""
    return int(np.flatnonzero(spread.high >= moved * (1 - 1e-12))[-1])


@pytest.mark.parametrize(("coins", "distance", "labels", "tau"), SETTINGS)
def test_all_tails_together_are_as_if_each_were_tau(
    coins: int, distance: float, labels: int, tau: float
) -> None:
    spread, rng = spread_of(coins, distance, labels, tau), np.random.default_rng(1)
    tails = _tails(spread.low / distance, labels, tau)
    for moves in splits(distance, labels, rng):
        kept = math.fsum(np.log1p(-tails[[piece_of(spread, float(move)) for move in moves]]))
        assert kept >= labels * math.log1p(-tau) * (1 + 1e-12)
    one = np.log1p(-tails[[0, *[piece_of(spread, 0.0)] * (labels - 1)]])
    assert math.fsum(one) < 0.5 * labels * math.log1p(-tau)


@pytest.mark.parametrize(("coins", "distance", "labels", "tau"), SETTINGS)
def test_no_split_of_the_way_has_a_larger_mu(
    coins: int, distance: float, labels: int, tau: float
) -> None:
    """Label by label, each with the certificate of its own move and tail."""
    spread, rng = spread_of(coins, distance, labels, tau), np.random.default_rng(2)
    known: dict[float, float] = {}
    largest = 0.0
    for moves in splits(distance, labels, rng):
        for move in set(np.round(moves, 9).tolist()) - set(known):
            known[move] = mu_of_label(coins, distance, labels, tau, move)
        squares = [known[move] ** 2 for move in np.round(moves, 9).tolist()]
        largest = max(largest, math.sqrt(math.fsum(squares)))
    assert 0.985 * spread.mu(labels) < largest <= spread.mu(labels)


def mu_of_label(coins: int, distance: float, labels: int, tau: float, move: float) -> float:
    """With the whole tail that a label of this move has, not that of the shortest of its piece."""
    if move <= 0:
        return 0.0
    tail = float(_tails(np.array([move / distance]), labels, tau)[0])
    return find_slope(coins, 0.5, math.ceil(move), tail).mu(move, 1)


# The last one is so near the end of the support that its longest moves need the general form.
@pytest.mark.parametrize(
    ("coins", "distance", "labels", "tau"), [*SETTINGS, (600, 222.05, 20, 1e-6)]
)
def test_every_piece_has_the_slope_of_its_longest_move_and_its_shortest_ones_tail(
    coins: int, distance: float, labels: int, tau: float
) -> None:
    spread = spread_of(coins, distance, labels, tau)
    tails = _tails(spread.low / distance, labels, tau)
    for one, high, tail in zip(spread.slopes, spread.high, tails, strict=True):
        assert one == find_slope(coins, 0.5, math.ceil(high), float(tail))
    assert any(math.ceil(high) > high for high in spread.high)


SLOPES = [
    (Slope(0.05, 0.002, 0.004), Slope(0.049, 0.003, 0.005), Slope(0.0485, 0.004, 0.006)),
    # Rounding that shows at moves of much less than a step.
    (Slope(1.0, 0.5, 3.0), Slope(0.9, 0.5, 3.0), Slope(0.5, 0.5, 3.0)),
]


@pytest.mark.parametrize("slopes", SLOPES)
def test_the_mu_of_a_spread_is_the_one_stated(slopes: tuple[Slope, ...]) -> None:
    """The least over all cuts, with the best move on every other piece searched for."""
    spread = Spread(np.array([7.0, 5.0, 0.0]), np.array([10.0, 7.0, 5.0]), slopes)
    for labels in (1, 30, 3000):
        found = []
        for far in (1, 2):
            pairs = zip(slopes[:far], spread.low[:far], strict=True)
            rate = max((one.slope + min(one.near, one.deviation / low)) ** 2 for one, low in pairs)
            beyond = 0.0
            for one, low, high in list(zip(slopes, spread.low, spread.high, strict=True))[far:]:
                moved = np.linspace(low, high, 200_001)
                mus = one.slope * moved + np.minimum(one.deviation, one.near * moved)
                beyond = max(beyond, float((mus**2 - rate * moved**2).max()))
            found.append(math.sqrt(rate * 10**2 + labels * beyond))
        assert spread.mu(labels) == pytest.approx(min(found), rel=1e-9, abs=0)
    assert spread.steepest == slopes[0].slope


def test_the_mu_of_a_spread_is_rounded_up() -> None:
    slopes = (Slope(1.0, 1e-300, 1.0),) * 3
    spread = Spread(np.array([7.0, 5.0, 0.0]), np.array([10.0, 7.0, 5.0]), slopes)
    assert 10 < spread.mu(20) < 10 * (1 + 1e-13)


def test_a_spread_needs_windows_inside_the_support() -> None:
    assert find_spread(2000, 900.0, 20, 1e-9) is None
    assert find_spread(2000, 90.0, 20, 0.2) is None
    # Beyond so many coins the general form is not asked.
    assert find_spread(25_000, 12_200.0, 20, 1e-4) is None
    for coins, distance in ((19_000, 9250.0), (2000, 927.0)):
        assert fast_slope(coins, math.ceil(distance), 0.8 * 20 * 1e-4) is None
        assert find_spread(coins, distance, 20, 1e-4) is not None


def test_a_label_that_moves_far_may_have_a_window_where_the_first_form_has_none() -> None:
    release, tau = CountRelease(2000, 0.5, 900.0, 230), 1e-7
    assert not release.fits(tau)
    assert release.plain(tau) == math.inf
    assert release.far_mu(tau) == spread_mu(2000, 900.0, 230, tau, math.inf) < 50
    assert release.mu(tau) == release.far_mu(tau)
    assert release.part(tau).mu == release.mu(tau)
    curve = BinomialCurve(((release, 1),))
    assert math.isinf(curve.simpler.epsilon(1e-4))
    assert 900 < curve.epsilon(1e-4) < 1500


def test_tails_are_rounded_down_a_little() -> None:
    for tau in (0.2, 3e-5, 1e-300):
        assert tau / 1.1893 < rounded(tau) <= tau
    assert rounded(0.25) == 0.25


def test_far_moves_are_certified_with_less_and_near_ones_as_before() -> None:
    far, near = (CountRelease(2000, 0.5, distance, 5150) for distance in (400.0, 85.0))
    tau = 1e-12
    assert far.mu(tau) < 0.99 * far.plain(tau)
    assert far.mu(tau) == pytest.approx(spread_mu(2000, 400.0, 5150, tau, far.plain(tau)))
    assert near.mu(tau) <= FAR
    short = BinomialCurve(((far, 1),)).simpler
    assert short.mu_at(1e-6) == far.plain(short.tau(1e-6))


def test_mu_grows_with_the_distance_across_the_level_where_moves_are_far() -> None:
    """Tails where the moves are never make a mu smaller than ``FAR``, so there is no jump."""
    distances = np.linspace(84.0, 96.0, 121)
    mus = [CountRelease(2000, 0.5, float(one), 5150).mu(1e-12) for one in distances]
    assert mus[0] < FAR < mus[-1]
    assert np.all(np.diff(mus) >= 0)
    assert np.diff(mus).max() < 0.05


def test_larger_tails_count_only_where_they_are_better() -> None:
    curve = BinomialCurve(((CountRelease(2000, 0.5, 600.0, 5150), 1),))
    delta = curve.delta(400.0)
    usual = curve._with_tails(curve.pace(delta).delta(400.0), curve.tau(delta))
    assert curve.bound(400.0, delta) <= delta < usual
    assert curve.holds(400.0, 2 * delta)
    near = BinomialCurve(((CountRelease(2000, 0.5, 40.0, 20), 1),))
    assert len(list(near._paces(1e-6))) == 1
    # Nothing is certified outside of the usual range either.
    assert BinomialCurve(((CountRelease(2000, 0.5, 1200.0, 20), 1),)).epsilon(1e-3) == math.inf
