from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare, kurtosis, norm, skew

from croupier.simulation.report_law import CLASSES, LOW_DIGITS, CountLaw, GaussianLaw

LAWS = [
    CountLaw(3, 0.25, 0, 0.5),
    CountLaw(0, 0.0, 7, 0.25),
    CountLaw(2, 0.7, 1, 0.5),
    CountLaw(5, 0.5, 40, 0.5),
    CountLaw(0, 0.125, 13, 0.25),
]


def exactly(law: CountLaw) -> dict[int, Fraction]:
    """The law by adding up all outcomes in fractions."""
    left, bias = Fraction(law.left), Fraction(law.bias)
    found: dict[int, Fraction] = {}
    for up, chance in ((0, 1 - left), (1, left)):
        for heads in range(law.coins + 1):
            ways = math.comb(law.coins, heads) * bias**heads * (1 - bias) ** (law.coins - heads)
            count = law.floor + up + heads
            found[count] = found.get(count, Fraction(0)) + chance * ways
    return found


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_chances_are_those_of_all_outcomes(law: CountLaw) -> None:
    first, chances = law.chances
    wanted = exactly(law)
    assert first == min(wanted)
    assert chances == pytest.approx([float(wanted[key]) for key in sorted(wanted)], abs=1e-13)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_moments_are_those_of_the_chances(law: CountLaw) -> None:
    first, chances = law.chances
    counts = first + np.arange(chances.size)
    mean = chances @ counts
    moments = [chances @ (counts - mean) ** power for power in (2, 3, 4)]
    assert law.mean == pytest.approx(mean)
    assert law.variance == pytest.approx(moments[0])
    assert law.skewness == pytest.approx(moments[1] / moments[0] ** 1.5)
    assert law.excess == pytest.approx(moments[2] / moments[0] ** 2 - 3)
    assert law.same == pytest.approx(chances @ chances)


def test_a_count_that_does_not_vary_has_no_shape() -> None:
    law = CountLaw(4, 0.0, 0, 0.5)
    assert (law.mean, law.variance, law.skewness, law.excess, law.same) == (4, 0, 0, 0, 1)


@pytest.mark.parametrize("bias", [0.25, 0.5])
def test_many_coins_have_the_chances_of_a_normal_and_next_to_nothing_is_left_out(
    bias: float,
) -> None:
    law = CountLaw(0, 0.0, 10**6, bias)
    first, chances = law.chances
    assert chances.sum() == pytest.approx(1, abs=1e-8)
    std = math.sqrt(law.variance)
    assert first == math.floor(law.mean - 14 * std - 1)
    assert first + chances.size - 1 == math.ceil(law.mean + 14 * std + 1) + 1
    assert chances.max() == pytest.approx(1 / (std * math.sqrt(2 * math.pi)), rel=1e-5)


def test_cells_count_what_was_seen_and_what_cannot_be() -> None:
    ((seen, chances),) = CountLaw(3, 0.25, 1, 0.5).cells(np.array([3, 3, 5, 4, 2, -1, 6, 100]))
    assert seen.tolist() == [2, 2, 1, 1, 2]
    assert chances == pytest.approx([0, 0.375, 0.5, 0.125, 0])


def test_gaussian_cells_are_equally_likely_and_around_the_data() -> None:
    scale, centre = 2.0**38, 7 * 2**41 + 5
    law = GaussianLaw(centre, scale)
    noise = np.rint(scale * np.random.default_rng(1).standard_normal(50_000)).astype(np.int64)
    ranges, digits = law.cells(centre + noise)
    assert ranges[1].tolist() == [1 / CLASSES] * CLASSES
    assert digits[1].tolist() == [1 / LOW_DIGITS] * LOW_DIGITS
    # Fixed seed; each is below 0.01 for one seed in a hundred.
    assert chisquare(ranges[0]).pvalue > 0.01
    assert chisquare(digits[0]).pvalue > 0.01
    edge = norm.ppf(3 / CLASSES) * scale
    near = centre + np.array([math.floor(edge - 2), math.ceil(edge + 2)])
    assert [int(np.flatnonzero(law.cells(near[[index]])[0][0])[0]) for index in (0, 1)] == [2, 3]


def test_gaussian_moments_are_those_of_its_samples() -> None:
    law = GaussianLaw(11, 5000.0)
    drawn = np.rint(law.scale * np.random.default_rng(2).standard_normal(400_000))
    assert law.mean == 11
    assert law.variance == pytest.approx(drawn.var(), rel=0.01)
    assert (law.skewness, law.excess) == pytest.approx((skew(drawn), kurtosis(drawn)), abs=0.02)
    wide = np.arange(-50_000, 50_001)
    assert law.same == pytest.approx(np.sum(norm.pdf(wide, scale=law.scale) ** 2))


def test_numbers_far_out_stay_in_the_last_cell() -> None:
    ranges, _ = GaussianLaw(0, 1000.0).cells(np.array([-(10**9), 10**9]))
    assert ranges[0].nonzero()[0].tolist() == [0, CLASSES - 1]
