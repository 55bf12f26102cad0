"""(feature, reward) to one bounded vector, and back from sums of them (MATH 2).

On a device the vector is a whole number of units in every coordinate and its bounds hold in
integers, so that no rounding stands between the data and the sensitivity (MATH 4, Numerics).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from croupier.arguments import finite, positive, whole

Floats = NDArray[np.float64]

# Features may exceed their norm by rounding, as 32-bit ones do; what is sent is clipped exactly.
NORM_SLACK = 1e-6

UNIT_POWER = 40
UNIT = 2.0**-UNIT_POWER
"""Contributions of a device are whole multiples of this."""

FACTOR_POWER = UNIT_POWER // 2
"""A feature's entries and the reward are whole numbers over 2**20; their products, units."""

STRETCH_POWER = 30
"""The factors on the matrix block are whole numbers over 2**30."""

MOST = 2.0**12
"""Largest contribution: units of its range fit the 53 bits of a float, and 64-bit reports."""


@dataclass(frozen=True)
class Layout:
    """Labelled coordinates of a contribution: ``dim`` of phi*y, then the triangle of phi phi'.

    ``scaled``: off-diagonal entries carry sqrt(2), an isometry with the Frobenius norm, and the
    matrix block the factor ``weight``. Unscaled is the paper's own layout, for which its noise
    is stated: the triangle as it is and every range [-1, 1].
    ``constant`` is the index and value of a feature that is the same for everybody. Declaring it
    makes the contribution centred: phi*(y - 1/2) instead of phi*y (MATH 6.5, point 5).
    """

    dim: int
    scaled: bool = True
    weight: float = 1.0
    feature_norm: float = 1.0
    reward_range: tuple[float, float] = (0.0, 1.0)
    constant: tuple[int, float] | None = None

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
        if max(self.norm, self.weight * self.norm**2) > MOST:
            raise ValueError(
                f"feature_norm and weight must keep contributions at most {MOST:g}, "
                f"got {self.feature_norm!r} and {self.weight!r}"
            )
        if self.constant is not None:
            self._check_constant(*self.constant)

    def _check_constant(self, index: int, value: float) -> None:
        if not self.scaled:
            raise ValueError("constant must be None in the paper's layout, which is not centred")
        if whole("constant index", index, 0) >= self.dim:
            raise ValueError(f"constant index must be below dim {self.dim}, got {index!r}")
        if not 0 < abs(finite("constant value", value)) <= self.feature_norm:
            raise ValueError(
                f"constant value must be between 0 and the norm {self.feature_norm}, got {value!r}"
            )

    @property
    def norm(self) -> float:
        """Of features behind :func:`unit_features`: 1, or what the paper's layout is given."""
        return 1.0 if self.scaled else self.feature_norm

    @property
    def centred(self) -> bool:
        """Whether contributions carry phi*(y - 1/2)."""
        return self.constant is not None

    @property
    def offset(self) -> float:
        """What is taken off a reward in [0, 1]."""
        return 0.5 if self.centred else 0.0

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
    def whole_stretch(self) -> tuple[int, ...]:
        """``stretch`` over 2**30 rounded down, by integers, so that no coordinate can grow."""
        rows, columns = self.triangle
        square = Fraction(self.weight) ** 2 * 4**STRETCH_POWER
        off = math.isqrt(math.floor((2 if self.scaled else 1) * square))
        on = math.isqrt(math.floor(square))
        return tuple(on if equal else off for equal in (rows == columns).tolist())

    @cached_property
    def low(self) -> Floats:
        """The least value of each coordinate, rounded down to a whole number of units."""
        rows, columns = self.triangle
        vector = np.full(self.dim, -self.largest_entry if self.scaled else -1.0)
        if not self.scaled:
            return np.concatenate([vector, np.full(rows.size, -1.0)])
        half = self.norm**2 / 2
        matrix = np.where(rows == columns, 0.0, -half * self.stretch)
        return -_units_up(-np.concatenate([vector, matrix]))

    @cached_property
    def high(self) -> Floats:
        """The greatest value of each coordinate, rounded up to a whole number of units."""
        rows, columns = self.triangle
        if not self.scaled:
            return np.ones(self.size)
        square = self.norm**2
        matrix = np.where(rows == columns, square, square / 2) * self.stretch
        return _units_up(np.concatenate([np.full(self.dim, self.largest_entry), matrix]))

    @property
    def largest_entry(self) -> float:
        """Of phi*y, or of phi*(y - 1/2)."""
        return self.norm * (1 - self.offset)

    @property
    def worst_cosine(self) -> float:
        """Between the features of the two users whose swap moves a contribution most."""
        balanced = min(1.0, (1 - self.offset) ** 2 / (2 * self.weight**2 * self.norm**2))
        return balanced if self.centred else -balanced

    @property
    def worst_rewards(self) -> tuple[float, float]:
        """The rewards in [0, 1] of these two users."""
        return (1.0, 0.0) if self.centred else (1.0, 1.0)

    @property
    def sensitivity(self) -> float:
        """Largest Euclidean change when one user's data is replaced (MATH 2; PROOF 6).

        The scaled value also bounds the paper's layout and is attained there from dim 2 on.
        With h the largest |y - offset|, h^2 |phi -+ phi'|^2 + w^2 |phi phi' - ...|^2 is
        2 h^2 r^2 + 2 h^2 s + 2 w^2 (r^4 - s^2) at features of norm r and |<phi, phi'>| = s.
        """
        norm, weight, half = self.norm**2, self.weight**2, (1 - self.offset) ** 2
        if 2 * weight * norm <= half:
            return 2 * self.largest_entry
        return math.sqrt(2 * half * norm + 2 * weight * norm**2 + half**2 / (2 * weight))

    @property
    def device_sensitivity(self) -> float:
        """Largest Euclidean change of what ``contribution`` makes, rounded up.

        The quantised factors are a legal user: q / 2**20 has norm at most ``norm`` and
        the reward is in [0, 1], both tested in integers. Their exact products therefore lie
        within ``sensitivity``, and a stretch that was rounded down brings every coordinate of
        two users closer. What is left is the truncation of a stretched product to whole units:
        |trunc(a) - trunc(b)| < |a - b| + 1, and no change where the stretch is a whole number.
        With c truncated coordinates the triangle inequality gives
        ``sensitivity`` + sqrt(c) 2**-40. The factor covers the rounding of these two floats.
        """
        truncated = sum(factor % 2**STRETCH_POWER != 0 for factor in self.whole_stretch)
        return (self.sensitivity + math.sqrt(truncated) * UNIT) * (1 + 2.0**-48)

    @property
    def matrix_noise_factor(self) -> float:
        """Noise per svec coordinate of the decoded matrix, for noise 1 per released coordinate."""
        return 1 / self.weight if self.scaled or self.dim == 1 else math.sqrt(2)

    def encode(self, features: Floats, rewards: Floats) -> Floats:
        """Contributions ``(..., size)`` of features ``(..., dim)``, rewards ``(...)`` in [0, 1]."""
        rows, columns = self.triangle
        encoded = np.empty((*features.shape[:-1], self.size))
        np.multiply(features, (rewards - self.offset)[..., None], out=encoded[..., : self.dim])
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

    def unit_reward(self, reward: float | bool | np.bool) -> float:
        """A reward of the declared range as a number in [0, 1]; yes is 1 and no is 0."""
        low, high = self.reward_range
        value = float(reward) if isinstance(reward, bool | np.bool) else finite("reward", reward)
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


def checked_constant(layout: Layout, features: Floats, name: str = "features") -> Floats:
    """Features ``(..., dim)`` whose declared constant is what the layout says (MATH 6.5)."""
    if layout.constant is None:
        return features
    index, value = layout.constant
    apart = np.abs(features[..., index] - value)
    if apart.size and apart.max() > NORM_SLACK * layout.feature_norm:
        found = float(features[..., index].flat[int(apart.argmax())])
        raise ValueError(f"{name} must have the constant {value!r} at index {index}, got {found!r}")
    return features


def unit_features(layout: Layout, features: Floats) -> Floats:
    """Checked features in units of their norm: what every room behind this one works with.

    The paper's constants are stated for features as they are, so its layout keeps them.
    """
    return features / layout.feature_norm if layout.scaled else features


def contribution(layout: Layout, feature: ArrayLike, reward: float | np.bool) -> Floats:
    """One user's bounded vector, every coordinate a whole number of units of 2**-40.

    Clipped in integers whatever was checked before, since privacy rests on it (MATH 2, 4).
    """
    row = checked_features(layout, feature, "feature")
    if row.shape != (layout.dim,):
        raise ValueError(f"feature must have shape ({layout.dim},), got {row.shape}")
    entries = _inside(_truncated(unit_features(layout, row)), layout.norm)
    gain = min(int(math.ldexp(layout.unit_reward(reward), FACTOR_POWER)), 2**FACTOR_POWER)
    gain -= int(math.ldexp(layout.offset, FACTOR_POWER))
    units = [entry * gain for entry in entries] + _matrix_units(layout, entries)
    return np.ldexp(np.array(units, dtype=np.float64), -UNIT_POWER)


def whole_units(values: Floats) -> list[int]:
    """Values ``(size,)`` as whole numbers of units, rounded down where they are not on the grid."""
    return [math.floor(value) for value in np.ldexp(values, UNIT_POWER).tolist()]


def _units_up(values: Floats) -> Floats:
    """The least multiples of the unit that are not below ``values``; scaling by it is exact."""
    return np.ldexp(np.ceil(np.ldexp(values, UNIT_POWER)), -UNIT_POWER)


def _truncated(row: Floats) -> list[int]:
    """Entries over 2**20, rounded toward zero."""
    return [int(entry) for entry in np.ldexp(row, FACTOR_POWER).tolist()]


def _inside(entries: list[int], norm: float) -> list[int]:
    """Entries over 2**20 whose exact norm is at most ``norm``, shrunk toward zero if need be.

    The factor floor(sqrt(most 4^30)) / ceil(sqrt(square 4^30)) is at most sqrt(most / square).
    """
    square = sum(entry * entry for entry in entries)
    most = math.floor((Fraction(norm) * 2**FACTOR_POWER) ** 2)
    if square <= most:
        return entries
    above, below = math.isqrt(most << 60), math.isqrt((square << 60) - 1) + 1
    return [_sign(entry) * (abs(entry) * above // below) for entry in entries]


def _matrix_units(layout: Layout, entries: Sequence[int]) -> list[int]:
    """The stretched products of the triangle, rounded toward zero."""
    rows, columns = layout.triangle
    places = zip(rows.tolist(), columns.tolist(), layout.whole_stretch, strict=True)
    products = [entries[row] * entries[column] * factor for row, column, factor in places]
    return [_sign(product) * (abs(product) >> STRETCH_POWER) for product in products]


def _sign(value: int) -> int:
    return -1 if value < 0 else 1
