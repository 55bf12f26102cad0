"""Whether a fresh model replaces the published one, as ``policies.publication`` says."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.arrays import GROWTH, RARE, RULE, SAMPLER, THOMPSON, VOLUME, Whole
from croupier.simulation.kernels.compilation import allocating, inlined
from croupier.simulation.kernels.linear_algebra import log_determinant

Floats = NDArray[np.float64]


@inlined
def entry(kind: int, matrix: Floats, i: int, j: int) -> float:
    """Of the matrix itself, which ``sampling`` has the root of."""
    if kind not in (SAMPLER, THOMPSON):
        return matrix[i, j]  # type: ignore[no-any-return]
    found = 0.0
    for k in range(matrix.shape[0]):
        found += matrix[i, k] * matrix[j, k]
    return found


@inlined
def due(
    kind: int, matrix: Floats, shown: Floats, room: Floats, numbers: Floats, counts: Whole
) -> bool:
    """Whether ``matrix`` knows as much more than the one that is ``shown`` as the rule asks.

    The widest ratio of squared widths is above the growth C where C V^-1 - V_shown^-1 is not
    positive, which saves its eigenvalues.
    """
    rare, growth = counts[RULE] == RARE, numbers[GROWTH]
    for i in range(matrix.shape[0]):
        for j in range(i, matrix.shape[0]):
            fresh = entry(kind, matrix, i, j)
            room[i, j] = growth * fresh - entry(kind, shown, i, j) if rare else fresh
    volume = log_determinant(room)
    if rare:
        return volume == math.inf
    if not numbers[VOLUME] - volume > math.log(growth):
        return False
    numbers[VOLUME] = volume
    return True


@allocating
def publish(
    kind: int,
    theta: Floats,
    matrix: Floats,
    half: Floats,
    shown_theta: Floats,
    shown_matrix: Floats,
    shown_half: Floats,
    room: Floats,
    numbers: Floats,
    counts: Whole,
) -> bool:
    """Show the fresh model where it is due."""
    if not due(kind, matrix, shown_matrix, room, numbers, counts):
        return False
    shown_theta[:] = theta
    shown_matrix[:] = matrix
    shown_half[:] = half
    return True
