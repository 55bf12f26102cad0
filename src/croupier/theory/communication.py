"""What one user sends: as the paper counts it, and as croupier does (section ``sec:conclude``)."""

from __future__ import annotations

import math

from croupier.layouts import Layout
from croupier.privacy.budget import Budget


def printed_amplified_numbers(dim: int) -> int:
    """P_Amp in the paper: a vector and a full matrix, d + d^2 real numbers (``alg:Ramp``)."""
    return dim + dim**2


def amplified_numbers(dim: int) -> int:
    """P_Amp here: the upper triangle once, d + d(d+1)/2 real numbers (MATH 1)."""
    return dim + dim * (dim + 1) // 2


def printed_vector_sum_bits(dim: int, grid: float, noise_bits: float) -> float:
    """P_Vec in the paper: (d + d^2)(g + b) bits (``alg:Rvec``)."""
    return (dim + dim**2) * (grid + noise_bits)


def printed_label_bits(dim: int) -> int:
    """What the paper leaves out: the label k or (i, j) that every bit carries (``alg:Rvec``)."""
    return math.ceil(math.log2(dim + dim**2))


def vector_sum_bits(layout: Layout, grid: float, noise_bits: int) -> int:
    """P_Vec here: ceil(grid (high - low)) + noise_bits for every label (MATH 1)."""
    ranges = zip(layout.low.tolist(), layout.high.tolist(), strict=True)
    return sum(math.ceil(grid * (high - low)) + noise_bits for low, high in ranges)


def printed_vector_sum_order(budget: Budget, users: int, dim: int) -> float:
    """The paper's estimate d^2 (sqrt(B) + log(1/delta)/epsilon^2), which loses a square."""
    return dim**2 * (math.sqrt(users) + math.log(1 / budget.delta) / budget.epsilon**2)


def vector_sum_order(budget: Budget, users: int, dim: int) -> float:
    """The order of (d + d^2)(g + b) under ``thm:vec`` once 2 sqrt(B) >= d, constants 1.

    d^2 (sqrt(B) + log^2(d^2/delta)/epsilon^2): b is quadratic in the logarithm.
    """
    noise = (math.log(dim**2 / budget.delta) / budget.epsilon) ** 2
    return dim**2 * (math.sqrt(users) + noise)
