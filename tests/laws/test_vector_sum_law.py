from __future__ import annotations

from functools import cache, reduce

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, chi2, chi2_contingency, chisquare

from croupier.coins import SeededCoins
from croupier.layouts import LightOffset
from croupier.protocols.base import Floats
from croupier.protocols.vector_release import VectorSumRelease
from croupier.shuffler import gather, shuffle

RARE = 1e-6
"""False-alarm rate of every test in this file, over all its labels."""

LAYOUT, USERS, RUNS = LightOffset(2), 5, 1500
BIASES = pytest.mark.parametrize("bias", [0.25, 0.5])
Counts = NDArray[np.int64]


def data(name: str) -> Floats:
    """Contributions ``(users, size)``."""
    rng = np.random.default_rng(3)
    span = LAYOUT.high - LAYOUT.low
    if name == "random":
        return rng.uniform(LAYOUT.low, LAYOUT.high, (USERS, LAYOUT.size))
    if name == "halves":
        return np.tile(LAYOUT.low + span * 0.5 + 0.01, (USERS, 1))
    return np.where(rng.random((USERS, 1)) < 0.5, LAYOUT.low, LAYOUT.high)


DATA = pytest.mark.parametrize("name", ["random", "halves", "ends"])


def release(bias: float) -> VectorSumRelease:
    return VectorSumRelease(LAYOUT, USERS, 3.3125, 4, bias)


def counts_of(made: VectorSumRelease, sums: Floats) -> Counts:
    """The counts that were de-biased."""
    ones = (sums - made.users * LAYOUT.low) * made.grid + made.coins * made.bias
    return np.rint(ones).astype(np.int64)


@cache
def real_sums(bias: float, name: str) -> Floats:
    """Sums ``(runs, size)`` by randomize, shuffle and analyze."""
    made, rows, coins = release(bias), data(name), SeededCoins(1)
    return np.array([made.run(rows, coins) for _ in range(RUNS)])


def real_counts(bias: float, name: str) -> Counts:
    return counts_of(release(bias), real_sums(bias, name))


def quick_counts(made: VectorSumRelease, rows: Floats, seed: int, runs: int = RUNS) -> Counts:
    many = np.broadcast_to(rows, (runs, *rows.shape))
    return counts_of(made, made.sample_sum(many, np.random.default_rng(seed)))


def law(made: VectorSumRelease, values: Floats) -> Floats:
    """Exact chances of a label's count: Bernoulli roundings and one binomial (MATH 4)."""
    steps = made.grid * values
    coins = [np.array([1 - left, left]) for left in steps - np.floor(steps)]
    noise = binom.pmf(np.arange(made.coins + 1), made.coins, made.bias)
    chances = reduce(np.convolve, coins, noise)
    return np.concatenate([np.zeros(int(np.floor(steps).sum())), chances])


def fit(counts: Counts, chances: Floats) -> float:
    """p-value of the counts under the chances, rare counts pooled in two tails."""
    seen = np.bincount(counts, minlength=chances.size).astype(float)
    assert seen.size == chances.size
    assert seen[chances < 1e-13].sum() == 0
    expected = chances / chances.sum() * seen.sum()
    common = np.flatnonzero(expected >= 8)
    edges = [0, *range(common[0] + 1, common[-1] + 1)]
    return float(chisquare(np.add.reduceat(seen, edges), np.add.reduceat(expected, edges)).pvalue)


@BIASES
@DATA
def test_bits_and_counts_both_have_the_exact_law(bias: float, name: str) -> None:
    made, rows = release(bias), data(name)
    shifted = np.clip(rows - LAYOUT.low, 0, None)
    for counts in (real_counts(bias, name), quick_counts(made, rows, 2, 20 * RUNS)):
        for label in range(LAYOUT.size):
            chances = law(made, shifted[:, label])
            assert fit(counts[:, label], chances) > RARE / (2 * LAYOUT.size)


@BIASES
def test_bits_and_counts_have_the_same_law(bias: float) -> None:
    made, rows = release(bias), data("random")
    real, quick = real_counts(bias, "random"), quick_counts(made, rows, 4)
    for label in range(LAYOUT.size):
        both = np.concatenate([real[:, label], quick[:, label]])
        cuts = np.unique(np.quantile(both, [0.1, 0.3, 0.5, 0.7, 0.9]))
        table = [
            np.bincount(np.digitize(side[:, label], cuts), minlength=cuts.size + 1)
            for side in (real, quick)
        ]
        kept = np.array(table)[:, np.sum(table, axis=0) > 0]
        assert chi2_contingency(kept).pvalue > RARE / LAYOUT.size


def test_a_shortcut_with_one_noise_bit_less_is_caught() -> None:
    made, rows = release(0.5), data("ends")
    fewer = VectorSumRelease(LAYOUT, USERS, 3.3125, 3, 0.5)
    counts = quick_counts(fewer, rows, 5, 20 * RUNS) + (made.coins - fewer.coins) // 2
    shifted = rows - LAYOUT.low
    assert fit(counts[:, 0], law(made, shifted[:, 0])) < RARE


@BIASES
@DATA
def test_analyzer_is_unbiased(bias: float, name: str) -> None:
    made, rows = release(bias), data(name)
    error = (real_sums(bias, name).mean(axis=0) - rows.sum(axis=0)) * np.sqrt(RUNS) / made.noise_std
    # 5.5 standard deviations for 8 labels: 3e-7.
    assert np.abs(error).max() < 5.5
    # The shift of one user instead of all would be seen in every label that has one.
    wrong = (USERS - 1) * np.abs(LAYOUT.low) * np.sqrt(RUNS) / made.noise_std
    assert np.all(wrong[LAYOUT.low != 0] > 20)


def test_noise_is_independent_between_labels() -> None:
    made, rows = release(0.5), data("halves")
    for counts in (real_counts(0.5, "halves"), quick_counts(made, rows, 8)):
        correlation = np.asarray(np.corrcoef(counts.T))[np.triu_indices(LAYOUT.size, 1)]
        # 5.7 standard deviations for 56 pairs in all: 6.8e-7.
        assert np.abs(correlation).max() < 5.7 / np.sqrt(RUNS)


def test_where_the_ones_are_says_nothing() -> None:
    made, coins, shuffles = release(0.5), SeededCoins(9), 3000
    messages = gather([made.randomize(row, coins) for row in data("random")])
    places = np.zeros(len(messages["u0"]))
    for _ in range(shuffles):
        places += shuffle(messages, coins)["u0"][:, 0]
    count = places.size
    chance = np.count_nonzero(messages["u0"]) / count
    assert 0 < chance < 1
    # Ones are drawn without replacement, which shrinks their spread by (count - 1) / count.
    spread = shuffles * chance * (1 - chance) * count / (count - 1)
    statistic = float(np.sum((places - shuffles * chance) ** 2) / spread)
    assert chi2.sf(statistic, count - 1) > RARE


def test_without_a_shuffle_the_ones_do_tell() -> None:
    made, coins = release(0.5), SeededCoins(10)
    bits = made.randomize(LAYOUT.high, coins)["u0"][:, 0]
    assert np.all(np.diff(bits.astype(int)) <= 0)
