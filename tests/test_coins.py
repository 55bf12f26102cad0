from __future__ import annotations

import itertools
import sys
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, chisquare, kstest, norm

from croupier.coins import Coins, SeededCoins, SystemCoins
from croupier.errors import MissingExtraError

RARE = 1e-6
"""False-alarm rate of each test here that uses a fixed seed; with system coins too."""


class TiedFirst(SeededCoins):
    """Coins whose first words are all equal."""

    def __init__(self) -> None:
        super().__init__(0)
        self.asked = 0

    def token(self, count: int) -> bytes:
        self.asked += 1
        return bytes(count) if self.asked == 1 else super().token(count)


@pytest.mark.parametrize("coins", [SeededCoins(1), SystemCoins()], ids=["seeded", "system"])
def test_all_orders_of_four_are_equally_likely(coins: Coins) -> None:
    seen = Counter(tuple(coins.permutation(4).tolist()) for _ in range(12_000))
    counts = [seen[order] for order in itertools.permutations(range(4))]
    assert sum(counts) == 12_000
    assert chisquare(counts).pvalue > RARE


def test_equal_keys_are_drawn_again() -> None:
    coins = TiedFirst()
    assert sorted(coins.permutation(5).tolist()) == [0, 1, 2, 3, 4]
    assert coins.asked == 2


def test_a_permutation_of_nothing_is_empty() -> None:
    assert SeededCoins(0).permutation(0).size == 0


@pytest.mark.parametrize("count", [0, 1, 3, 8, 13, 64, 1000])
def test_bits_stay_below_their_power(count: int) -> None:
    coins = SeededCoins(2)
    draws = [coins.bits(count) for _ in range(200)]
    assert all(0 <= draw < 2**count for draw in draws)
    # The highest bit is missing in all 200 draws with probability 2^-200.
    assert count == 0 or max(draws).bit_length() == count


def test_every_bit_is_fair_on_its_own() -> None:
    coins, runs, width = SeededCoins(3), 10_000, 13
    ones = np.zeros(width)
    for _ in range(runs):
        draw = coins.bits(width)
        ones += [draw >> place & 1 for place in range(width)]
    statistic = float(np.sum((ones - runs / 2) ** 2 / (runs / 4)))
    assert chi2.sf(statistic, width) > RARE


def test_popcounts_of_bits_are_binomial() -> None:
    coins = SeededCoins(4)
    counts = np.bincount([coins.bits(3).bit_count() for _ in range(16_000)], minlength=4)
    assert chisquare(counts, [2000, 6000, 6000, 2000]).pvalue > RARE


def test_below_is_certain_at_both_ends() -> None:
    coins = SeededCoins(5)
    ends = np.array([0, 2**53], dtype=np.uint64)
    draws = np.array([coins.below(ends, 53) for _ in range(1000)])
    assert not draws[:, 0].any()
    assert draws[:, 1].all()


def test_below_at_power_one_is_a_coin_of_one_bit() -> None:
    draws = SeededCoins(6).below(np.ones(10_000, dtype=np.uint64), 1)
    # Six standard deviations: 2e-9.
    assert abs(draws.mean() - 0.5) < 6 * 0.5 / 100


def test_below_has_the_asked_probability() -> None:
    chances = np.array([0.1, 0.25, 0.9])
    numerators = (chances * 2.0**53).astype(np.uint64)
    draws = SeededCoins(7).below(np.tile(numerators, (10_000, 1)), 53)
    spread = np.sqrt(chances * (1 - chances)) / 100
    # Six standard deviations for three numbers: 6e-9.
    assert np.all(np.abs(draws.mean(axis=0) - chances) < 6 * spread)


def test_normals_are_normal() -> None:
    draws = SeededCoins(8).normal(20_000)
    assert kstest(draws, "norm").pvalue > RARE
    assert np.all(np.isfinite(draws))


class Extreme(Coins):
    """All bytes the same."""

    def __init__(self, byte: int) -> None:
        self.byte = byte

    def token(self, count: int) -> bytes:
        return bytes([self.byte]) * count

    def discrete_gaussian(self, scale: float, count: int) -> NDArray[np.int64]:
        raise NotImplementedError


def test_the_most_extreme_normals_are_finite_and_opposite() -> None:
    low, high = Extreme(0).normal(1)[0], Extreme(255).normal(1)[0]
    assert -9 < low < -8
    assert high == pytest.approx(-low)


def test_seeded_coins_repeat_and_seeds_differ() -> None:
    assert SeededCoins(9).token(32) == SeededCoins(9).token(32)
    assert SeededCoins(9).token(32) != SeededCoins(10).token(32)
    sequence = np.random.SeedSequence(9)
    assert SeededCoins(sequence).token(32) == SeededCoins(9).token(32)


def test_system_coins_never_repeat() -> None:
    # Equal with probability 2^-256.
    assert SystemCoins().token(32) != SystemCoins().token(32)


def test_system_coins_cannot_be_seeded() -> None:
    with pytest.raises(TypeError):
        SystemCoins(1)  # type: ignore[call-arg]


def test_every_byte_counts_equally_in_a_few_bits() -> None:
    seen = Counter(Extreme(byte).bits(3) for byte in range(256))
    assert seen == dict.fromkeys(range(8), 32)


@pytest.mark.parametrize("coins", [SeededCoins(11), SystemCoins()], ids=["seeded", "system"])
def test_discrete_gaussians_are_whole_and_normal(coins: Coins) -> None:
    scale = 0.7 * 2.0**40
    draws = coins.discrete_gaussian(scale, 10_000)
    assert draws.dtype == np.int64
    assert kstest(draws / scale, "norm").pvalue > RARE


def test_the_systems_discrete_gaussian_has_its_law_on_a_coarse_grid_too() -> None:
    # At scale 1 the rounded normal's middle has 0.383, the discrete Gaussian's 0.399.
    draws, count = SystemCoins().discrete_gaussian(1.0, 20_000), 20_000
    chances = np.exp(-(np.arange(-12, 13) ** 2) / 2)
    chances /= chances.sum()
    expected = count * np.array([chances[:10].sum(), *chances[10:15], chances[15:].sum()])
    seen = np.bincount(np.clip(draws, -3, 3) + 3, minlength=7).astype(float)
    assert chisquare(seen, expected).pvalue > RARE
    rounded = count * np.diff(norm.cdf([-np.inf, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, np.inf]))
    assert chisquare(seen, rounded).statistic > chisquare(seen, expected).statistic


def test_seeded_discrete_gaussians_repeat() -> None:
    first, second = (SeededCoins(12).discrete_gaussian(1e9, 5).tolist() for _ in range(2))
    assert first == second


def test_without_the_sampler_a_device_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'croupier\[exact\]'"):
        SystemCoins().discrete_gaussian(12345.678, 1)
