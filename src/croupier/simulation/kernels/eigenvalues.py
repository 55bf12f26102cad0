"""Eigenvalues and eigenvectors of symmetric matrices.

``values`` are kept above the diagonal and on it, where the eigenvalues end; the rows of ``axes``
are the eigenvectors.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.compilation import allocating, compiled, inlined

Floats = NDArray[np.float64]

SMALL = 16
"""Dimensions below which Jacobi's method is faster than a library."""

SWEEPS = 30
CONVERGED = 1e-26
"""Squared size of what a diagonal matrix may have beside its diagonal, relative to it."""


@inlined
def mix(first: float, second: float, cosine: float, sine: float) -> tuple[float, float]:
    """A point in the plane, turned."""
    return cosine * first - sine * second, sine * first + cosine * second


@inlined
def turn(values: Floats, axes: Floats, p: int, q: int) -> None:
    """One Jacobi rotation of p < q: ``values[p, q]`` becomes 0 and ``axes`` turn along."""
    dim, entry, gap = values.shape[0], values[p, q], values[q, q] - values[p, p]
    width = math.sqrt(gap * gap + 4.0 * entry * entry)
    tangent = 2.0 * entry / (gap + math.copysign(width, gap))
    cosine = 1.0 / math.sqrt(tangent * tangent + 1.0)
    sine = tangent * cosine
    values[p, p] -= tangent * entry
    values[q, q] += tangent * entry
    values[p, q] = 0.0
    for k in range(p):
        values[k, p], values[k, q] = mix(values[k, p], values[k, q], cosine, sine)
    for k in range(p + 1, q):
        values[p, k], values[k, q] = mix(values[p, k], values[k, q], cosine, sine)
    for k in range(q + 1, dim):
        values[p, k], values[q, k] = mix(values[p, k], values[q, k], cosine, sine)
    for k in range(dim):
        axes[p, k], axes[q, k] = mix(axes[p, k], axes[q, k], cosine, sine)


@inlined
def turn_all(values: Floats, axes: Floats, least: float) -> None:
    """A rotation for every pair whose squared entry is above ``least``.

    The pairs come as in a tournament, where two in a row have nobody in common: a processor works
    on both at once.
    """
    dim = values.shape[0]
    others = dim + dim % 2 - 1
    for day in range(others):
        for game in range((others + 1) // 2):
            one = others if game == 0 else (day + game) % others
            other = (day - game + others) % others
            p, q = min(one, other), max(one, other)
            if q < dim and values[p, q] * values[p, q] > least:
                turn(values, axes, p, q)


@compiled
def diagonalise(values: Floats, axes: Floats) -> None:
    """Turn the symmetric ``values`` until they are diagonal, and ``axes`` along with them."""
    dim = values.shape[0]
    for _ in range(SWEEPS):
        aside, along = 0.0, 0.0
        for i in range(dim):
            along += values[i, i] * values[i, i]
            for j in range(i + 1, dim):
                aside += values[i, j] * values[i, j]
        if aside <= CONVERGED * along:
            return
        # Entries that are together within the bound, however many, are left as they are.
        turn_all(values, axes, CONVERGED * along / (dim * dim))


@compiled
def turned(matrix: Floats, axes: Floats, values: Floats, spare: Floats) -> None:
    """axes matrix axes' into ``values``, column by column."""
    dim = matrix.shape[0]
    for k in range(dim):
        spare[:] = 0.0
        for i in range(dim):
            for j in range(dim):
                spare[j] += axes[k, i] * matrix[i, j]
        for j in range(k + 1):
            values[j, k] = 0.0
            for i in range(dim):
                values[j, k] += axes[j, i] * spare[i]


@allocating
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
        axes[:] = vectors.T
        for i in range(dim):
            values[i, i] = found[i]


@compiled
def rebuild(axes: Floats, weights: Floats, matrix: Floats) -> None:
    """sum_k weights_k a_k a_k' over the rows of ``axes``."""
    dim = axes.shape[0]
    matrix[:] = 0.0
    for k in range(dim):
        for i in range(dim):
            factor = axes[k, i] * weights[k]
            for j in range(dim):
                matrix[i, j] += factor * axes[k, j]
