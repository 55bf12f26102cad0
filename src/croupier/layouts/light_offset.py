"""The layout of certified plans: rewards around 1/2, a light offset, a gram that is nearly free.

With z the features without their declared constant, |z| <= r, and h = (z, rho)/a of norm at most
1, a contribution is (h (y - 1/2), w svec(hh')). Its last entry is known, so nobody sends it.
docs/guarantees.md has the sensitivity and its proof.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.fixed_point import (
    FACTOR_POWER,
    STRETCH_POWER,
    inside,
    rounded_down,
    truncated,
    units_up,
)
from croupier.layouts.base import Floats, Layout, Moments, symmetric

WEIGHT = 0.5
"""Of the matrix: at this weight it adds 6 % to what the vector alone would need."""

OFFSET_SHARE = 0.424
"""The offset over the norm of the other features."""


@dataclass(frozen=True)
class LightOffset(Layout):
    """A constant coordinate cannot change who is best, so that it is made small, not dropped."""

    name: ClassVar[str] = "light-offset"
    centre: ClassVar[float] = 0.5

    def __post_init__(self) -> None:
        """Somebody must differ from others."""
        super().__post_init__()
        if self.scored == 0:
            raise ValueError("dim must be at least 2 where a constant feature is declared, got 1")

    @property
    def scored(self) -> int:
        """All features but the constant one, which no choice depends on."""
        return self.dim - (self.constant is not None)

    @property
    def summed(self) -> int:
        """These and the offset."""
        return self.scored + 1

    @cached_property
    def norm(self) -> float:
        """r: what is left of the norm 1 without the constant."""
        if self.constant is None:
            return 1.0
        return math.sqrt(1 - (self.constant[1] / self.feature_norm) ** 2)

    @cached_property
    def _square(self) -> Fraction:
        """r^2 as devices hold features to it."""
        return Fraction(self.norm) ** 2

    @cached_property
    def _whole_offset(self) -> int:
        """rho over 2**20."""
        return max(1, math.floor(math.ldexp(OFFSET_SHARE * self.norm, FACTOR_POWER)))

    @cached_property
    def offset(self) -> float:
        """rho."""
        return math.ldexp(self._whole_offset, -FACTOR_POWER)

    @cached_property
    def _length(self) -> Fraction:
        """a^2 = r^2 + rho^2: the largest squared norm of z and the offset."""
        return self._square + Fraction(self.offset) ** 2

    @cached_property
    def length(self) -> float:
        """a."""
        return math.sqrt(self._length)

    @property
    def moment_norm(self) -> float:
        """Of h."""
        return 1.0

    @cached_property
    def units(self) -> Floats:
        """1/a for every feature, and rho/a for the offset."""
        return np.append(np.full(self.scored, 1 / self.length), self.offset / self.length)

    def score_features(self, features: Floats) -> Floats:
        """In units of their norm, without the constant one."""
        unit = features / self.feature_norm
        return unit if self.constant is None else np.delete(unit, self.constant[0], axis=-1)

    @cached_property
    def triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row by row, without the last entry: it is rho^2/a^2 for everybody."""
        rows, columns = np.triu_indices(self.summed)
        return rows[:-1], columns[:-1]

    @cached_property
    def _squares(self) -> list[Fraction]:
        """Of the factors on products: 1/a on the vector, w/a^2 on the matrix, sqrt(2) beside it."""
        rows, columns = self.triangle
        on = Fraction(WEIGHT) ** 2 / self._length**2
        vector = [1 / self._length] * self.summed
        return vector + [on if equal else 2 * on for equal in (rows == columns).tolist()]

    @cached_property
    def whole_stretch(self) -> tuple[int, ...]:
        """These factors over 2**30, rounded down."""
        return rounded_down(self._squares)

    @cached_property
    def stretch(self) -> Floats:
        """The same as devices have them, so that decoding undoes just what they did."""
        return np.ldexp(np.array(self.whole_stretch, dtype=np.float64), -STRETCH_POWER)

    @cached_property
    def _reach(self) -> Floats:
        """The largest of each entry of (z, rho)."""
        return np.append(np.full(self.scored, self.norm), self.offset)

    @cached_property
    def high(self) -> Floats:
        """Products of two entries of z are largest where all of z is in these two."""
        rows, columns = self.triangle
        both = (rows != columns) & (columns < self.scored)
        matrix = self._reach[rows] * self._reach[columns] * np.where(both, 0.5, 1.0)
        return units_up(np.concatenate([self._reach / 2, matrix]) * self.stretch)

    @cached_property
    def low(self) -> Floats:
        """The same below zero, but that squares are none."""
        rows, columns = self.triangle
        squares = np.concatenate([np.zeros(self.summed, dtype=bool), rows == columns])
        return np.where(squares, 0.0, -self.high)

    @property
    def matrix_noise_factor(self) -> float:
        """1/w."""
        return 1 / WEIGHT

    @property
    def sensitivity(self) -> float:
        """Delta of contributions with |h| <= 1 and weight 1/2 (docs/guarantees.md)."""
        return math.sqrt(0.5 + 2 * WEIGHT**2 + 1 / (32 * WEIGHT**2))

    @property
    def worst_cosine(self) -> float:
        """The one at which h.h' is 1/(8 w^2), or as near to it as the offset lets it come."""
        cosine = (self.length**2 / (8 * WEIGHT**2) - self.offset**2) / self.norm**2
        return max(-1.0, min(1.0, cosine))

    @property
    def worst_rewards(self) -> tuple[float, float]:
        """One and none."""
        return (1.0, 0.0)

    @property
    def largest_gain(self) -> float:
        """Of a vector with the offset."""
        return 0.5

    def encode(self, features: Floats, rewards: Floats) -> Floats:
        """Contributions ``(..., size)``."""
        rows, columns = self.triangle
        offset = np.full((*features.shape[:-1], 1), self.offset)
        entries = np.concatenate([features, offset], axis=-1)
        products = entries[..., rows] * entries[..., columns]
        vector = entries * (rewards - self.centre)[..., None]
        return np.concatenate([vector, products], axis=-1) * self.stretch

    def decode(self, sums: Floats, users: int) -> Moments:
        """Moments of h; the entry that nobody sent is that of so many users."""
        shrunk = sums / self.stretch
        vector = shrunk[..., : self.summed] / self.length
        matrix = symmetric(shrunk[..., self.summed :], self.triangle, self.summed)
        matrix[..., -1, -1] = users * self.offset**2
        return Moments(vector, matrix / self.length**2)

    def products(self, features: Floats, gain: int) -> list[int]:
        """Of entries over 2**20 whose norm is at most r, and the offset."""
        rows, columns = self.triangle
        entries = [*inside(truncated(features), self._square), self._whole_offset]
        places = zip(rows.tolist(), columns.tolist(), strict=True)
        vector = [entry * (gain - 2 ** (FACTOR_POWER - 1)) for entry in entries]
        return vector + [entries[row] * entries[column] for row, column in places]
