"""(feature, reward) to one bounded vector, and back from sums of them (MATH 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.arguments import finite, positive, whole

Floats = NDArray[np.float64]

# Features may exceed their norm by rounding; the contribution is clipped exactly.
NORM_SLACK = 1e-9


@dataclass(frozen=True)
class Layout:
    """Labelled coordinates of a contribution: ``dim`` of phi*y, then the triangle of phi phi'.

    ``scaled``: off-diagonal entries carry sqrt(2), an isometry with the Frobenius norm, and the
    matrix block the factor ``weight``. Unscaled is the paper's own layout, for which its noise
    is stated: the triangle as it is and every range [-1, 1].
    """

    dim: int
    scaled: bool = True
    weight: float = 1.0
    feature_norm: float = 1.0
    reward_range: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        """Refuse a layout that no contribution fits."""
        whole("dim", self.dim, 1)
        positive("weight", self.weight)
        positive("feature_norm", self.feature_norm)
        low, high = self.reward_range
        if not finite("reward_range", low) < finite("reward_range", high):
            raise ValueError(f"reward_range must rise, got {self.reward_range!r}")
        if not self.scaled and self.weight != 1:
            raise ValueError(f"weight must be 1 in the paper's layout, got {self.weight!r}")

    @property
    def size(self) -> int:
        """Number of coordinates D = d + d(d+1)/2."""
        return self.dim + self.dim * (self.dim + 1) // 2

    @cached_property
    def triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Row and column of each matrix coordinate, row by row."""
        return np.triu_indices(self.dim)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One public label a coordinate: ``u0``, ..., ``v0.0``, ``v0.1``, ..."""
        rows, columns = self.triangle
        matrix = (f"v{row}.{column}" for row, column in zip(rows, columns, strict=True))
        return (*(f"u{index}" for index in range(self.dim)), *matrix)

    @cached_property
    def stretch(self) -> Floats:
        """The factor on each matrix coordinate."""
        rows, columns = self.triangle
        off = math.sqrt(2) if self.scaled else 1.0
        return self.weight * np.where(rows == columns, 1.0, off)

    @cached_property
    def low(self) -> Floats:
        """The least value of each coordinate."""
        rows, columns = self.triangle
        vector = np.full(self.dim, -self.feature_norm if self.scaled else -1.0)
        if not self.scaled:
            return np.concatenate([vector, np.full(rows.size, -1.0)])
        half = self.feature_norm**2 / 2
        return np.concatenate([vector, np.where(rows == columns, 0.0, -half * self.stretch)])

    @cached_property
    def high(self) -> Floats:
        """The greatest value of each coordinate."""
        rows, columns = self.triangle
        if not self.scaled:
            return np.ones(self.size)
        square = self.feature_norm**2
        matrix = np.where(rows == columns, square, square / 2) * self.stretch
        return np.concatenate([np.full(self.dim, self.feature_norm), matrix])

    @property
    def sensitivity(self) -> float:
        """Largest Euclidean change when one user's data is replaced (MATH 2; PROOF 6).

        The scaled value also bounds the paper's layout and is attained there from dim 2 on.
        """
        norm, weight = self.feature_norm**2, self.weight**2
        if 2 * weight * norm <= 1:
            return 2 * self.feature_norm
        return math.sqrt(2 * norm + 2 * weight * norm**2 + 1 / (2 * weight))

    @property
    def matrix_noise_factor(self) -> float:
        """Noise per svec coordinate of the decoded matrix, for noise 1 per released coordinate."""
        return 1 / self.weight if self.scaled or self.dim == 1 else math.sqrt(2)

    def encode(self, features: Floats, rewards: Floats) -> Floats:
        """Contributions ``(..., size)`` of features ``(..., dim)``, rewards ``(...)`` in [0, 1]."""
        rows, columns = self.triangle
        encoded = np.empty((*features.shape[:-1], self.size))
        np.multiply(features, rewards[..., None], out=encoded[..., : self.dim])
        matrix = encoded[..., self.dim :]
        np.multiply(features[..., rows], features[..., columns], out=matrix)
        matrix *= self.stretch
        return encoded

    def decode(self, sums: Floats) -> tuple[Floats, Floats]:
        """The vector ``(..., dim)`` and symmetric matrix ``(..., dim, dim)`` of a released sum."""
        rows, columns = self.triangle
        entries = sums[..., self.dim :] / self.stretch
        matrix = np.empty((*sums.shape[:-1], self.dim, self.dim))
        matrix[..., rows, columns] = entries
        matrix[..., columns, rows] = entries
        return np.array(sums[..., : self.dim]), matrix

    def unit_reward(self, reward: float) -> float:
        """A reward of the declared range as a number in [0, 1]."""
        low, high = self.reward_range
        value = finite("reward", reward)
        if not low <= value <= high:
            raise ValueError(f"reward must be in [{low}, {high}], got {reward!r}")
        return (value - low) / (high - low)


def checked_features(layout: Layout, features: ArrayLike, name: str = "features") -> Floats:
    """Features as floats: finite, of the right dimension, of norm at most ``feature_norm``."""
    array = np.asarray(features, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != layout.dim:
        raise ValueError(f"{name} must end in dimension {layout.dim}, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    norm = float(np.sqrt(np.max(np.einsum("...d,...d->...", array, array), initial=0.0)))
    if norm > layout.feature_norm * (1 + NORM_SLACK):
        raise ValueError(f"{name} must have norm at most {layout.feature_norm}, got {norm}")
    return array


def contribution(layout: Layout, feature: ArrayLike, reward: float) -> Floats:
    """One user's bounded vector; clipped whatever was checked before, since privacy rests on it."""
    row = checked_features(layout, feature, "feature")
    if row.shape != (layout.dim,):
        raise ValueError(f"feature must have shape ({layout.dim},), got {row.shape}")
    norm = float(np.linalg.norm(row))
    if norm > layout.feature_norm:
        row = row * (layout.feature_norm / norm)
    return layout.encode(row, np.asarray(layout.unit_reward(reward)))
