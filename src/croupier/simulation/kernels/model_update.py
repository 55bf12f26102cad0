"""From the sums of a trial to its next model, as ``policies`` make it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.arrays import (
    FLIPPED,
    GRID,
    KEPT,
    REPAIRS,
    STALE,
    USERS,
    WEIGHT,
    BatchInputs,
    Coding,
    TrialState,
    Whole,
)
from croupier.simulation.kernels.compilation import compiled, inlined
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
def decode(total: Floats, users: float, coding: Coding, vector: Floats, gram: Floats) -> None:
    """Moments of the sums ``total (size,)`` of so many users."""
    dim, shrink = vector.size, coding.shrink
    for i in range(dim):
        vector[i] = total[i] * shrink[i]
    if coding.known > 0.0:
        gram[dim - 1, dim - 1] = coding.known * users
    for k in range(coding.rows.size):
        i, j = coding.rows[k], coding.columns[k]
        gram[i, j] = gram[j, i] = total[dim + k] * shrink[dim + k]


@inlined
def close_part(open_batch: int, batches: BatchInputs, coding: Coding, state: TrialState) -> int:
    """The sum that a batch completes, with its noise, into ``total``; the level that it is of."""
    part, total, level = state.part, state.total, 0
    if coding.rounded:
        level = int(batches.closing[open_batch]) - 1
        unround(level, batches.codes[open_batch], coding.low, state.steps, part)
    noisy = batches.noise.shape[0] > 0
    for place in range(total.size):
        total[place] = part[place] + (batches.noise[open_batch, place] if noisy else 0.0)
    if not coding.correlated:
        part[:] = 0.0
    return level


@compiled
def unround(level: int, codes: Floats, low: Floats, steps: Floats, part: Floats) -> None:
    """The sum of a level from its steps; it ends with those of all levels below."""
    per_step = 1.0 / (codes[level, GRID] * codes[level, KEPT])
    flips = codes[level, USERS] * codes[level, FLIPPED]
    for place in range(part.size):
        shift = codes[level, USERS] * low[place]
        part[place] = (steps[level, place] - flips) * per_step + shift
    for below in range(level + 1):
        steps[below] = 0.0


@inlined
def add_before(level: int, correlated: bool, totals: Floats, total: Floats) -> None:
    """All sums before this one are added to it, and become those before later ones."""
    for place in range(total.size):
        total[place] += totals[level, place]
    if not correlated:
        for below in range(level + 1):
            for place in range(total.size):
                totals[below, place] = total[place]


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
