"""The certificate of shuffled bits against an independent judge (MATH 4, PROOF 8 and 9).

Privacy-loss distributions of another library bracket what large counts really give away.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import reduce

import numpy as np
import pytest
from dp_accounting.pld import (  # type: ignore[import-untyped, unused-ignore]
    privacy_loss_distribution as pld,
)

from croupier.privacy import gdp
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve
from croupier.privacy.shuffled_bits.placements import PlacedCurve

from .counts import Floats, released

SENSITIVITY = math.sqrt(4.5)


def contribution(features: Floats, reward: float) -> Floats:
    """(phi y, diagonal and sqrt 2 times the upper triangle of phi phi'), MATH 2."""
    rows, columns = np.triu_indices(features.size, 1)
    above = math.sqrt(2) * features[rows] * features[columns]
    return np.concatenate((features * reward, features**2, above))


def worst_pair(dim: int) -> tuple[Floats, Floats]:
    """cos = -1/2 and reward 1 on both sides attain the sensitivity."""
    first, second = np.zeros(dim), np.zeros(dim)
    first[0], second[:2] = 1.0, (-0.5, math.sqrt(0.75))
    return contribution(first, 1.0), contribution(second, 1.0)


def random_pair(dim: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    features = rng.standard_normal((2, dim))
    first, second = features / np.linalg.norm(features, axis=1, keepdims=True)
    return contribution(first, 1.0), contribution(second, rng.random())


def spread_pair(dim: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The worst pair turned at random, so that every label moves."""
    turn, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    second = -0.5 * turn[0] + math.sqrt(0.75) * turn[1]
    return contribution(turn[0], 1.0), contribution(second, 1.0)


def half_steps(distance: float) -> tuple[Floats, Floats]:
    """From whole steps to half steps, or towards one, in as many labels as reach.

    There rounding changes the most.
    """
    labels = max(1, math.floor(4 * distance * distance))
    return np.ones(labels), np.full(labels, 1 + distance / math.sqrt(labels))


def true_delta(
    coins: int,
    steps: tuple[Floats, Floats],
    epsilon: float,
    *,
    pessimistic: bool,
    interval: float = 2e-4,
) -> float:
    """The library's bound on delta, from above or below, composed over labels."""
    losses = label_losses(coins, steps, pessimistic=pessimistic, interval=interval)
    return composed_delta([losses], epsilon)


def label_losses(
    coins: int,
    steps: tuple[Floats, Floats],
    *,
    pessimistic: bool = False,
    interval: float,
    times: int = 1,
) -> list[pld.PrivacyLossDistribution]:
    """The losses of all labels that differ, in so many releases."""
    pairs = Counter(zip(*(values.tolist() for values in steps), strict=True))
    return [
        _label_losses(coins, one, other, pessimistic, interval).self_compose(labels * times)
        for (one, other), labels in pairs.items()
        if one != other
    ]


def composed_delta(releases: Iterable[list[pld.PrivacyLossDistribution]], epsilon: float) -> float:
    parts = itertools.chain.from_iterable(releases)
    total = reduce(lambda one, other: one.compose(other), parts)
    return float(total.get_delta_for_epsilon(epsilon))


def _label_losses(
    coins: int, one: float, other: float, pessimistic: bool, interval: float
) -> pld.PrivacyLossDistribution:
    """The losses of one count; masses below 1e-30 are left out or counted as lost."""
    low = math.floor(min(one, other))
    room = math.ceil(max(one, other) - low) + 2
    lower, upper = (released(coins, 0.5, value - low, room) for value in (one, other))
    kept = np.flatnonzero((lower > 1e-30) & (upper > 1e-30))
    logs = [
        dict(zip(kept.tolist(), np.log(law[kept]).tolist(), strict=True)) for law in (lower, upper)
    ]
    return pld.from_two_probability_mass_functions(
        *logs, pessimistic_estimate=pessimistic, value_discretization_interval=interval
    )


def certified(coins: int, grid: float, labels: int) -> BinomialCurve:
    return BinomialCurve(((CountRelease(coins, 0.5, grid * SENSITIVITY, labels), 1),))


def needed_mu(delta: float, epsilon: float) -> float:
    """The mu of the Gaussian mechanism with that delta."""
    return gdp.mu_of(epsilon, delta)


def test_the_worst_pair_is_bracketed_as_published() -> None:
    steps = tuple(9 * (values + 1) for values in worst_pair(5))
    below, above = (
        true_delta(20 * 1021, (steps[0], steps[1]), 1.0, pessimistic=side) for side in (False, True)
    )
    assert 9.46e-6 <= below <= above <= 9.65e-6
    assert above <= certified(20 * 1021, 9, 20).delta(1.0) <= 1e-5


SETTINGS = [(20420, 9, 1.0), (1760, 9, 1.0), (7780, 9, 0.2), (2000, 9, 1.0), (6000, 20, 3.0)]


@pytest.mark.parametrize(("coins", "grid", "epsilon"), SETTINGS)
def test_the_certificate_is_above_the_true_delta_and_close_to_it(
    coins: int, grid: int, epsilon: float
) -> None:
    rng = np.random.default_rng(coins)
    curve = certified(coins, grid, 20)
    delta = curve.delta(epsilon)
    for first, second in (worst_pair(5), spread_pair(5, rng)):
        steps = grid * (first + 1), grid * (second + 1)
        below = true_delta(coins, steps, epsilon, pessimistic=False)
        assert below <= delta
        if coins >= 2000:
            assert needed_mu(delta, epsilon) <= 1.02 * needed_mu(below, epsilon)
    for first, second in (random_pair(5, rng) for _ in range(2)):
        steps = grid * (first + 1), grid * (second + 1)
        assert true_delta(coins, steps, epsilon, pessimistic=False) <= delta


Releases = Sequence[tuple[int, float, int]]
"""Coins, steps per unit, and how often."""


def worst_delta(coins: int, grid: float, dim: int, epsilon: float, times: int = 1) -> float:
    """The library's bound from below for the worse of two pairs, in so many releases."""
    return worst_delta_of([(coins, grid, times)], dim, epsilon)


def worst_delta_of(releases: Releases, dim: int, epsilon: float) -> float:
    """The same for releases that differ: with one kind of pair in all of them."""
    # Losses grow with the grid; narrower cells than that needs only take longer.
    interval = 1e-5 * min(1.0, *(grid for _, grid, _ in releases))
    return max(
        composed_delta(
            [
                label_losses(coins, steps(grid, dim), interval=interval, times=times)
                for coins, grid, times in releases
            ],
            epsilon,
        )
        for steps in (far_steps, wide_steps)
    )


def far_steps(grid: float, dim: int) -> tuple[Floats, Floats]:
    """The pair that attains the sensitivity."""
    first, second = worst_pair(dim)
    return grid * (first + 1), grid * (second + 1)


def wide_steps(grid: float, _: int) -> tuple[Floats, Floats]:
    """The pair that rounding changes the most."""
    return half_steps(grid * SENSITIVITY)


COARSE = [
    (2000, 0.003, 3e-5),
    (2000, 0.005, 0.002),
    (2000, 0.02, 0.004),
    (2000, 0.1, 0.001),
    (2000, 0.05, 0.0025),
    (2000, 0.1, 0.025),
    (2000, 0.1, 0.05),
    (2000, 0.25, 0.06),
    (2000, 0.5, 0.15),
    (2000, 1.0, 0.26),
    (2000, 1.0, 0.5),
    (2000, 2.0, 0.7),
    (2000, 4.0, 1.5),
    (6000, 2.0, 0.3),
    (20_000, 0.25, 0.025),
    # Deep tails on one of the coarsest grids.
    (2001, 0.086, 0.0548),
]


@pytest.mark.parametrize("dim", [5, 20])
@pytest.mark.parametrize(("coins", "grid", "epsilon"), COARSE)
def test_the_certificate_covers_coarse_grids(
    coins: int, grid: float, epsilon: float, dim: int
) -> None:
    delta = certified(coins, grid, dim + dim * (dim + 1) // 2).delta(epsilon)
    assert 0 < worst_delta(coins, grid, dim, epsilon) <= delta


def test_a_returning_user_is_covered_and_not_overcharged() -> None:
    coins, grid, times, epsilon = 80000, 9, 4, 1.0
    release = CountRelease(coins, 0.5, grid * SENSITIVITY, 20)
    curve = BinomialCurve(((release, times),))
    first, second = worst_pair(5)
    repeated = np.tile(grid * (first + 1), times), np.tile(grid * (second + 1), times)
    below = true_delta(coins, repeated, epsilon, pessimistic=False)
    delta = curve.delta(epsilon)
    assert below <= delta
    assert curve.mu_at(delta) <= 1.02 * needed_mu(below, epsilon)


RETURNING = [
    (2000, 0.01, 2, 1e-5),
    (2000, 0.01, 20, 1e-5),
    (2000, 0.1, 2, 1e-5),
    (2000, 0.1, 4, 1e-5),
    (2000, 0.1, 20, 1e-5),
    (2000, 0.25, 4, 1e-5),
    (2000, 0.25, 100, 1e-5),
    (2000, 0.5, 4, 1e-5),
    (2000, 1.0, 4, 1e-5),
    (2000, 1.0, 20, 1e-5),
    (2000, 2.0, 4, 1e-5),
    (2600, 0.7, 20, 1e-5),
    (13_000, 1.59, 20, 1e-5),
    (20_000, 0.25, 10, 1e-5),
    # Tests near the median.
    (2000, 0.03, 2, 1e-3),
    (2000, 0.03, 20, 1e-3),
    (2000, 0.005, 4, 1e-4),
    (2000, 0.005, 4, 1e-5),
    # Tests that hardly move.
    (2000, 0.0003, 2, 1e-6),
    # Deep tails.
    (2000, 0.03, 10, 1e-12),
    (2000, 0.3, 2, 1e-12),
    (2000, 2.5, 100, 1e-12),
    # Deeper than any count's own window.
    (2000, 12.7, 10, 1e-12),
    (2000, 17.3, 2, 1e-12),
    # Once, and far enough to see the slope rise.
    (2000, 35.0, 1, 1e-8),
]


@pytest.mark.parametrize("dim", [5])
@pytest.mark.parametrize(("coins", "grid", "times", "near"), RETURNING)
def test_a_returning_user_is_covered_on_coarse_grids(
    coins: int, grid: float, times: int, near: float, dim: int
) -> None:
    """Near this delta, whatever epsilon that is."""
    distance = grid * SENSITIVITY
    epsilon = gdp.epsilon_of(2 * distance * math.sqrt(times / coins), near)
    labels = dim + dim * (dim + 1) // 2
    curve = BinomialCurve(((CountRelease(coins, 0.5, distance, labels), times),))
    delta = curve.delta(epsilon)
    assert 0 < worst_delta(coins, grid, dim, epsilon, times) <= delta


# Batches that differ in coins and in grids, so that none is the worst at every epsilon.
MIXED = [
    ([(2500, 0.0213, 2), (2000, 0.0245, 1), (2500, 0.0197, 1), (2000, 0.019, 1)], 20, 1e-5),
    ([(2500, 0.0465, 5), (2000, 0.0447, 1), (2000, 0.0543, 2), (4000, 0.0564, 1)], 10, 1e-12),
    ([(2000, 0.3, 20), (9000, 0.5, 20)], 5, 1e-5),
    ([(2000, 0.25, 4), (6000, 3.0, 1)], 5, 1e-6),
    ([(2000 + 150 * number, 0.1 + 0.03 * number, 1) for number in range(8)], 10, 1e-5),
    ([(2000, 3.0, 2), (3000, 5.0, 1), (2500, 1.0, 4)], 20, 1e-9),
]


@pytest.mark.parametrize(("releases", "dim", "near"), MIXED)
def test_releases_that_differ_are_covered(releases: Releases, dim: int, near: float) -> None:
    assert_covered(releases, [times for *_, times in releases], dim, near)


# Batches, the last of which may come again and again; and how often each does at worst.
PLACED = [
    ([(4000, 0.1191), (2000, 0.107), (2000, 0.1397), (9000, 0.3135)], [0, 0, 0, 3], 10, 1e-9),
    ([(2500, 0.0271), (9000, 0.0481), (2000, 0.0182), (9000, 0.0615)], [0, 0, 0, 3], 10, 1e-7),
    ([(2000, 1.0), (9000, 2.2), (4000, 1.5)], [0, 0, 2], 5, 1e-5),
    # Of two that are about as long, one is wider.
    ([(9000, 0.0397), (2500, 0.0209), (2000, 0.0117)], [1, 1, 0], 10, 1e-9),
    ([(4000, 0.0215), (2001, 0.0187), (30_000, 0.0725)], [0, 1, 4], 10, 1e-4),
]


@pytest.mark.parametrize(("batches", "times", "dim", "near"), PLACED)
def test_a_user_in_any_of_batches_that_differ_is_covered(
    batches: Sequence[tuple[int, float]], times: list[int], dim: int, near: float
) -> None:
    assert_covered([(*batch, 1) for batch in batches], times, dim, near)


def assert_covered(releases: Releases, taken: list[int], dim: int, near: float) -> None:
    """Not below the truth, near this delta.

    The truth is that of a user who is in each release as often as ``taken`` says.
    """
    labels = dim + dim * (dim + 1) // 2
    counts = tuple(
        (CountRelease(coins, 0.5, grid * SENSITIVITY, labels), times)
        for coins, grid, times in releases
    )
    pairs = zip(releases, taken, strict=True)
    worst = [(coins, grid, times) for (coins, grid, _), times in pairs if times]
    mu = math.sqrt(
        sum(4 * times * (grid * SENSITIVITY) ** 2 / coins for coins, grid, times in worst)
    )
    epsilon, every = gdp.epsilon_of(mu, near), [times for *_, times in releases]
    curve = BinomialCurve(counts) if taken == every else PlacedCurve(counts, sum(taken))
    assert 0 < worst_delta_of(worst, dim, epsilon) <= curve.delta(epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [2, 5, 10])
@pytest.mark.parametrize(("coins", "grid"), [(3000, 5), (30000, 12), (200000, 40)])
def test_many_more_pairs_are_covered(dim: int, coins: int, grid: int) -> None:
    rng = np.random.default_rng(dim * coins)
    curve = certified(coins, grid, dim + dim * (dim + 1) // 2)
    pairs = [worst_pair(dim), spread_pair(dim, rng), *(random_pair(dim, rng) for _ in range(4))]
    for (first, second), epsilon in itertools.product(pairs, (0.5, 1.5)):
        steps = grid * (first + 1), grid * (second + 1)
        below = true_delta(coins, steps, epsilon, pessimistic=False)
        assert below <= curve.delta(epsilon)
