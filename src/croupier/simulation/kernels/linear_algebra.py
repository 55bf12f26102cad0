"""Symmetric matrices: inverses and repairs.

Inverses are not left to a library: it would start threads, which cost more than they save here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.compilation import compiled, inlined
from croupier.simulation.kernels.eigenvalues import rebuild, spectrum

Floats = NDArray[np.float64]


@inlined
def eliminate(room: Floats, k: int) -> None:
    """Take the pivot ``k`` off the rows below, above the diagonal."""
    scale = 1.0 / room[k, k]
    for i in range(k + 1, room.shape[0]):
        factor = room[k, i] * scale
        for j in range(i, room.shape[0]):
            room[i, j] -= factor * room[k, j]


@inlined
def positive(matrix: Floats, shift: float, room: Floats) -> bool:
    """Whether ``matrix`` - shift I is positive, by its pivots."""
    dim = matrix.shape[0]
    for i in range(dim):
        for j in range(i, dim):
            room[i, j] = matrix[i, j]
        room[i, i] -= shift
    for k in range(dim):
        if not room[k, k] > 0.0:
            return False
        eliminate(room, k)
    return True


@inlined
def log_determinant(room: Floats) -> float:
    """Of what is above the diagonal, and infinite where that is not positive; it is used up."""
    found = 0.0
    for k in range(room.shape[0]):
        if not room[k, k] > 0.0:
            return math.inf
        found += math.log(room[k, k])
        eliminate(room, k)
    return found


@inlined
def sweep(inverse: Floats, k: int, row: Floats) -> None:
    """Sweep out the pivot ``k`` of what is above the diagonal."""
    dim, scale = inverse.shape[0], 1.0 / inverse[k, k]
    for i in range(dim):
        row[i] = inverse[min(i, k), max(i, k)]
    for i in range(dim):
        factor = row[i] * scale
        for j in range(i, dim):
            inverse[i, j] -= factor * row[j]
    for i in range(dim):
        inverse[min(i, k), max(i, k)] = row[i] * scale
    inverse[k, k] = -scale


@inlined
def invert(matrix: Floats, inverse: Floats, row: Floats) -> bool:
    """The inverse of a symmetric matrix; False where a pivot, and so the matrix, is not positive.

    Pivots are swept out one after the other.
    """
    dim = matrix.shape[0]
    for i in range(dim):
        for j in range(i, dim):
            inverse[i, j] = matrix[i, j]
    for k in range(dim):
        if not inverse[k, k] > 0.0:
            return False
        sweep(inverse, k, row)
    for i in range(dim):
        for j in range(i, dim):
            inverse[i, j] = inverse[j, i] = -inverse[i, j]
    return True


@inlined
def above(gram: Floats, floor: float, inverse: Floats, room: Floats) -> bool:
    """Whether no eigenvalue of ``gram`` is below ``floor``."""
    trace = 0.0
    for i in range(gram.shape[0]):
        trace += inverse[i, i]
    # The largest eigenvalue of a positive inverse is at most its trace.
    return trace * floor <= 1.0 or positive(gram, floor, room)


@compiled
def repair(
    gram: Floats, floor: float, inverse: Floats, values: Floats, axes: Floats, weights: Floats
) -> int:
    """The inverse with eigenvalues raised to ``floor``, and how many were."""
    spectrum(gram, False, values, axes, weights)
    raised = 0
    for i in range(gram.shape[0]):
        raised += values[i, i] < floor
        weights[i] = 1.0 / max(values[i, i], floor)
    rebuild(axes, weights, inverse)
    return raised


@inlined
def invert_above(
    gram: Floats, floor: float, inverse: Floats, values: Floats, axes: Floats, weights: Floats
) -> int:
    """The inverse, repaired where an eigenvalue is below ``floor``, and how many were raised."""
    if invert(gram, inverse, weights) and above(gram, floor, inverse, values):
        return 0
    return repair(gram, floor, inverse, values, axes, weights)


@inlined
def multiply(matrix: Floats, vector: Floats, product: Floats) -> None:
    """A matrix times a vector."""
    for i in range(matrix.shape[0]):
        value = 0.0
        for j in range(vector.size):
            value += matrix[i, j] * vector[j]
        product[i] = value


@inlined
def halve(matrix: Floats, half: Floats) -> None:
    """The symmetric half: the diagonal, and twice what is above it; below, ``half`` stays zero."""
    for i in range(matrix.shape[0]):
        half[i, i] = matrix[i, i]
        for j in range(i + 1, matrix.shape[0]):
            half[i, j] = 2.0 * matrix[i, j]
