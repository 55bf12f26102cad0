"""Statistics of single reports: how likely what was seen is, if every number follows its law.

Each returns chances (p-values) of an honest device; where a family of them is looked at together,
the least is returned times their number (Bonferroni), with the index of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import chdtr, chdtrc, ndtr

from croupier.simulation.report_law import Cells, Floats, Integers

LEAST_EXPECTED = 10.0
"""Numbers in a cell, for the chi-square to be one."""

LEAST_FREEDOM = 1e-6


def worst(chances: Floats) -> tuple[float, int]:
    """The least of a family times its size, and where it is."""
    index = int(chances.argmin())
    return min(1.0, float(chances[index]) * chances.size), index


def fit(cells: Iterable[Cells]) -> float:
    """Of one number's cells: Pearson's chi-square, and the rarest count that was seen."""
    found = [chance for pair in cells for chance in (chi_square(*pair), rarest(*pair))]
    return worst(np.array(found))[0]


def chi_square(seen: Integers, chances: Floats) -> float:
    """Pearson's, neighbours merged until enough numbers are expected in each cell."""
    expected = seen.sum() * chances
    starts = _starts(expected)
    merged = np.add.reduceat(expected, starts)
    gap = np.add.reduceat(seen, starts) - merged
    return float(chdtrc(len(starts) - 1, np.sum(gap**2 / merged))) if len(starts) > 1 else 1.0


def _starts(expected: Floats) -> list[int]:
    """Where merged cells begin; the last takes what is left over."""
    starts, gathered = [0], 0.0
    for index, more in enumerate(expected.tolist()):
        if gathered >= LEAST_EXPECTED:
            starts.append(index)
            gathered = 0.0
        gathered += more
    return starts if gathered >= LEAST_EXPECTED or len(starts) == 1 else starts[:-1]


def rarest(seen: Integers, chances: Floats) -> float:
    """At most the chance to see anything as unlikely as the least likely count seen; 0 if none."""
    least = chances[seen > 0].min()
    return min(1.0, float(seen.sum() * chances[chances <= least].sum()))


def two_sided(score: Floats) -> Floats:
    """Of standard normal scores."""
    return np.asarray(2 * ndtr(-np.abs(score)))


def mean_scores(standard: Floats) -> Floats:
    """Of each column of standardised numbers ``(reports, columns)``."""
    return np.asarray(standard.sum(axis=0) / math.sqrt(len(standard)))


def pairs(standard: Floats) -> tuple[float, tuple[int, int]]:
    """Correlations of all pairs of columns, at known means and variances."""
    count = standard.shape[1]
    if count < 2:
        return 1.0, (0, 0)
    scores = standard.T @ standard / math.sqrt(len(standard))
    np.fill_diagonal(scores, 0.0)
    first, second = divmod(int(np.abs(scores).argmax()), count)
    chance = float(two_sided(scores[first, second])) * count * (count - 1) / 2
    return min(1.0, chance), (first, second)


def together(standard: Floats, excess: Floats, skewness: Floats) -> float:
    """Variances of the sum of all columns, and of that signed by the way they rather round.

    Both are 1 for independent columns; many small correlations of one sign add up in them.
    """
    count = standard.shape[1]
    signs = np.stack([np.ones(count), np.where(skewness > 0, 1.0, -1.0)])
    sums = standard @ signs.T / math.sqrt(count)
    heavy = float(excess.mean()) / count
    return worst(np.array([_spread(column, heavy) for column in sums.T]))[0]


def spread(standard: Floats, excess: Floats) -> float:
    """The variance of all numbers together."""
    return _spread(standard.ravel(), float(excess.mean()))


def _spread(numbers: Floats, excess: float) -> float:
    """A gamma law of the mean square: it has the right mean and variance for this kurtosis."""
    freedom = 2 * numbers.size / max(2 + excess, LEAST_FREEDOM)
    square = freedom * float(np.mean(numbers**2))
    return min(1.0, 2 * min(float(chdtr(freedom, square)), float(chdtrc(freedom, square))))


def successors(standard: Floats) -> tuple[float, int]:
    """Correlations of each report with the next one, column by column and all together (last)."""
    products = (standard[:-1] * standard[1:]).sum(axis=0) / math.sqrt(len(standard) - 1)
    every = products.sum() / math.sqrt(products.size)
    return worst(two_sided(np.append(products, every)))


def repeats(values: Integers, same: Floats) -> float:
    """Equal reports ``(reports, columns)``; ``same`` is the chance of two equal numbers a column.

    By Markov's inequality, which holds whatever the law; it says little where equal reports are
    usual, but there the law of each column shows a lack of variety.
    """
    _, times = np.unique(values, axis=0, return_counts=True)
    found = int(np.sum(times * (times - 1) // 2))
    if found == 0:
        return 1.0
    usual = math.comb(len(values), 2) * math.exp(float(np.sum(np.log(same))))
    return min(1.0, usual / found)
