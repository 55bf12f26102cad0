"""The exact law of one number of a report: a label's ones, or a coordinate with Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, xlog1py, xlogy

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Cells = tuple[Integers, Floats]
"""How many numbers were seen in each cell, and the chances of the cells."""

WINDOW = 14.0
"""Standard deviations around the mean; a count beyond has a chance below 1e-40."""

CLASSES = 25
"""Equally likely ranges of a Gaussian number."""

LOW_DIGITS = 16
"""The last four bits of noise of thousands of units are uniform."""


@dataclass(frozen=True)
class CountLaw:
    """``floor`` + Ber(``left``) + Bin(``coins``, ``bias``), all independent (MATH 4)."""

    floor: int
    left: float
    coins: int
    bias: float

    @property
    def mean(self) -> float:
        """Expected ones."""
        return self.floor + self.left + self.coins * self.bias

    @property
    def variance(self) -> float:
        """Of the rounding and of the coins."""
        return _spread(self.left) + self.coins * _spread(self.bias)

    @property
    def skewness(self) -> float:
        """Positive where it rather rounds down; 0 where the count does not vary."""
        third = _third(self.left) + self.coins * _third(self.bias)
        return third / self.variance**1.5 if self.variance else 0.0

    @property
    def excess(self) -> float:
        """Of the kurtosis over a normal's."""
        fourth = _fourth(self.left) + self.coins * _fourth(self.bias)
        return fourth / self.variance**2 if self.variance else 0.0

    @property
    def same(self) -> float:
        """The chance that two counts are equal."""
        return float(np.sum(self.chances[1] ** 2))

    @property
    def chances(self) -> tuple[int, Floats]:
        """The least count that can be seen, and the chance of it and of each one above."""
        first, heads = _heads(self.coins, self.bias)
        both = np.convolve(heads, [1 - self.left, self.left])
        return self.floor + first, both

    def cells(self, values: Integers) -> tuple[Cells, ...]:
        """One a count, and at either end one for counts that cannot be."""
        first, chances = self.chances
        index = np.clip(values - first + 1, 0, chances.size + 1)
        seen = np.bincount(index, minlength=chances.size + 2)
        return ((seen, np.concatenate([[0.0], chances, [0.0]])),)


@dataclass(frozen=True)
class GaussianLaw:
    """``centre`` plus a discrete Gaussian of scale ``scale``, which is thousands at least."""

    centre: int
    scale: float
    skewness = 0.0
    excess = 0.0

    @property
    def mean(self) -> float:
        """The data."""
        return float(self.centre)

    @property
    def variance(self) -> float:
        """That of the normal: they differ by less than exp(-scale**2)."""
        return self.scale**2

    @property
    def same(self) -> float:
        """The chance that two numbers are equal."""
        return 1 / (2 * math.sqrt(math.pi) * self.scale)

    def cells(self, values: Integers) -> tuple[Cells, ...]:
        """Equally likely ranges, and the last digits of the noise."""
        noise = values - self.centre
        ranges = np.minimum(CLASSES * ndtr(noise / self.scale), CLASSES - 1).astype(np.int64)
        return _uniform(ranges, CLASSES), _uniform(noise % LOW_DIGITS, LOW_DIGITS)


Law = CountLaw | GaussianLaw


@lru_cache(maxsize=64)
def _heads(coins: int, bias: float) -> tuple[int, Floats]:
    """The least number of heads within the window, and the chances from there on."""
    reach = WINDOW * math.sqrt(coins * _spread(bias)) + 1
    least = max(0, math.floor(coins * bias - reach))
    heads = np.arange(least, min(coins, math.ceil(coins * bias + reach)) + 1)
    ways = gammaln(coins + 1) - gammaln(heads + 1) - gammaln(coins - heads + 1)
    return least, np.exp(ways + xlogy(heads, bias) + xlog1py(coins - heads, -bias))


def _uniform(index: Integers, count: int) -> Cells:
    return np.bincount(index, minlength=count), np.full(count, 1 / count)


def _spread(chance: float) -> float:
    """Variance of a coin."""
    return chance * (1 - chance)


def _third(chance: float) -> float:
    """Third cumulant of a coin."""
    return _spread(chance) * (1 - 2 * chance)


def _fourth(chance: float) -> float:
    """Fourth cumulant of a coin."""
    return _spread(chance) * (1 - 6 * _spread(chance))
