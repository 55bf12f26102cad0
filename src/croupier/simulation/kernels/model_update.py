"""From the sums of a trial to its next model, as ``policies`` make it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.policies.posterior import REWARD_VARIANCE
from croupier.simulation.kernels.arrays import (
    FLIPPED,
    GRID,
    KEPT,
    REPAIRS,
    STALE,
    USERS,
    WEIGHT,
    Whole,
)
from croupier.simulation.kernels.compilation import compiled, inlined
from croupier.simulation.kernels.eigenvalues import rebuild, spectrum
from croupier.simulation.kernels.linear_algebra import (
    halve,
    invert,
    invert_above,
    multiply,
)

Floats = NDArray[np.float64]

FRESH = 32
"""Models that may be made from the last one before rounding adds up: a rank-one update, of which
there may be one more a dimension, or a turn of the axes."""

STRONG = 1.0
"""A squared width x' M x from which an update loses digits, so that it is computed afresh too."""


@inlined
def decode_vector(total: Floats, noise: Floats, open_batch: int, vector: Floats) -> None:
    """The vector of all batches so far, with its noise."""
    noisy = noise.shape[0] > 0
    for i in range(vector.size):
        vector[i] = total[i] + (noise[open_batch, i] if noisy else 0.0)


@inlined
def decode_matrix(
    total: Floats, noise: Floats, open_batch: int, shrink: Floats, gram: Floats
) -> None:
    """The gram matrix of all batches so far, with its noise."""
    dim, place, noisy = gram.shape[0], gram.shape[0], noise.shape[0] > 0
    for i in range(dim):
        for j in range(i, dim):
            entry = total[place] + (noise[open_batch, place] if noisy else 0.0)
            entry *= shrink[place - dim]
            gram[i, j] = entry
            gram[j, i] = entry
            place += 1


@compiled
def close_sums(
    closing: int, codes: Floats, low: Floats, steps: Floats, closed: Floats, total: Floats
) -> None:
    """The last of the ``closing`` sums replaces what was closed below it."""
    levels, size = closed.shape
    last = closing - 1
    for level in range(last):
        closed[level] = 0.0
        steps[level] = 0.0
    per_step = 1.0 / (codes[last, GRID] * codes[last, KEPT])
    for place in range(size):
        flips = codes[last, USERS] * codes[last, FLIPPED]
        shift = codes[last, USERS] * low[place]
        closed[last, place] += (steps[last, place] - flips) * per_step + shift
        steps[last, place] = 0.0
        total[place] = 0.0
        for level in range(levels):
            total[place] += closed[level, place]


@inlined
def projected(x: Floats, matrix: Floats, step: Floats) -> float:
    """The step M x and the squared width x' M x."""
    multiply(matrix, x, step)
    square = 0.0
    for i in range(x.size):
        square += x[i] * step[i]
    return square


@inlined
def turn_model(
    x: Floats,
    vector: Floats,
    matrix: Floats,
    half: Floats,
    theta: Floats,
    step: Floats,
    scale: float,
) -> None:
    """M - M x x' M scale in all its forms: the matrix, its half, and M times the vector."""
    theta[:] = 0.0
    for i in range(x.size):
        factor = step[i] * scale
        entry = matrix[i, i] - factor * step[i]
        matrix[i, i] = half[i, i] = entry
        theta[i] += entry * vector[i]
        for j in range(i + 1, x.size):
            entry = matrix[i, j] - factor * step[j]
            matrix[i, j] = matrix[j, i] = entry
            half[i, j] = 2.0 * entry
            theta[i] += entry * vector[j]
            theta[j] += entry * vector[i]


@inlined
def update(
    weight: float,
    x: Floats,
    vector: Floats,
    matrix: Floats,
    half: Floats,
    theta: Floats,
    step: Floats,
    numbers: Floats,
    counts: Whole,
) -> bool:
    """The model after one more user in the clear (Sherman and Morrison), where that is safe."""
    dim = x.size
    if weight != numbers[WEIGHT] or counts[STALE] >= FRESH + dim:
        return False
    square = projected(x, matrix, step)
    if square > STRONG:
        return False
    turn_model(x, vector, matrix, half, theta, step, 1.0 / (1.0 + square))
    counts[STALE] += 1
    return True


@inlined
def learn_inverse(
    noisy: bool,
    weight: float,
    gram: Floats,
    matrix: Floats,
    values: Floats,
    axes: Floats,
    weights: Floats,
    numbers: Floats,
    counts: Whole,
    vector: Floats,
    half: Floats,
    theta: Floats,
) -> None:
    """theta = (gram + weight I)^-1 vector, repaired where noise took the matrix too low."""
    for i in range(gram.shape[0]):
        gram[i, i] += weight
    if noisy:
        counts[REPAIRS] += invert_above(gram, weight / 2, matrix, values, axes, weights)
    else:
        invert(gram, matrix, weights)
    multiply(matrix, vector, theta)
    halve(matrix, half)
    numbers[WEIGHT] = weight
    counts[STALE] = 0


@compiled
def learn_posterior(
    hidden: float,
    rooted: bool,
    gram: Floats,
    vector: Floats,
    theta: Floats,
    matrix: Floats,
    values: Floats,
    axes: Floats,
    weights: Floats,
    counts: Whole,
) -> None:
    """Mean and covariance of theta, or the covariance's root, direction by direction."""
    dim = theta.size
    spectrum(gram, 0 < counts[STALE] < FRESH, values, axes, weights)
    counts[STALE] = counts[STALE] % FRESH + 1
    theta[:] = 0.0
    for i in range(dim):
        seen = max(values[i, i], 0.0)
        variance = REWARD_VARIANCE * seen + hidden
        weight = seen / variance if variance > 0.0 else 0.0
        precision = seen * weight + dim
        weights[i] = math.sqrt(1.0 / precision) if rooted else 1.0 / precision
        moved = 0.0
        for j in range(dim):
            moved += axes[i, j] * vector[j]
        for j in range(dim):
            theta[j] += axes[i, j] * (weight / precision * moved)
    rebuild(axes, weights, matrix)
