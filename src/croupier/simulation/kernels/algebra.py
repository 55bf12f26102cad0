"""Symmetric matrices: inverses, repairs, spectra.

Inverses are not left to a library: it would start threads, which cost more than they save here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.compiled import compiled, inlined

Floats = NDArray[np.float64]

SMALL = 16
"""Dimensions below which Jacobi's method is faster than a library."""

SWEEPS = 30
CONVERGED = 1e-30
"""Squared size of what a diagonal matrix may have beside its diagonal, relative to it."""


@inlined
def positive(matrix: Floats, shift: float, room: Floats) -> bool:
    """Whether ``matrix`` - shift I is positive, by its pivots."""
    dim = matrix.shape[0]
    for i in range(dim):
        for j in range(i, dim):
            room[i, j] = matrix[i, j]
        room[i, i] -= shift
    for k in range(dim):
        pivot = room[k, k]
        if not pivot > 0.0:
            return False
        scale = 1.0 / pivot
        for i in range(k + 1, dim):
            factor = room[k, i] * scale
            for j in range(i, dim):
                room[i, j] -= factor * room[k, j]
    return True


@inlined
def eliminate(room: Floats, k: int) -> None:
    """Take the pivot ``k`` off the rows below, above the diagonal."""
    scale = 1.0 / room[k, k]
    for i in range(k + 1, room.shape[0]):
        factor = room[k, i] * scale
        for j in range(i, room.shape[0]):
            room[i, j] -= factor * room[k, j]


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


@compiled
def turn(values: Floats, axes: Floats, p: int, q: int) -> None:
    """One Jacobi rotation: ``values[p, q]`` becomes 0 and ``axes`` turn along."""
    entry = values[p, q]
    if entry == 0.0:
        return
    ratio = (values[q, q] - values[p, p]) / (2.0 * entry)
    tangent = 1.0 / (abs(ratio) + math.sqrt(ratio * ratio + 1.0))
    if ratio < 0.0:
        tangent = -tangent
    cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    values[p, p] -= tangent * entry
    values[q, q] += tangent * entry
    values[p, q] = values[q, p] = 0.0
    for k in range(values.shape[0]):
        if k not in (p, q):
            first, second = values[k, p], values[k, q]
            values[k, p] = values[p, k] = cosine * first - sine * second
            values[k, q] = values[q, k] = sine * first + cosine * second
        first, second = axes[k, p], axes[k, q]
        axes[k, p] = cosine * first - sine * second
        axes[k, q] = sine * first + cosine * second


@compiled
def diagonalise(values: Floats, axes: Floats) -> None:
    """Turn the symmetric ``values`` until they are diagonal, and ``axes`` along with them."""
    dim = values.shape[0]
    for _ in range(SWEEPS):
        aside, along = 0.0, 0.0
        for i in range(dim):
            along += values[i, i] * values[i, i]
            for j in range(i):
                aside += values[i, j] * values[i, j]
        if aside <= CONVERGED * along:
            return
        # Entries that are together within the bound, however many, are left as they are.
        least = CONVERGED * along / (dim * dim)
        for p in range(dim - 1):
            for q in range(p + 1, dim):
                if values[p, q] * values[p, q] > least:
                    turn(values, axes, p, q)


@compiled
def turned(matrix: Floats, axes: Floats, values: Floats, spare: Floats) -> None:
    """axes' matrix axes into ``values``, column by column."""
    dim = matrix.shape[0]
    for k in range(dim):
        for i in range(dim):
            spare[i] = 0.0
            for j in range(dim):
                spare[i] += matrix[i, j] * axes[j, k]
        for j in range(dim):
            values[j, k] = 0.0
            for i in range(dim):
                values[j, k] += axes[i, j] * spare[i]


@compiled
def spectrum(matrix: Floats, known: bool, values: Floats, axes: Floats, spare: Floats) -> None:
    """Eigenvalues of a symmetric ``matrix`` on the diagonal of ``values``, vectors in ``axes``.

    Where ``known``, ``axes`` are orthonormal and near the vectors already, which saves turns.
    """
    dim = matrix.shape[0]
    if dim < SMALL:
        if known:
            turned(matrix, axes, values, spare)
        else:
            values[:] = matrix
            axes[:] = 0.0
            for i in range(dim):
                axes[i, i] = 1.0
        diagonalise(values, axes)
    else:
        found, vectors = np.linalg.eigh(matrix)
        axes[:] = vectors
        for i in range(dim):
            values[i, i] = found[i]


@compiled
def rebuild(axes: Floats, weights: Floats, matrix: Floats) -> None:
    """sum_i weights_i a_i a_i' over the columns of ``axes``."""
    dim = axes.shape[0]
    if dim >= SMALL:
        columns = np.ascontiguousarray(axes.T)
        matrix[:] = 0.0
        for i in range(dim):
            for k in range(dim):
                factor = axes[i, k] * weights[k]
                for j in range(dim):
                    matrix[i, j] += factor * columns[k, j]
        return
    for i in range(dim):
        for j in range(i + 1):
            value = 0.0
            for k in range(dim):
                value += axes[i, k] * weights[k] * axes[j, k]
            matrix[i, j] = value
            matrix[j, i] = value


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
