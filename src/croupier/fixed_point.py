"""Contributions in whole units of 2**-40, so that no rounding stands between data and proof.

A device's features and reward are whole numbers over 2**20, their products are units, and what
stretches products is rounded down: every bound then holds in integers (docs/guarantees.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIT_POWER = 40
UNIT = 2.0**-UNIT_POWER
"""Contributions of a device are whole multiples of this."""

FACTOR_POWER = UNIT_POWER // 2
"""A feature's entries and the reward are whole numbers over 2**20; their products, units."""

STRETCH_POWER = 30
"""The factors on products are whole numbers over 2**30."""

MOST = 2.0**12
"""Largest contribution: units of its range fit the 53 bits of a float, and 64-bit reports."""


def whole_units(values: Floats) -> list[int]:
    """Values ``(size,)`` as whole numbers of units, rounded down where they are not on the grid."""
    return [math.floor(value) for value in np.ldexp(values, UNIT_POWER).tolist()]


def units_up(values: Floats) -> Floats:
    """The least multiples of the unit that are not below ``values``; scaling by it is exact."""
    return np.ldexp(np.ceil(np.ldexp(values, UNIT_POWER)), -UNIT_POWER)


def truncated(row: Floats) -> list[int]:
    """Entries over 2**20, rounded toward zero."""
    return [int(entry) for entry in np.ldexp(row, FACTOR_POWER).tolist()]


def inside(entries: list[int], square_norm: Fraction) -> list[int]:
    """Entries over 2**20 of at most this squared norm, exactly, shrunk toward zero if need be.

    The factor floor(sqrt(most 4^30)) / ceil(sqrt(square 4^30)) is at most sqrt(most / square).
    """
    square = sum(entry * entry for entry in entries)
    most = math.floor(square_norm * 4**FACTOR_POWER)
    if square <= most:
        return entries
    above, below = math.isqrt(most << 60), math.isqrt((square << 60) - 1) + 1
    return [_sign(entry) * (abs(entry) * above // below) for entry in entries]


def rounded_down(squares: Iterable[Fraction]) -> tuple[int, ...]:
    """The roots of squared factors over 2**30, rounded down by integers."""
    return tuple(math.isqrt(math.floor(square * 4**STRETCH_POWER)) for square in squares)


def stretched(products: Sequence[int], factors: Sequence[int]) -> list[int]:
    """Products times factors over 2**30, rounded toward zero."""
    rows = zip(products, factors, strict=True)
    return [_sign(one) * (abs(one) * factor >> STRETCH_POWER) for one, factor in rows]


def truncation(factors: Iterable[int]) -> float:
    """How far apart two users' stretched products may be moved by rounding toward zero, at most.

    |trunc(a) - trunc(b)| < |a - b| + 1 unit, and no change where a factor is a whole number: the
    triangle inequality gives the root of the number of others.
    """
    return math.sqrt(sum(factor % 2**STRETCH_POWER != 0 for factor in factors)) * UNIT


def _sign(value: int) -> int:
    return -1 if value < 0 else 1
