"""Regulariser and confidence radius of Algorithm 1 under noise (``thm:general``; MATH 6.3).

Noise and users may be numbers or arrays of them, one a batch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def matrix_noise_bound(std: Any, dim: int, batches: int, confidence: float) -> Any:
    """S: with probability 1 - confidence no prefix's noise matrix has a larger norm.

    ``std`` is per svec coordinate. Exact for Gaussian noise, an approximation for binomial noise.
    """
    return std * (math.sqrt(2 * dim) + math.sqrt(2 * math.log(2 * batches / confidence)))


def vector_noise_bound(std: Any, dim: int, batches: int, confidence: float) -> Any:
    """The same for the norm of the noise vector, one-sided: it fails with confidence/2."""
    return std * (math.sqrt(dim) + math.sqrt(2 * math.log(2 * batches / confidence)))


def regularizer(noise_bound: Any) -> Any:
    """lambda = max(1, 2S): large enough to keep the regularised matrix positive (``cor:subG``)."""
    return np.maximum(1.0, 2 * noise_bound)


def radius(
    users: Any, dim: int, *, lowest: Any, highest: Any, drift: Any, confidence: float
) -> Any:
    """beta_m of lemma ``thm:general`` with lambda_min, lambda_max and nu (``drift``).

    The rewards' part fails with confidence/2; together with the noise bounds above the radius
    holds for all batches with probability 1 - 2 confidence.
    """
    learnt = 2 * math.log(2 / confidence) + dim * np.log1p(users / (dim * lowest))
    return np.sqrt(learnt) + np.sqrt(highest) + drift
