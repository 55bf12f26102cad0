"""The seam of a layout: from (features, reward) to labelled coordinates, and back from their sums.

What a model scores are a layout's ``scored`` features; the moments that are summed up are of
``summed`` ones, which may be more: an offset of the layout's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import finite, positive, whole
from croupier.fixed_point import MOST, truncation

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over users: of h times the reward less ``centre``, and of hh'; leading axes are alike.

    ``vector (..., summed)`` and ``matrix (..., summed, summed)``; where there are blocks, an axis
    of them comes before, and both are of one block.
    """

    vector: Floats
    matrix: Floats


@dataclass(frozen=True)
class Layout(ABC):
    """Bounded contributions of users whose features have ``dim`` entries and norm ``feature_norm``.

    Rewards lie in ``reward_range``. ``constant`` is the index and value of a feature that is the
    same for everybody, None where there is none.
    """

    dim: int
    feature_norm: float = 1.0
    reward_range: tuple[float, float] = (0.0, 1.0)
    constant: tuple[int, float] | None = None

    name: ClassVar[str]
    centre: ClassVar[float]
    """What is taken off a reward in [0, 1]."""

    def __post_init__(self) -> None:
        """Refuse a layout that no contribution fits."""
        whole("dim", self.dim, 1)
        positive("feature_norm", self.feature_norm)
        low, high = self.reward_range
        if not finite("reward_range", low) < finite("reward_range", high):
            raise ValueError(f"reward_range must rise, got {self.reward_range!r}")
        if self.constant is not None:
            self._check_constant(*self.constant)
        if max(self.norm, self.norm**2) > MOST:
            raise ValueError(
                f"feature_norm must keep contributions at most {MOST:g}, got {self.feature_norm!r}"
            )

    def _check_constant(self, index: int, value: float) -> None:
        if whole("constant index", index, 0) >= self.dim:
            raise ValueError(f"constant index must be below dim {self.dim}, got {index!r}")
        if not 0 < abs(finite("constant value", value)) < self.feature_norm:
            raise ValueError(
                f"constant value must be between 0 and the norm {self.feature_norm}, got {value!r}"
            )

    @property
    def content(self) -> dict[str, Any]:
        """Everything that makes the layout, as plain values."""
        return {
            "name": self.name,
            "dim": self.dim,
            "feature_norm": self.feature_norm,
            "reward_range": list(self.reward_range),
            "constant_feature": self.constant and list(self.constant),
        }

    # Features

    @property
    @abstractmethod
    def scored(self) -> int:
        """Entries of what a model scores, and of theta."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """The largest norm of what a model scores."""

    @abstractmethod
    def score_features(self, features: Floats) -> Floats:
        """Checked features ``(..., dim)`` as a model scores them ``(..., scored)``."""

    @property
    def length(self) -> float:
        """The largest norm of scored features together with the layout's own offset, if any."""
        return self.norm

    @property
    def blocks(self) -> int:
        """Blocks of features outside one of which those of a user are zero, 1 where none are."""
        return 1

    @property
    def free(self) -> int:
        """Scored features that a user's data decides, of one block; they have norm ``norm``."""
        return self.scored

    def placed(self, entries: Floats, block: int = 0) -> Floats:
        """What a model scores ``(..., scored)`` of free entries ``(..., free)`` in a block."""
        return entries

    def own(self, features: Floats, name: str = "features") -> Floats:
        """The part ``(..., width)`` of features that may differ from zero, or an error."""
        return features

    # Contributions

    @property
    @abstractmethod
    def summed(self) -> int:
        """Entries of the features whose moments are summed up."""

    @property
    @abstractmethod
    def moment_norm(self) -> float:
        """The largest norm of these."""

    @property
    @abstractmethod
    def units(self) -> Floats:
        """What one unit of each scored feature, and of the offset, is in a block's moments."""

    @property
    def entry_factors(self) -> Floats:
        """The factor ``(scored,)`` on each scored feature before products are made of them."""
        return np.ones(self.scored)

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Largest Euclidean change when one user's data is replaced."""

    @property
    @abstractmethod
    def stretch(self) -> Floats:
        """The factor ``(size,)`` on each product of a contribution."""

    @property
    @abstractmethod
    def whole_stretch(self) -> tuple[int, ...]:
        """``stretch`` over 2**30 rounded down, by integers, so that no coordinate can grow."""

    @property
    @abstractmethod
    def low(self) -> Floats:
        """The least value of each coordinate, rounded down to a whole number of units."""

    @property
    @abstractmethod
    def high(self) -> Floats:
        """The greatest value of each coordinate, rounded up to a whole number of units."""

    @property
    @abstractmethod
    def matrix_noise_factor(self) -> float:
        """Noise per svec coordinate of the decoded matrix, for noise 1 per released coordinate."""

    @abstractmethod
    def encode(self, features: Floats, rewards: Floats) -> Floats:
        """Contributions ``(..., size)`` of scored features and rewards ``(...)`` in [0, 1]."""

    @abstractmethod
    def decode(self, sums: Floats, users: int) -> Moments:
        """The moments that the released sums ``(..., size)`` of so many users estimate."""

    @abstractmethod
    def products(self, features: Floats, gain: int) -> list[int]:
        """The same of one user before it is stretched, in units, clipped in integers.

        ``features (scored,)``; ``gain`` is the reward in [0, 1] over 2**20.
        """

    @property
    @abstractmethod
    def worst_cosine(self) -> float:
        """Between the scored features of two users whose swap moves a contribution most."""

    @property
    @abstractmethod
    def worst_rewards(self) -> tuple[float, float]:
        """The rewards in [0, 1] of these two users."""

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One public label a coordinate: ``u0``, ..., ``v0.0``, ``v0.1``, ..."""
        rows, columns = self.triangle
        matrix = (f"v{row}.{column}" for row, column in zip(rows, columns, strict=True))
        return (*(f"u{index}" for index in range(self.summed)), *matrix)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.summed + len(self.triangle[0])

    @cached_property
    def triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column of each matrix coordinate, row by row."""
        return np.triu_indices(self.summed)

    @property
    def largest_gain(self) -> float:
        """Of a vector's norm in an honest contribution."""
        return self.norm * max(self.centre, 1 - self.centre)

    @property
    def device_sensitivity(self) -> float:
        """Largest Euclidean change of what ``contribution`` makes, rounded up.

        The quantised factors are a legal user: they have norm at most ``norm`` and the reward is
        in [0, 1], both tested in integers. Their exact products therefore lie within
        ``sensitivity``, and a stretch that was rounded down brings every coordinate of two users
        closer. What is left is the rounding of stretched products to whole units. The factor
        covers the rounding of these two floats.
        """
        return (self.sensitivity + truncation(self.whole_stretch)) * (1 + 2.0**-48)

    def unit_reward(self, reward: float | bool | np.bool) -> float:
        """A reward of the declared range as a number in [0, 1]; yes is 1 and no is 0."""
        low, high = self.reward_range
        value = float(reward) if isinstance(reward, bool | np.bool) else finite("reward", reward)
        if not low <= value <= high:
            raise ValueError(f"reward must be in [{low}, {high}], got {reward!r}")
        return (value - low) / (high - low)


def symmetric(
    entries: Floats, triangle: tuple[NDArray[np.intp], NDArray[np.intp]], dim: int
) -> Floats:
    """The matrix ``(..., dim, dim)`` whose upper triangle is given row by row; else zero."""
    rows, columns = triangle
    matrix = np.zeros((*entries.shape[:-1], dim, dim))
    matrix[..., rows, columns] = entries
    matrix[..., columns, rows] = entries
    return matrix
