"""(feature, reward) to one bounded vector of a layout (MATH 2).

On a device the vector is a whole number of units in every coordinate and its bounds hold in
integers, so that no rounding stands between the data and the sensitivity (MATH 4, Numerics).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from croupier.fixed_point import FACTOR_POWER, UNIT_POWER, stretched
from croupier.layouts.base import Floats, Layout

# Features may exceed their norm by rounding, as 32-bit ones do; what is sent is clipped exactly.
NORM_SLACK = 1e-6


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
    """Features ``(..., dim)`` that keep to one block and have the declared constant there."""
    own = layout.own(features, name)
    if layout.constant is None:
        return features
    index, value = layout.constant
    apart = np.abs(own[..., index] - value)
    if apart.size and apart.max() > NORM_SLACK * layout.feature_norm:
        found = float(own[..., index].flat[int(apart.argmax())])
        raise ValueError(f"{name} must have the constant {value!r} at index {index}, got {found!r}")
    return features


def contribution(layout: Layout, feature: ArrayLike, reward: float | np.bool) -> Floats:
    """One user's bounded vector, every coordinate a whole number of units of 2**-40.

    Clipped in integers whatever was checked before, since privacy rests on it (MATH 2, 4).
    """
    row = checked_features(layout, feature, "feature")
    if row.shape != (layout.dim,):
        raise ValueError(f"feature must have shape ({layout.dim},), got {row.shape}")
    gain = min(int(math.ldexp(layout.unit_reward(reward), FACTOR_POWER)), 2**FACTOR_POWER)
    units = stretched(layout.products(layout.score_features(row), gain), layout.whole_stretch)
    return np.ldexp(np.array(units, dtype=np.float64), -UNIT_POWER)
