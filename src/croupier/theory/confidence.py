"""Regulariser and confidence radius of Algorithm 1 under noise (``thm:general``; MATH 6.3)."""

from __future__ import annotations

import math


def matrix_noise_bound(std: float, dim: int, batches: int, confidence: float) -> float:
    """S: with probability 1 - confidence no prefix's noise matrix has a larger norm.

    ``std`` is per svec coordinate. Exact for Gaussian noise, an approximation for binomial noise.
    """
    return std * (math.sqrt(2 * dim) + math.sqrt(2 * math.log(2 * batches / confidence)))


def vector_noise_bound(std: float, dim: int, batches: int, confidence: float) -> float:
    """The same for the norm of the noise vector."""
    return std * (math.sqrt(dim) + math.sqrt(2 * math.log(2 * batches / confidence)))


def regularizer(noise_bound: float) -> float:
    """lambda = max(1, 2S): large enough to keep the regularised matrix positive (``cor:subG``)."""
    return max(1.0, 2 * noise_bound)


def radius(
    users: int, dim: int, *, lowest: float, highest: float, drift: float, confidence: float
) -> float:
    """beta_m of lemma ``thm:general`` with lambda_min, lambda_max and nu (``drift``)."""
    learnt = 2 * math.log(2 / confidence) + dim * math.log1p(users / (dim * lowest))
    return math.sqrt(learnt) + math.sqrt(highest) + drift
