"""One Bayes update of a trial, as ``policies.posterior`` makes it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.policies.posterior import (
    LEAST_SQUARE,
    MOST_EXPLAINED,
    REWARD_VARIANCE,
    ROUNDS,
)
from croupier.simulation.kernels.arrays import STALE, PosteriorRoom, Prior, TrialState
from croupier.simulation.kernels.compilation import compiled, inlined
from croupier.simulation.kernels.eigenvalues import rebuild, spectrum
from croupier.simulation.kernels.linear_algebra import invert, multiply, positive
from croupier.simulation.kernels.model_update import FRESH

Floats = NDArray[np.float64]


@compiled
def keep_positive(gram: Floats, room: Floats, axes: Floats, spare: Floats) -> None:
    """The matrix without its negative eigenvalues."""
    if positive(gram, 0.0, room):
        return
    spectrum(gram, False, room, axes, spare)
    for i in range(spare.size):
        spare[i] = max(room[i, i], 0.0)
    rebuild(axes, spare, gram)


@inlined
def left_unexplained(users: float, units: Floats, gram: Floats, room: PosteriorRoom) -> float:
    """Of a reward's variance, by the mean and the old covariance's uncertainty of it."""
    explained = 0.0
    for i in range(units.size):
        for j in range(units.size):
            known = room.mean[i] * room.mean[j] - room.covariance[i, j]
            explained += known * gram[i, j] / (units[i] * units[j])
    return REWARD_VARIANCE - min(max(explained / users, 0.0), MOST_EXPLAINED)


@inlined
def fill_noise(
    left: float, variance: float, prior: Prior, gram: Floats, room: PosteriorRoom
) -> None:
    """R: of rewards, of the matrix times what it is multiplied by, and of the vector."""
    units, square = prior.units, 0.0
    for i in range(units.size):
        square += (room.mean[i] / units[i]) ** 2
    square = max(square, LEAST_SQUARE)
    shared = variance * prior.matrix_noise**2 / 2
    for i in range(units.size):
        for j in range(units.size):
            moved = room.mean[i] / units[i] * (room.mean[j] / units[j])
            room.noise[i, j] = left * gram[i, j] + shared * moved
        room.noise[i, i] += shared * square + variance


@inlined
def fill_gain(dim: int, room: PosteriorRoom) -> None:
    """R^-1 A, with A the design."""
    invert(room.noise, room.room, room.spare)
    for i in range(dim):
        room.gain[i, :] = 0.0
        for k in range(dim):
            for j in range(dim):
                room.gain[i, j] += room.room[i, k] * room.design[k, j]


@inlined
def add_heard(vector: Floats, room: PosteriorRoom) -> None:
    """L + A'R^-1 A and e + A'R^-1 u."""
    dim = vector.size
    fill_gain(dim, room)
    for i in range(dim):
        room.linear[i] = room.old_linear[i]
        for j in range(dim):
            room.precision[i, j] = room.old_precision[i, j]
        for k in range(dim):
            room.linear[i] += room.gain[k, i] * vector[k]
            for j in range(dim):
                room.precision[i, j] += room.gain[k, i] * room.design[k, j]


@inlined
def add_exact(
    left: float, units: Floats, gram: Floats, vector: Floats, room: PosteriorRoom
) -> None:
    """The same without noise, where R = v G cancels against A."""
    for i in range(units.size):
        room.linear[i] = room.old_linear[i] + vector[i] / (left * units[i])
        for j in range(units.size):
            heard = gram[i, j] / (left * units[i] * units[j])
            room.precision[i, j] = room.old_precision[i, j] + heard


@inlined
def settle(room: PosteriorRoom) -> None:
    """Mean from precision and linear; the covariance of now stays in ``noise``."""
    invert(room.precision, room.noise, room.spare)
    multiply(room.noise, room.linear, room.mean)


@inlined
def recall(level: int, block: int, users: float, prior: Prior, room: PosteriorRoom) -> None:
    """What is known before the sum: its covariance and mean, blurred where theta drifts."""
    dim = room.mean.size
    for i in range(dim):
        room.old_linear[i] = room.linears[level, block, i]
        for j in range(dim):
            room.old_precision[i, j] = room.precisions[level, block, i, j]
    invert(room.old_precision, room.covariance, room.spare)
    multiply(room.covariance, room.old_linear, room.mean)
    if prior.drift > 0.0:
        for i in range(prior.features):
            room.covariance[i, i] += prior.drift**2 * users
        invert(room.covariance, room.old_precision, room.spare)
        multiply(room.old_precision, room.mean, room.old_linear)


@inlined
def remember(level: int, block: int, room: PosteriorRoom) -> None:
    """What is known now is what is known before the next sum of the level."""
    for i in range(room.linear.size):
        room.linears[level, block, i] = room.linear[i]
        for j in range(room.linear.size):
            room.precisions[level, block, i, j] = room.precision[i, j]


@inlined
def cut_out(block: int, units: Floats, state: TrialState, room: PosteriorRoom) -> None:
    """The moments of a block, and the design."""
    dim = room.mean.size
    start = block * dim
    for i in range(dim):
        room.vector[i] = state.vector[start + i]
        for j in range(dim):
            room.gram[i, j] = state.gram[start + i, start + j]
    keep_positive(room.gram, room.room, room.axes, room.spare)
    for i in range(dim):
        for j in range(dim):
            room.design[i, j] = room.gram[i, j] / units[j]


@inlined
def tell(block: int, told: int, state: TrialState, room: PosteriorRoom) -> None:
    """The block's mean and covariance into the model."""
    start = block * told
    for i in range(told):
        state.theta[start + i] = room.mean[i]
        for j in range(told):
            state.matrix[start + i, start + j] = room.noise[i, j]


@inlined
def heard(users: float, prior: Prior, gram: Floats) -> float:
    """Users of a block, as its offset counts them; all where there is one block."""
    last = gram.shape[0] - 1
    if prior.blocks == 1:
        return users
    counted: float = max(gram[last, last] / prior.units[last] ** 2, 1.0)
    return counted


@inlined
def update_block(users: float, variance: float, prior: Prior, room: PosteriorRoom) -> None:
    """The Bayes update of a block, from its moments and what was known before."""
    counted = heard(users, prior, room.gram)
    for _ in range(ROUNDS):
        left = left_unexplained(counted, prior.units, room.gram, room)
        if variance > 0.0:
            fill_noise(left, variance, prior, room.gram, room)
            add_heard(room.vector, room)
        else:
            add_exact(left, prior.units, room.gram, room.vector, room)
        settle(room)


@compiled
def update_posterior(
    level: int,
    users: float,
    variance: float,
    correlated: bool,
    prior: Prior,
    state: TrialState,
    room: PosteriorRoom,
) -> None:
    """What is known after the released sum of a level, told to the model and kept for later."""
    for block in range(prior.blocks):
        cut_out(block, prior.units, state, room)
        recall(level, block, users, prior, room)
        update_block(users, variance, prior, room)
        tell(block, prior.told, state, room)
        if not correlated:
            for below in range(level + 1):
                remember(below, block, room)


@compiled
def root_model(state: TrialState) -> None:
    """The covariance's root in its place."""
    known = 0 < state.counts[STALE] < FRESH
    spectrum(state.matrix, known, state.values, state.axes, state.weights)
    state.counts[STALE] = state.counts[STALE] % FRESH + 1
    for i in range(state.theta.size):
        state.weights[i] = math.sqrt(max(state.values[i, i], 0.0))
    rebuild(state.axes, state.weights, state.matrix)
