"""Exact sensitivities of the central model's release strategies (MATH 3)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


def fresh_sensitivity(steps: int, participations: int) -> float:
    """The norm by which one user moves all batches that have a release of their own each."""
    return math.sqrt(min(whole("steps", steps, 1), whole("participations", participations, 1)))


def fresh_variance(steps: int) -> float:
    """Of everything so far: one release a batch, of variance 1 each."""
    return float(whole("steps", steps, 1))


def tree_levels(steps: int) -> int:
    """Levels of the binary tree over ``steps`` prefix sums: floor(log2 steps) + 1."""
    return whole("steps", steps, 1).bit_length()


def tree_variance(steps: int) -> float:
    """The largest noise variance of a prefix sum, for nodes of variance 1.

    A prefix has as many nodes as its index has set bits.
    """
    return float((whole("steps", steps, 1) + 1).bit_length() - 1)


@lru_cache(maxsize=64)
def tree_sensitivity(steps: int, participations: int) -> float:
    """The largest norm by which one user moves all released nodes, in units of one swap.

    Prefix sums read a node only if it is a left child, so only those are released. A user in
    several steps moves a node by the number of the user's steps below it; the maximum over all
    placements is found by dynamic programming over the tree.
    """
    whole("participations", participations, 1)
    present = min(participations, whole("steps", steps, 1))
    return math.sqrt(int(_spine(steps, present)[present]))


def _spine(steps: int, present: int) -> Counts:
    """Best sum of squares for 0..present user steps in the first ``steps`` leaves."""
    best = np.zeros(1, dtype=np.int64)
    # Largest complete subtree first: it is a left child, what follows is a smaller tree.
    for level in reversed(range(steps.bit_length())):
        if steps >> level & 1:
            left = _complete(level, present)
            best = _combine(best, left + np.arange(left.size) ** 2, present)
    return best


@lru_cache(maxsize=256)
def _complete(level: int, present: int) -> Counts:
    """The same inside a complete subtree of ``2**level`` leaves, its own root left out."""
    if level == 0:
        return np.zeros(min(1, present) + 1, dtype=np.int64)
    half = _complete(level - 1, present)
    return _combine(half + np.arange(half.size) ** 2, half, present)


def _combine(first: Counts, second: Counts, present: int) -> Counts:
    """Max-plus convolution, cut at ``present``."""
    size = min(first.size + second.size - 1, present + 1)
    best = np.zeros(size, dtype=np.int64)
    for count, value in enumerate(first[:size]):
        room = min(second.size, size - count)
        np.maximum(
            best[count : count + room], value + second[:room], out=best[count : count + room]
        )
    return best


def toeplitz_coefficients(steps: int) -> Floats:
    """First column ``(steps,)`` of the square root of the matrix of prefix sums.

    c_0 = 1, c_k = c_{k-1} (2k-1) / (2k): the Taylor series of 1/sqrt(1-x), whose square is
    1 + x + x^2 + ... (Fichtenberger, Henzinger and Upadhyay 2022).
    """
    index = np.arange(1, whole("steps", steps, 1))
    return np.concatenate([[1.0], np.cumprod((2 * index - 1) / (2 * index))])


def toeplitz_variances(steps: int) -> Floats:
    """Noise variance ``(steps,)`` of every prefix sum, for unit noise; it rises."""
    return np.cumsum(toeplitz_coefficients(steps) ** 2)


def toeplitz_variance(steps: int) -> float:
    """The largest noise variance of a prefix sum, for unit noise: the sum of all c_k^2."""
    return float(toeplitz_variances(steps)[-1])


@lru_cache(maxsize=64)
def toeplitz_sensitivity(steps: int, participations: int) -> float:
    """The largest norm of the sum of a user's columns of the root, over all placements.

    The first steps are the worst. Columns i <= j have the product sum_{s < steps-j} c_s c_{s+j-i},
    positive and falling in j and in j - i; the k-th of a user's steps is no earlier than step k and
    no closer to the others, so every product is at most that of the placement at the start.
    """
    whole("participations", participations, 1)
    sums = np.cumsum(toeplitz_coefficients(steps))
    late = sums[: max(0, steps - participations)]
    sums[participations:] -= late.copy()
    return math.sqrt(math.fsum(sums**2))
