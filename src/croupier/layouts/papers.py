"""The paper's own layout: phi*y and the triangle of phi phi', every range [-1, 1]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from croupier.fixed_point import STRETCH_POWER, inside, truncated
from croupier.layouts.base import Floats, Layout, Moments, symmetric


@dataclass(frozen=True)
class PapersLayout(Layout):
    """What the paper's constants, and the radius of ``ucb``, are stated for.

    Features stay in the app's own units, and a declared constant is only checked.
    """

    name: ClassVar[str] = "papers"
    centre: ClassVar[float] = 0.0

    @property
    def scored(self) -> int:
        """All features."""
        return self.dim

    @property
    def summed(self) -> int:
        """All features."""
        return self.dim

    @property
    def norm(self) -> float:
        """As declared."""
        return self.feature_norm

    @property
    def moment_norm(self) -> float:
        """As declared."""
        return self.feature_norm

    @property
    def units(self) -> Floats:
        """None."""
        return np.ones(self.dim)

    def score_features(self, features: Floats) -> Floats:
        """As they are."""
        return features

    @cached_property
    def stretch(self) -> Floats:
        """None."""
        return np.ones(self.size)

    @cached_property
    def whole_stretch(self) -> tuple[int, ...]:
        """None."""
        return (1 << STRETCH_POWER,) * self.size

    @cached_property
    def low(self) -> Floats:
        """The paper's."""
        return np.full(self.size, -1.0)

    @cached_property
    def high(self) -> Floats:
        """The paper's."""
        return np.ones(self.size)

    @property
    def matrix_noise_factor(self) -> float:
        """Entries beside the diagonal are sent once and count twice."""
        return 1.0 if self.dim == 1 else math.sqrt(2)

    @property
    def worst_cosine(self) -> float:
        """Between the features of the two users whose swap moves a contribution most."""
        return -min(1.0, 1 / (2 * self.norm**2))

    @property
    def worst_rewards(self) -> tuple[float, float]:
        """Both are 1."""
        return (1.0, 1.0)

    @property
    def sensitivity(self) -> float:
        """Largest Euclidean change when one user's data is replaced (MATH 2; PROOF 6).

        At features of norm r with inner product -s it is 2 r^2 + 2 s + 2 (r^4 - s^2), which counts
        every entry beside the diagonal twice; the triangle alone attains it from dim 2 on.
        """
        square = self.norm**2
        if 2 * square <= 1:
            return 2 * self.norm
        return math.sqrt(2 * square + 2 * square**2 + 0.5)

    def encode(self, features: Floats, rewards: Floats) -> Floats:
        """Contributions ``(..., size)``."""
        rows, columns = self.triangle
        vector = features * rewards[..., None]
        return np.concatenate([vector, features[..., rows] * features[..., columns]], axis=-1)

    def decode(self, sums: Floats, users: int) -> Moments:
        """The vector, and the matrix from its triangle."""
        vector, triangle = sums[..., : self.dim], sums[..., self.dim :]
        return Moments(np.array(vector), symmetric(triangle, self.triangle, self.dim))

    def products(self, features: Floats, gain: int) -> list[int]:
        """Of entries over 2**20 whose norm is at most the declared one."""
        rows, columns = self.triangle
        entries = inside(truncated(features), Fraction(self.norm) ** 2)
        places = zip(rows.tolist(), columns.tolist(), strict=True)
        vector = [entry * gain for entry in entries]
        return vector + [entries[row] * entries[column] for row, column in places]
