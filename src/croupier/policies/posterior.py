"""What ``sampling``, ``randucb`` and ``thompson`` know of theta: one Bayes update per released sum.

Rewards are z.theta + beta + 1/2 plus their noise; the state is the precision of (theta, beta) and
that times its mean. An early noisy batch keeps its own small weight, whatever comes later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.layouts import Layout
from croupier.model import Model, ReleasedSums

Floats = NDArray[np.float64]

OFFSET_PRECISION = 12.0
"""Of beta before anything is known: it lies in [-1/2, 1/2]."""

REWARD_VARIANCE = 0.25
"""The most that a reward in [0, 1] can vary."""

MOST_EXPLAINED = 0.15
"""Of that variance, the most that the model is believed to explain."""

LEAST_SQUARE = 0.1
"""Of (theta, beta) in units of the moments, as noise of the matrix is counted."""

ROUNDS = 2
"""Passes of an update: the noise depends on the mean, which is the old one at first."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Precision ``(..., p, p)`` of (theta, beta) and ``linear (..., p)``, precision times mean."""

    precision: Floats
    linear: Floats
    users: int = 0
    batches: int = 0

    @property
    def mean(self) -> Floats:
        """Of (theta, beta)."""
        return np.asarray(np.linalg.solve(self.precision, self.linear[..., None])[..., 0])


@dataclass(frozen=True)
class LinearPrior:
    """What is known before any user: theta ~ N(0, I/(k + 1)), and how moments are measured.

    ``feature_unit`` and ``offset_unit`` are what one unit of a feature and of the offset is in the
    moments; ``matrix_noise`` is the noise of their matrix, per svec coordinate, for noise 1 per
    released coordinate. ``drift`` is how far theta moves per user and coordinate.
    """

    features: int
    feature_unit: float
    offset_unit: float
    matrix_noise: float
    drift: float = 0.0

    @classmethod
    def of(cls, layout: Layout, drift: float = 0.0) -> LinearPrior:
        """For the moments of a layout."""
        units = layout.units.tolist()
        told = layout.free, units[0], units[-1], layout.matrix_noise_factor, drift
        return cls(*told) if layout.blocks == 1 else BlockPrior(*told, layout.blocks)

    @classmethod
    def restore(cls, parameters: dict[str, Any]) -> LinearPrior:
        """From a document, where only a prior of blocks has their number."""
        return BlockPrior(**parameters) if "blocks" in parameters else cls(**parameters)

    @property
    def units(self) -> Floats:
        """E: of every feature, then of the offset."""
        return np.append(np.full(self.features, self.feature_unit), self.offset_unit)

    @property
    def state(self) -> Posterior:
        """Before any user."""
        diagonal = np.append(np.full(self.features, self.features + 1.0), OFFSET_PRECISION)
        return Posterior(np.diag(diagonal), np.zeros(self.features + 1))

    def learn(self, state: Posterior, sums: ReleasedSums) -> Posterior:
        """What is known after one more released sum, of users who are in no other.

        The sum's vector is G E^-1 (theta, beta) plus noise, whose covariance R grows with what the
        model leaves unexplained, with the noise of both moments, and with the mean that the noise
        of the matrix is multiplied by.
        """
        prior = self._drifted(state, sums.users)
        gram = _positive(sums.matrix)
        design = gram / self.units
        mean, found = state.mean, prior
        for _ in range(ROUNDS):
            left = self._left_unexplained(prior, mean, gram, self._users(gram, sums))
            found = self._updated(prior, sums, gram, design, mean, left)
            mean = found.mean
        return found

    def _users(self, gram: Floats, sums: ReleasedSums) -> Any:
        """Users whose moments these are."""
        return sums.users

    def _left_unexplained(self, prior: Posterior, mean: Floats, gram: Floats, users: Any) -> Floats:
        """v ``(...)``: of a reward's variance what the mean does not explain, 0.1 at least."""
        scaled = mean / self.units
        spread = np.linalg.solve(prior.precision, gram / np.outer(self.units, self.units))
        explained = np.einsum("...i,...ij,...j->...", scaled, gram, scaled)
        explained = explained - np.einsum("...ii->...", spread)
        return np.asarray(REWARD_VARIANCE - np.clip(explained / users, 0.0, MOST_EXPLAINED))

    def _updated(
        self,
        prior: Posterior,
        sums: ReleasedSums,
        gram: Floats,
        design: Floats,
        mean: Floats,
        left: Floats,
    ) -> Posterior:
        """L + A'R^-1 A and e + A'R^-1 u, with A the ``design``."""
        if sums.noise_variance == 0:  # R = v G cancels against A, whatever G does not reach.
            weight = 1 / (left[..., None] * self.units)
            precision = weight[..., None] * design
            linear = weight * sums.vector
        else:
            noise = self._noise(gram, mean / self.units, left, sums.noise_variance)
            gain = np.swapaxes(np.linalg.solve(noise, design), -1, -2)
            precision = gain @ design
            linear = np.einsum("...ij,...j->...i", gain, sums.vector)
        return Posterior(
            prior.precision + precision,
            prior.linear + linear,
            prior.users + sums.users,
            max(prior.batches, sums.batches),
        )

    def _noise(self, gram: Floats, scaled: Floats, left: Floats, variance: float) -> Floats:
        """R: of rewards, of the matrix times what it is multiplied by, and of the vector."""
        square = np.maximum(np.einsum("...i,...i->...", scaled, scaled), LEAST_SQUARE)
        identity = np.eye(gram.shape[-1])
        moved = square[..., None, None] * identity + scaled[..., :, None] * scaled[..., None, :]
        hidden = variance * (self.matrix_noise**2 / 2 * moved + identity)
        return np.asarray(left[..., None, None] * gram + hidden)

    def _drifted(self, state: Posterior, users: int) -> Posterior:
        """What is still known of theta after so many users have come, if it moves."""
        if self.drift == 0:
            return state
        k = self.features
        covariance = np.linalg.inv(state.precision)
        covariance[..., :k, :k] += self.drift**2 * users * np.eye(k)
        precision = np.linalg.inv(covariance)
        linear = np.einsum("...ij,...j->...i", precision, state.mean)
        return Posterior(precision, linear, state.users, state.batches)

    def model(self, policy: str, state: Posterior, scale: float) -> Model:
        """Mean and covariance of theta: beta is the same for all arms."""
        k = self.features
        covariance = np.asarray(np.linalg.inv(state.precision)[..., :k, :k], dtype=np.float64)
        return Model(
            policy, state.mean[..., :k], covariance, scale, version=state.batches, users=state.users
        )


@dataclass(frozen=True)
class BlockPrior(LinearPrior):
    """The same for each of ``blocks`` arms with parameters and an offset of their own.

    The state has an axis of blocks, and every released sum updates all of them. A model has theta
    and beta of one block after the other, since offsets differ between arms.
    """

    blocks: int = 2

    @property
    def state(self) -> Posterior:
        """Every block alike."""
        one = super().state
        shape = self.blocks, *one.linear.shape
        precision = np.broadcast_to(one.precision, (*shape, shape[-1]))
        return Posterior(precision, np.broadcast_to(one.linear, shape))

    def _users(self, gram: Floats, sums: ReleasedSums) -> Any:
        """Those of each block ``(..., blocks)``, as its offset counts them."""
        return np.maximum(gram[..., -1, -1] / self.offset_unit**2, 1.0)

    def model(self, policy: str, state: Posterior, scale: float) -> Model:
        """Mean and covariance of all blocks, which know nothing of each other."""
        mean, inverse = state.mean, np.asarray(np.linalg.inv(state.precision), dtype=np.float64)
        theta = mean.reshape(*mean.shape[:-2], -1)
        return Model(
            policy, theta, _diagonal(inverse), scale, version=state.batches, users=state.users
        )


def _diagonal(blocks: Floats) -> Floats:
    """The matrix ``(..., blocks * p, blocks * p)`` with these blocks ``(..., blocks, p, p)``."""
    count, size = blocks.shape[-3:-1]
    matrix = np.zeros((*blocks.shape[:-3], count, size, count, size))
    every = np.arange(count)
    matrix[..., every, :, every, :] = np.moveaxis(blocks, -3, 0)
    return matrix.reshape(*blocks.shape[:-3], count * size, count * size)


def _positive(matrix: Floats) -> Floats:
    """The matrix without its negative eigenvalues, which only noise can make."""
    values, axes = np.linalg.eigh(matrix)
    return np.asarray(np.einsum("...di,...i,...ei->...de", axes, np.maximum(values, 0.0), axes))
