from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp, kstest

from croupier.coins import SeededCoins
from croupier.layouts import LightOffset
from croupier.protocols.amplified_gaussian import AmplifiedGaussianRelease
from croupier.protocols.base import Floats
from croupier.shuffler import gather, shuffle

RARE = 1e-6
"""False-alarm rate of every test in this file, over all its coordinates."""

LAYOUT, USERS, RUNS = LightOffset(2), 4, 3000
RELEASE = AmplifiedGaussianRelease(LAYOUT, USERS, 0.7)


def users() -> Floats:
    return np.random.default_rng(0).uniform(LAYOUT.low, LAYOUT.high, (USERS, LAYOUT.size))


@cache
def real() -> Floats:
    coins = SeededCoins(1)
    return np.array([RELEASE.run(users(), coins) for _ in range(RUNS)])


def quick() -> Floats:
    many = np.broadcast_to(users(), (RUNS, USERS, LAYOUT.size))
    return RELEASE.sample_sum(many, np.random.default_rng(2))


@pytest.mark.parametrize("path", ["real", "quick"])
def test_both_paths_are_gaussian_around_the_sum(path: str) -> None:
    sums = real() if path == "real" else quick()
    scaled = (sums - users().sum(axis=0)) / RELEASE.noise_std
    for coordinate in scaled.T:
        assert kstest(coordinate, "norm").pvalue > RARE / (2 * LAYOUT.size)


def test_both_paths_have_the_same_law() -> None:
    for first, second in zip(real().T, quick().T, strict=True):
        assert ks_2samp(first, second).pvalue > RARE / LAYOUT.size


def test_a_tenth_more_noise_is_caught() -> None:
    scaled = 1.1 * (quick() - users().sum(axis=0)) / RELEASE.noise_std
    # Sum of squares of 24000 standard normals: 21 % more is 23 standard deviations.
    assert np.sum(scaled**2) > scaled.size + 10 * np.sqrt(2 * scaled.size)


def test_noise_is_independent_between_coordinates() -> None:
    for sums in (real(), quick()):
        correlation = np.asarray(np.corrcoef(sums.T))[np.triu_indices(LAYOUT.size, 1)]
        # 5.7 standard deviations for 56 pairs in all: 6.8e-7.
        assert np.abs(correlation).max() < 5.7 / np.sqrt(RUNS)


def test_places_of_a_user_are_uniform_and_independent_between_channels() -> None:
    faint = AmplifiedGaussianRelease(LAYOUT, USERS, 1e-6)
    rows = np.zeros((USERS, LAYOUT.size))
    rows[0] = 1.0
    coins, places = SeededCoins(3), np.zeros((USERS, USERS))
    for _ in range(RUNS):
        released = shuffle(gather([faint.randomize(row, coins) for row in rows]), coins)
        where = [int(np.argmax(released[name][:, 0])) for name in ("vector", "matrix")]
        places[where[0], where[1]] += 1
    assert chisquare(places.ravel()).pvalue > RARE


def first_numbers(rows: Floats, seed: int) -> list[float]:
    """The first released number of many batches."""
    coins, released = SeededCoins(seed), []
    for _ in range(RUNS // 2):
        sent = gather([RELEASE.randomize(row, coins) for row in rows])
        released.append(float(shuffle(sent, coins)["vector"][0, 0]))
    return released


def test_arrival_order_does_not_change_the_law_of_a_released_row() -> None:
    came, reverse = first_numbers(users(), 4), first_numbers(users()[::-1], 5)
    assert ks_2samp(came, reverse).pvalue > RARE
