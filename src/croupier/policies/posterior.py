"""The Wiener posterior of theta that ``sampling`` and ``randucb`` publish (MATH 6.5)."""

from __future__ import annotations

import numpy as np

from croupier.model import Model, ReleasedSums
from croupier.policies.base import Floats

REWARD_VARIANCE = 0.25
"""The most that a reward in [0, 1] can vary."""


def posterior_model(name: str, sums: ReleasedSums, matrix_noise: float, scale: float) -> Model:
    """Mean and covariance as the model of the policy called ``name``."""
    theta, covariance = posterior(sums, matrix_noise)
    return Model(name, theta, covariance, scale, version=sums.batches, users=sums.users)


def posterior(sums: ReleasedSums, matrix_noise: float) -> tuple[Floats, Floats]:
    """Mean ``(..., dim)`` and covariance of theta, direction by direction of the gram matrix."""
    values, axes = np.linalg.eigh(sums.matrix)
    seen = np.maximum(values, 0.0)
    hidden = sums.noise_variance * (1 + matrix_noise**2 / 2)
    variance = REWARD_VARIANCE * seen + hidden
    weight = np.divide(seen, variance, out=np.zeros_like(seen), where=variance > 0)
    precision = seen * weight + sums.vector.shape[-1]
    moved = np.einsum("...di,...d->...i", axes, sums.vector)
    theta = np.einsum("...di,...i->...d", axes, weight / precision * moved)
    return theta, np.einsum("...di,...i,...ei->...de", axes, 1 / precision, axes)
