"""Inputs and batches that are chosen by earlier answers, against exact sums (PROOF 5)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve
from croupier.privacy.shuffled_bits.placements import PlacedCurve

from .counts import Floats, released


def adaptive_delta(menus: list[list[tuple[Floats, Floats]]], epsilon: float) -> float:
    """The exact delta of two releases of one count, the second pair chosen by what the first said.

    ``menus`` has, for each release, the pairs of laws to choose from.
    """
    ways = []
    for first, other in menus[0]:
        growth = np.exp(epsilon) * other / first
        later = [
            np.maximum(second - growth[:, None] * last, 0.0).sum(axis=1)
            for second, last in menus[1]
        ]
        ways.append(float(first @ np.max(later, axis=0)))
    return max(ways)


def menu(coins: int, distance: float) -> list[tuple[Floats, Floats]]:
    """Wider and narrower, up and down, from a whole step, a half one, and in between."""
    starts = (2.0, 2.5, 2.25, 3.0 - distance / 2)
    pairs = [(start, start + sign * distance) for start in starts for sign in (-1, 1)]
    laws = [tuple(released(coins, 0.5, value, 6) + 1e-300 for value in pair) for pair in pairs]
    return [pair for one, other in laws for pair in ((one, other), (other, one))]


@pytest.mark.parametrize("coins", [500, 700])
@pytest.mark.parametrize("distance", [0.2, 0.5, 1.0, 1.5])
def test_no_second_input_chosen_by_the_first_answer_is_above_the_bound(
    coins: int, distance: float
) -> None:
    curve = BinomialCurve(((CountRelease(coins, 0.5, distance, 1), 2),))
    mu = 2 * distance * math.sqrt(2 / coins)
    pairs = menu(coins, distance)
    ratios = []
    for level in (0.5, 1.0, 2.0, 3.0, 4.0):
        epsilon = mu * level
        exact = adaptive_delta([pairs, pairs], epsilon)
        ratios.append(exact / curve.delta(epsilon))
    assert 0.7 < max(ratios) <= 1 + 1e-9


@pytest.mark.parametrize(
    "kinds", list(itertools.permutations(((500, 0.8), (900, 1.08), (700, 0.94)), 2))
)
def test_no_second_input_is_above_the_bound_of_batches_that_differ(
    kinds: tuple[tuple[int, float], ...],
) -> None:
    releases = tuple((CountRelease(coins, 0.5, distance, 1), 1) for coins, distance in kinds)
    mu = math.hypot(*(2 * distance / math.sqrt(coins) for coins, distance in kinds))
    menus = [menu(coins, distance) for coins, distance in kinds]
    curve = BinomialCurve(releases)
    epsilons = [mu * level for level in (1.0, 2.0, 3.0)]
    ratios = [adaptive_delta(menus, epsilon) / curve.delta(epsilon) for epsilon in epsilons]
    assert 0.6 < max(ratios) <= 1 + 1e-9


@pytest.mark.parametrize(
    "kinds", list(itertools.permutations(((500, 0.8), (900, 1.08), (700, 1.2))))
)
def test_no_second_batch_chosen_by_the_first_answer_is_above_the_bound(
    kinds: tuple[tuple[int, float], ...],
) -> None:
    """A user in two of three batches, the last of which may come again."""
    releases = tuple((CountRelease(coins, 0.5, distance, 1), 1) for coins, distance in kinds)
    curve, menus = PlacedCurve(releases, 2), [menu(*kind) for kind in kinds]
    mu = math.sqrt(2) * max(2 * distance / math.sqrt(coins) for coins, distance in kinds)
    ratios = [
        adaptive_delta([first, [pair for later in menus[place:] for pair in later]], mu * level)
        / curve.delta(mu * level)
        for first, place in zip(menus, (1, 2, 2), strict=True)
        for level in (1.0, 2.0, 3.0)
    ]
    assert 0.6 < max(ratios) <= 1 + 1e-9
