"""Scores of all arms of one round, and the arm that they choose.

Features are ``(dim, arms)``: the arms of a coordinate lie next to each other, so that a processor
works on several at once. Quadratic forms are read from their symmetric half, ``half (dim, dim)``:
the diagonal, and twice what is above it. Passes over the arms take five coordinates at a time.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.policies.pick import TIE
from croupier.simulation.kernels.arrays import OPTIMIST, SAMPLER, THOMPSON
from croupier.simulation.kernels.compilation import allocating, compiled, inlined
from croupier.simulation.kernels.linear_algebra import multiply

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

STEP = 5
"""Coordinates of a pass."""

DENSE = 20
"""Dimensions from which a library's matrix product is faster."""

BLOCK_ROWS = 25
UNTHREADED = 2**18
"""Multiplications of a product below which a library starts no threads."""

NEVER = -1e300
"""The score of an arm that is not available."""


@compiled
def add_means(x: Floats, i: int, vector: Floats, means: Floats) -> None:
    """Five coordinates of <x, vector>."""
    a, b, c, d, e = x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4]
    v0, v1, v2, v3, v4 = vector[i], vector[i + 1], vector[i + 2], vector[i + 3], vector[i + 4]
    for k in range(means.size):
        means[k] += v0 * a[k] + v1 * b[k] + v2 * c[k] + v3 * d[k] + v4 * e[k]


@compiled
def project(x: Floats, vector: Floats, means: Floats) -> None:
    """<x, vector> of every arm."""
    dim = x.shape[0]
    means[:] = 0.0
    for i in range(0, dim - STEP + 1, STEP):
        add_means(x, i, vector, means)
    for i in range(dim - dim % STEP, dim):
        row, value = x[i], vector[i]
        for k in range(means.size):
            means[k] += value * row[k]


@compiled
def add_corner(x: Floats, i: int, half: Floats, squares: Floats) -> None:
    """The form of five coordinates among themselves."""
    a, b, c, d, e = x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4]
    h = half[i : i + 5, i : i + 5]
    h00, h01, h02, h03, h04 = h[0, 0], h[0, 1], h[0, 2], h[0, 3], h[0, 4]
    h11, h12, h13, h14 = h[1, 1], h[1, 2], h[1, 3], h[1, 4]
    h22, h23, h24, h33, h34, h44 = h[2, 2], h[2, 3], h[2, 4], h[3, 3], h[3, 4], h[4, 4]
    for k in range(squares.size):
        p, q, r, s, t = a[k], b[k], c[k], d[k], e[k]
        first = p * (h00 * p + h01 * q + h02 * r + h03 * s + h04 * t)
        second = q * (h11 * q + h12 * r + h13 * s + h14 * t)
        third = r * (h22 * r + h23 * s + h24 * t)
        squares[k] += first + second + third + s * (h33 * s + h34 * t) + t * (h44 * t)


@compiled
def add_row(x: Floats, i: int, j: int, half: Floats, squares: Floats) -> None:
    """The form of coordinate ``j`` with the five from ``i`` on, which come before it."""
    a, b, c, d, e, own = x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[j]
    h0, h1, h2, h3, h4 = half[i, j], half[i + 1, j], half[i + 2, j], half[i + 3, j], half[i + 4, j]
    for k in range(squares.size):
        squares[k] += own[k] * (h0 * a[k] + h1 * b[k] + h2 * c[k] + h3 * d[k] + h4 * e[k])


@compiled
def add_pair(x: Floats, i: int, j: int, half: Floats, squares: Floats) -> None:
    """The form of two coordinates."""
    one, other, value = x[i], x[j], half[i, j]
    for k in range(squares.size):
        squares[k] += value * one[k] * other[k]


@compiled
def widen(x: Floats, half: Floats, squares: Floats) -> None:
    """x' M x of every arm, pass by pass."""
    dim = x.shape[0]
    blocked = dim - dim % STEP
    squares[:] = 0.0
    for i in range(0, blocked, STEP):
        add_corner(x, i, half, squares)
        for j in range(i + STEP, dim):
            add_row(x, i, j, half, squares)
    for i in range(blocked, dim):
        for j in range(i, dim):
            add_pair(x, i, j, half, squares)


@allocating
def widen_dense(x: Floats, half: Floats, squares: Floats) -> None:
    """The same by products of blocks of rows, each too small for the library to start threads."""
    dim, arms = x.shape
    rows = max(1, min(BLOCK_ROWS, UNTHREADED // (dim * arms)))
    squares[:] = 0.0
    for i in range(0, dim, rows):
        stop = min(i + rows, dim)
        part = np.ascontiguousarray(half[i:stop, i:])
        product = np.dot(part, x[i:])
        for j in range(i, stop):
            row, own = product[j - i], x[j]
            for k in range(arms):
                squares[k] += own[k] * row[k]


@inlined
def score_five(x: Floats, theta: Floats, half: Floats, radius: float, scores: Floats) -> None:
    """The scores of arms of five coordinates, in one pass."""
    a, b, c, d, e, h = x[0], x[1], x[2], x[3], x[4], half
    v0, v1, v2, v3, v4 = theta[0], theta[1], theta[2], theta[3], theta[4]
    h00, h01, h02, h03, h04 = h[0, 0], h[0, 1], h[0, 2], h[0, 3], h[0, 4]
    h11, h12, h13, h14 = h[1, 1], h[1, 2], h[1, 3], h[1, 4]
    h22, h23, h24, h33, h34, h44 = h[2, 2], h[2, 3], h[2, 4], h[3, 3], h[3, 4], h[4, 4]
    for k in range(scores.size):
        p, q, r, s, t = a[k], b[k], c[k], d[k], e[k]
        first = p * (h00 * p + h01 * q + h02 * r + h03 * s + h04 * t)
        second = q * (h11 * q + h12 * r + h13 * s + h14 * t)
        third = r * (h22 * r + h23 * s + h24 * t)
        square = first + second + third + s * (h33 * s + h34 * t) + t * (h44 * t)
        mean = v0 * p + v1 * q + v2 * r + v3 * s + v4 * t
        scores[k] = mean + radius * math.sqrt(max(square, 0.0))


@inlined
def score_optimist(
    x: Floats, theta: Floats, half: Floats, radius: float, scores: Floats, squares: Floats
) -> None:
    """<x, theta> + radius sqrt(x' M x) of every arm."""
    if x.shape[0] == STEP:
        score_five(x, theta, half, radius, scores)
        return
    project(x, theta, scores)
    if x.shape[0] < DENSE:
        widen(x, half, squares)
    else:
        widen_dense(x, half, squares)
    for k in range(scores.size):
        scores[k] += radius * math.sqrt(max(squares[k], 0.0))


@inlined
def stray_five(x: Floats, theta: Floats, strayed: Floats, scores: Floats) -> None:
    """<x, theta> + max(<x, strayed>, 0) of arms of five coordinates, in one pass."""
    a, b, c, d, e = x[0], x[1], x[2], x[3], x[4]
    v0, v1, v2, v3, v4 = theta[0], theta[1], theta[2], theta[3], theta[4]
    s0, s1, s2, s3, s4 = strayed[0], strayed[1], strayed[2], strayed[3], strayed[4]
    for k in range(scores.size):
        mean = v0 * a[k] + v1 * b[k] + v2 * c[k] + v3 * d[k] + v4 * e[k]
        more = s0 * a[k] + s1 * b[k] + s2 * c[k] + s3 * d[k] + s4 * e[k]
        scores[k] = mean + max(more, 0.0)


@inlined
def score_strayed(x: Floats, theta: Floats, strayed: Floats, scores: Floats, spare: Floats) -> None:
    """<x, theta> + max(<x, strayed>, 0) of every arm."""
    if x.shape[0] == STEP:
        stray_five(x, theta, strayed, scores)
        return
    project(x, theta, scores)
    project(x, strayed, spare)
    for k in range(scores.size):
        scores[k] += max(spare[k], 0.0)


@inlined
def score(
    kind: int,
    x: Floats,
    draw: Floats,
    scale: float,
    theta: Floats,
    matrix: Floats,
    half: Floats,
    strayed: Floats,
    scores: Floats,
    spare: Floats,
) -> None:
    """Scores of all arms ``x (dim, arms)`` under a model: its root for ``sampling``, or half."""
    if kind in (SAMPLER, THOMPSON):
        multiply(matrix, draw, strayed)
        for i in range(draw.size):
            strayed[i] = scale * strayed[i] + (theta[i] if kind == THOMPSON else 0.0)
        if kind == THOMPSON:
            project(x, strayed, scores)
        else:
            score_strayed(x, theta, strayed, scores, spare)
    else:
        width = scale if kind == OPTIMIST else scale * abs(draw[0])
        score_optimist(x, theta, half, width, scores, spare)


@inlined
def largest(values: Floats) -> float:
    """The greatest value, in eight lanes that a processor compares at once."""
    a = b = c = d = e = f = g = h = values[0]
    whole = values.size - values.size % 8
    for k in range(0, whole, 8):
        a, b = max(a, values[k]), max(b, values[k + 1])
        c, d = max(c, values[k + 2]), max(d, values[k + 3])
        e, f = max(e, values[k + 4]), max(f, values[k + 5])
        g, h = max(g, values[k + 6]), max(h, values[k + 7])
    for k in range(whole, values.size):
        a = max(a, values[k])
    return float(max(a, b, c, d, e, f, g, h))


@inlined
def first_best(scores: Floats) -> int:
    """The lowest index among the best arms, as ``pick`` has it."""
    best = largest(scores)
    least = best - TIE * abs(best)
    found = scores.size
    # Every arm is looked at: leaving early would have to guess where, and be wrong.
    for k in range(scores.size):
        found = min(found, k if scores[k] >= least else scores.size)
    return found


@inlined
def withhold(scores: Floats, available: Mask) -> None:
    """Arms that are not available are never chosen."""
    for k in range(scores.size):
        if not available[k]:
            scores[k] = NEVER
