from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, chi2, chisquare, kstest, norm

from croupier.simulation import report_statistics as statistics

# Chances of honest samples are uniform or larger; every test of that has a fixed seed, and would
# fail for one seed in a thousand.
HONEST = 1e-3


def normals(reports: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((reports, columns))


def too_small(chances: list[float]) -> float:
    """The chance that chances which are uniform or larger come out as small as these."""
    return float(kstest(chances, "uniform", alternative="greater").pvalue)


def test_the_worst_of_a_family_counts_as_often_as_there_are_members() -> None:
    assert statistics.worst(np.array([0.5, 0.01, 0.2])) == pytest.approx((0.03, 1))
    assert statistics.worst(np.array([0.9, 0.8])) == (1.0, 1)


def test_chi_square_is_pearsons() -> None:
    seen, chances = np.array([30, 50, 20]), np.array([0.25, 0.5, 0.25])
    assert statistics.chi_square(seen, chances) == pytest.approx(
        chisquare(seen, 100 * chances).pvalue
    )


def test_cells_are_merged_until_ten_are_expected() -> None:
    seen = np.array([3, 6, 20, 4, 7, 8, 2])
    chances = np.array([4, 6, 15, 10, 9, 3, 3]) / 50
    merged = chisquare([9, 20, 4, 17], [10, 15, 10, 15])
    assert statistics.chi_square(seen, chances) == pytest.approx(merged.pvalue)
    assert statistics.chi_square(np.array([4, 5]), np.array([0.5, 0.5])) == 1.0


def test_what_is_left_over_goes_to_the_last_cell() -> None:
    seen, chances = np.array([8, 25, 7]), np.array([0.25, 0.7, 0.05])
    assert statistics.chi_square(seen, chances) == pytest.approx(
        chisquare([8, 32], [10, 30]).pvalue
    )


def test_what_cannot_be_has_no_chance_and_what_is_rare_has_its_own() -> None:
    chances = np.array([0.0, 0.989, 0.01, 0.001])
    assert statistics.rarest(np.array([1, 9, 0, 0]), chances) == 0.0
    assert statistics.rarest(np.array([0, 9, 0, 1]), chances) == pytest.approx(0.01)
    assert statistics.rarest(np.array([0, 9, 1, 0]), chances) == pytest.approx(0.11)
    assert statistics.rarest(np.array([0, 10, 0, 0]), chances) == 1.0


def test_a_fit_is_the_worst_of_all_cells() -> None:
    even = (np.array([50, 50]), np.array([0.5, 0.5]))
    uneven = (np.array([70, 30]), np.array([0.5, 0.5]))
    wanted = 4 * chisquare([70, 30]).pvalue
    assert statistics.fit([even, uneven]) == pytest.approx(wanted)
    assert statistics.fit([uneven, even]) == pytest.approx(wanted)


def test_scores_have_two_tails() -> None:
    assert statistics.two_sided(np.array([-2.0, 0.0, 2.0])) == pytest.approx(
        [2 * norm.sf(2), 1, 2 * norm.sf(2)]
    )


def test_mean_scores_are_standard_normal() -> None:
    scores = statistics.mean_scores(normals(400, 2000))
    assert kstest(scores, "norm").pvalue > HONEST
    assert statistics.mean_scores(np.ones((9, 1))) == pytest.approx([3])


def test_a_pair_that_agrees_is_found() -> None:
    numbers = normals(200, 6)
    numbers[:, 4] = 0.6 * numbers[:, 1] + 0.8 * numbers[:, 4]
    chance, pair = statistics.pairs(numbers)
    score = numbers[:, 1] @ numbers[:, 4] / math.sqrt(200)
    assert pair == (1, 4)
    assert chance == pytest.approx(15 * 2 * norm.sf(score))
    numbers[:, 4] *= -1
    again, pair = statistics.pairs(numbers)
    assert (again, *pair) == pytest.approx((chance, 1, 4))


def test_one_column_has_no_pairs() -> None:
    assert statistics.pairs(normals(10, 1)) == (1.0, (0, 0))


def test_pairs_of_honest_reports_are_as_unlikely_as_they_say() -> None:
    chances = [statistics.pairs(normals(300, 5, seed))[0] for seed in range(200)]
    assert sum(chance < 0.1 for chance in chances) <= binom.ppf(1 - HONEST, 200, 0.1)
    assert sum(chance < 0.1 for chance in chances) >= binom.ppf(HONEST, 200, 0.05)


@pytest.mark.parametrize("columns", [1, 4])
def test_sums_and_spreads_of_coins_are_as_unlikely_as_they_say(columns: int) -> None:
    """Bin(3, 1/2) standardised: its excess is -2/3."""
    rng = np.random.default_rng(4)
    draws = (rng.binomial(3, 0.5, (300, 400, columns)) - 1.5) / math.sqrt(0.75)
    excess, skewness = np.full(columns, -2 / 3), np.resize([1.0, -1.0], columns)
    spreads = [statistics.spread(numbers, excess) for numbers in draws]
    assert kstest(spreads, "uniform").pvalue > HONEST
    sums = [statistics.together(numbers, excess, skewness) for numbers in draws]
    assert too_small(sums) > HONEST
    assert sum(chance < 0.1 for chance in sums) >= binom.ppf(HONEST, 300, 0.05)


def test_sums_find_what_no_pair_shows() -> None:
    common = normals(400, 1, seed=1)
    numbers = math.sqrt(0.98) * normals(400, 60) + math.sqrt(0.02) * common
    flat = np.zeros(60)
    assert statistics.pairs(numbers)[0] > 0.01
    assert statistics.together(numbers, flat, flat) < 1e-9
    signs = np.resize([1.0, -1.0], 60)
    assert statistics.together(numbers * signs, flat, flat) > 0.01
    assert statistics.together(numbers * signs, flat, signs) < 1e-9


def test_a_spread_is_a_chi_square_of_normals() -> None:
    numbers = 1.1 * normals(100, 3)
    square = float(np.sum(numbers**2))
    assert statistics.spread(numbers, np.zeros(3)) == pytest.approx(2 * chi2.sf(square, 300))
    assert statistics.spread(numbers / 1.4, np.zeros(3)) == pytest.approx(
        2 * chi2.cdf(square / 1.96, 300)
    )


def test_fair_coins_have_no_spread_to_test() -> None:
    coins = np.where(normals(100, 3) > 0, 1.0, -1.0)
    assert statistics.spread(coins, np.full(3, -2.0)) > 0.9


def test_reports_that_follow_each_other_are_compared() -> None:
    numbers = normals(200, 3)
    numbers[1:, 2] = 0.6 * numbers[:-1, 2] + 0.8 * numbers[1:, 2]
    chance, where = statistics.successors(numbers)
    score = numbers[1:, 2] @ numbers[:-1, 2] / math.sqrt(199)
    assert where == 2
    assert chance == pytest.approx(4 * 2 * norm.sf(score))


def test_successors_of_many_columns_add_up() -> None:
    numbers = normals(200, 100)
    numbers[1::2] = 0.2 * numbers[::2] + math.sqrt(0.96) * numbers[1::2]
    chance, where = statistics.successors(numbers)
    products = (numbers[1:] * numbers[:-1]).sum() / math.sqrt(199 * 100)
    assert where == 100
    assert chance == pytest.approx(101 * 2 * norm.sf(products))


def test_equal_reports_are_counted_in_pairs() -> None:
    values, same = np.array([[1, 2], [3, 4], [1, 2], [1, 2], [3, 4]]), np.array([0.01, 0.02])
    assert statistics.repeats(values, same) == pytest.approx(10 * 0.0002 / 4)
    assert statistics.repeats(values[:2], same) == 1.0
    assert statistics.repeats(values, np.array([1.0, 1.0])) == 1.0
