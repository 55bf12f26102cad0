"""Whether honest users could have added up to a released batch, by what is public (MATH 7.6).

A batch's sums are held against bounds that need no past, and against what the batches before
predict. Every part errs on the side of the users: rewards may miss the line by ``MISFIT``, noise
enters with its known variance, and the chance is that of the worst part times their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, ndtr

from croupier.layouts import Blocks, Layout
from croupier.model import ReleasedSums

Floats = NDArray[np.float64]

THRESHOLD = 1e-6
"""Honest batches fall below it once in a million."""

MISFIT = 0.1
"""Expected rewards may be so far off any linear model, and change by as much."""

REWARD_VARIANCE = 0.25
"""The most that a reward in [0, 1] can vary."""


@dataclass(frozen=True)
class Plausibility:
    """How often honest users add up to something at least as odd, at most; which part says so."""

    chance: float
    part: str

    @property
    def suspicious(self) -> bool:
        """Whether the batch should not be learnt from before somebody has looked."""
        return self.chance < THRESHOLD


COUNTED = 6.0
"""Standard deviations that noise adds to the number of users of a block at most."""


def examine(layout: Layout, before: ReleasedSums, own: ReleasedSums) -> Plausibility:
    """A batch's ``own`` sums, against those ``before`` it and together with them.

    What one batch hides in its noise, all of them add up to. Where there are blocks, each is
    examined alone and the worst one counts.
    """
    if isinstance(layout, Blocks):
        return _examine_blocks(layout, before, own)
    return _examine(layout, before, own)


def _examine_blocks(layout: Blocks, before: ReleasedSums, own: ReleasedSums) -> Plausibility:
    """The worst block's, and whether all of them count as many users as there are."""
    found = {"count of the batch": count_chance(layout, own)}
    found["count of all batches"] = count_chance(layout, before.plus(own))
    for block in range(layout.blocks):
        alone = _examine(layout.one, *(_of_block(layout, sums, block) for sums in (before, own)))
        found[f"block {block}: {alone.part}"] = alone.chance
    part = min(found, key=found.__getitem__)
    return Plausibility(min(1.0, len(found) * found[part]), part)


def _counts(layout: Blocks, sums: ReleasedSums) -> tuple[Floats, float]:
    """Users of each block, as its offset counts them, and the noise of that."""
    share = layout.units[-1] ** 2
    return sums.matrix[..., -1, -1] / share, _matrix_noise(layout, sums) / share


def _of_block(layout: Blocks, sums: ReleasedSums, block: int) -> ReleasedSums:
    """The sums of the users of a block, as many as there may be."""
    counts, noise = _counts(layout, sums)
    most = max(0, math.ceil(counts[block] + COUNTED * noise))
    return replace(
        sums,
        vector=sums.vector[block],
        matrix=sums.matrix[block],
        users=min(sums.users, most),
    )


def count_chance(layout: Blocks, sums: ReleasedSums) -> float:
    """Every user is in one block."""
    counts, noise = _counts(layout, sums)
    apart = abs(float(counts.sum()) - sums.users)
    spread = math.sqrt(layout.blocks) * noise
    return min(1.0, 2 * _upper_tail(apart - _rounding(sums), spread))


def _examine(layout: Layout, before: ReleasedSums, own: ReleasedSums) -> Plausibility:
    """The same of sums without blocks."""
    after = before.plus(own)
    found = {
        "trace of the batch": trace_chance(layout, own),
        "moments of the batch": moment_chance(layout, own),
        "trace of all batches": trace_chance(layout, after),
        "moments of all batches": moment_chance(layout, after),
        "residual": residual_chance(layout, before, own) if before.users else 1.0,
    }
    part = min(found, key=found.__getitem__)
    return Plausibility(min(1.0, len(found) * found[part]), part)


def trace_chance(layout: Layout, sums: ReleasedSums) -> float:
    """Features of norm r at most add up to a trace of users * r^2 at most, up to noise."""
    most = sums.users * layout.moment_norm**2
    # Entries of the diagonal are svec coordinates, and none of them noisier.
    spread = math.sqrt(layout.summed) * _matrix_noise(layout, sums)
    return _upper_tail(float(np.trace(sums.matrix)) - most, spread)


def moment_chance(layout: Layout, sums: ReleasedSums) -> float:
    """Second moments of features and reward together have no negative eigenvalue, up to noise.

    The matrix [[V, u/a], [u'/a, m/a^2]] is the sum of z z' for z = (h, (y - centre)/a), where m
    bounds the sum of squared rewards. With a = sqrt(2) times the ratio of their noise, all noise
    is alike: sqrt(2 (p + 1)) of it bounds the norm's mean, and the norm is 1-Lipschitz in it.
    """
    noise = _matrix_noise(layout, sums)
    scale = math.sqrt(2) / layout.matrix_noise_factor
    half = sums.vector / scale
    most = sums.users * max(layout.centre, 1 - layout.centre) ** 2 / scale**2
    joint = np.block([[sums.matrix, half[:, None]], [half[None, :], np.array([[most]])]])
    least = float(np.linalg.eigvalsh(joint)[0])
    beyond = -least - noise * math.sqrt(2 * (layout.summed + 1))
    if noise == 0 or beyond <= 0:
        return 0.0 if beyond > _rounding(sums) else 1.0
    return math.exp(-((beyond / noise) ** 2) / 2)


def residual_chance(layout: Layout, before: ReleasedSums, own: ReleasedSums) -> float:
    """Chi-square of r = u - V theta, theta being what was learnt before.

    r has the noise of rewards, of u and of V theta, what theta may be off by through V, and
    MISFIT.
    """
    theta, unsure = _learnt(layout, before)
    shape = _positive(own.matrix)
    left = own.vector - own.matrix @ theta
    spread = _residual_spread(layout, own, theta) + shape @ unsure @ shape
    score = float(left @ np.linalg.solve(spread, left))
    return float(gammaincc(layout.summed / 2, score / 2))


def _learnt(layout: Layout, sums: ReleasedSums) -> tuple[Floats, Floats]:
    """Theta by least squares, and the covariance of what it is off by.

    The regulariser is what noise can do to the matrix, so that nothing is divided by noise.
    """
    dim = layout.summed
    ridge = 1.0 + 2 * _matrix_noise(layout, sums) * math.sqrt(2 * dim)
    inverse = np.linalg.inv(_positive(sums.matrix) + ridge * np.eye(dim))
    theta = inverse @ sums.vector
    # Shrinking is off by ridge * inverse @ theta, where theta is known to be no longer than this.
    longest = max(1.0, float(theta @ theta))
    wrong = _residual_spread(layout, sums, theta) + ridge**2 * longest * np.eye(dim)
    return theta, inverse @ wrong @ inverse


def _residual_spread(layout: Layout, sums: ReleasedSums, theta: Floats) -> Floats:
    """Covariance of u - V theta for the right theta, MISFIT included."""
    noise, identity = _matrix_noise(layout, sums), np.eye(layout.summed)
    rewards = (REWARD_VARIANCE + MISFIT**2 * sums.users) * _positive(sums.matrix)
    hidden = sums.noise_variance * identity
    crossed = noise**2 / 2 * (float(theta @ theta) * identity + np.outer(theta, theta))
    return np.asarray(rewards + hidden + crossed + _rounding(sums) * identity)


def _matrix_noise(layout: Layout, sums: ReleasedSums) -> float:
    """Of one coordinate of the matrix, off-diagonal ones counted with sqrt(2)."""
    return math.sqrt(sums.noise_variance) * layout.matrix_noise_factor


def _rounding(sums: ReleasedSums) -> float:
    """Far above what floats round, far below any user."""
    return 1e-9 * max(1, sums.users)


def _positive(matrix: Floats) -> Floats:
    """The matrix without its negative eigenvalues."""
    values, axes = np.linalg.eigh(matrix)
    return np.asarray((axes * np.maximum(values, 0.0)) @ axes.T)


def _upper_tail(beyond: float, spread: float) -> float:
    if spread == 0:
        return 0.0 if beyond > 1e-6 else 1.0
    return float(ndtr(-beyond / spread)) if beyond > 0 else 1.0
