"""The inner loop: score all arms, choose, be rewarded, contribute, learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.arrays import (
    EVERY,
    FLIPPED,
    GRID,
    KEPT,
    KNOWN,
    MOST,
    OPEN_BATCH,
    OPTIMIST,
    POINT,
    PUBLISHED,
    REGRET,
    RULE,
    SAMPLER,
    SCALE,
    THOMPSON,
    BatchInputs,
    Coding,
    PosteriorRoom,
    Prior,
    RegretRecord,
    TrialState,
    UserBlock,
    Whole,
)
from croupier.simulation.kernels.compilation import compiled, inlined
from croupier.simulation.kernels.linear_algebra import halve
from croupier.simulation.kernels.model_update import (
    add_before,
    close_part,
    decode,
    learn_inverse,
    update,
)
from croupier.simulation.kernels.posterior_update import root_model, update_posterior
from croupier.simulation.kernels.publication import publish
from croupier.simulation.kernels.scoring import first_best, score, withhold

Floats = NDArray[np.float64]


@inlined
def choose(
    kind: int, row: int, turn: int, scale: float, block: UserBlock, state: TrialState
) -> int:
    """The arm of a round with the arm set ``row`` and the policy's draw ``turn``."""
    scores = state.scores
    draw = block.draws[0 if kind == OPTIMIST else turn]
    score(
        kind, block.features[row], draw, scale, state.shown_theta, state.shown_matrix,
        state.shown_half, state.strayed, scores, state.spare,
    )  # fmt: skip
    if block.available.shape[0] > 0:
        withhold(scores, block.available[row])
    return first_best(scores)


@inlined
def contribute(entries: Floats, gain: float, coding: Coding, part: Floats) -> None:
    """Add the contribution of a user with these features and offset."""
    dim, stretch, rows, columns = entries.size, coding.stretch, coding.rows, coding.columns
    for i in range(dim):
        part[i] += gain * entries[i] * stretch[i]
    for k in range(rows.size):
        part[dim + k] += stretch[dim + k] * (entries[rows[k]] * entries[columns[k]])


@inlined
def encode(entries: Floats, gain: float, coding: Coding, code: Floats) -> None:
    """The same contribution, clipped to its range and counted from where that starts."""
    dim, stretch, rows, columns = entries.size, coding.stretch, coding.rows, coding.columns
    low, high = coding.low, coding.high
    for i in range(dim):
        code[i] = min(max(gain * entries[i] * stretch[i], low[i]), high[i]) - low[i]
    for k in range(rows.size):
        place = dim + k
        value = stretch[place] * (entries[rows[k]] * entries[columns[k]])
        code[place] = min(max(value, low[place]), high[place]) - low[place]


@inlined
def add_steps(code: Floats, rounding: Floats, luck: Floats, steps: Floats) -> None:
    """A contribution in whole steps of a grid, the last one at random."""
    grid, most = rounding[GRID], rounding[MOST]
    flipped, kept = rounding[FLIPPED], rounding[KEPT]
    for place in range(code.size):
        scaled = grid * code[place]
        whole = min(np.floor(scaled), most)
        chance = flipped + kept * (scaled - whole)
        steps[place] += whole + (1.0 if luck[place] < chance else 0.0)


@inlined
def take_part(
    gain: float, batch: int, rounding: int, block: UserBlock, batches: BatchInputs, coding: Coding,
    state: TrialState,
) -> int:  # fmt: skip
    """Add the contribution of the arm that was played; the roundings used so far."""
    if not coding.rounded:
        contribute(state.entries, gain, coding, state.part)
        return rounding
    code, sums = state.code, int(batches.sums[batch])
    encode(state.entries, gain, coding, code)
    for level in range(sums):
        luck = block.roundings[rounding + level]
        add_steps(code, batches.codes[batch, level], luck, state.steps[level])
    return rounding + sums


@inlined
def learn_optimist(
    open_batch: int, noisy: bool, batches: BatchInputs, coding: Coding, state: TrialState
) -> None:
    """The next model of ``ucb``, from the last one where a single user was added in the clear."""
    weight, alone = batches.regularizers[open_batch], batches.sizes[open_batch] == 1 and not noisy
    decode(state.total, float(batches.stops[open_batch]), coding, state.vector, state.gram)
    if alone and update(
        weight, state.entries, state.vector, state.matrix, state.half, state.theta,
        state.weights, state.numbers, state.counts,
    ):  # fmt: skip
        return
    learn_inverse(
        noisy, weight, state.gram, state.matrix, state.values, state.axes, state.weights,
        state.numbers, state.counts, state.vector, state.half, state.theta,
    )  # fmt: skip


@inlined
def learn(
    kind: int, open_batch: int, noisy: bool, batches: BatchInputs, coding: Coding, prior: Prior,
    state: TrialState, room: PosteriorRoom,
) -> None:  # fmt: skip
    """The next model, from all that was released so far."""
    level = close_part(open_batch, batches, coding, state)
    if kind == OPTIMIST:
        add_before(level, coding.correlated, state.totals, state.total)
        learn_optimist(open_batch, noisy, batches, coding, state)
        return
    users, variance = float(batches.users[open_batch]), batches.variances[open_batch]
    decode(state.total, users, coding, state.vector, state.gram)
    update_posterior(level, users, variance, coding.correlated, prior, state, room)
    if kind in (SAMPLER, THOMPSON):
        root_model(state)
    halve(state.matrix, state.half)


@inlined
def shown(kind: int, state: TrialState) -> bool:
    """Whether the model that was learnt is published."""
    return state.counts[RULE] == EVERY or publish(
        kind, state.theta, state.matrix, state.half, state.shown_theta, state.shown_matrix,
        state.shown_half, state.values, state.numbers, state.counts,
    )  # fmt: skip


@compiled
def play(
    kind: int,
    start: int,
    block: UserBlock,
    batches: BatchInputs,
    coding: Coding,
    prior: Prior,
    state: TrialState,
    room: PosteriorRoom,
    track: RegretRecord,
    chosen: Whole,
) -> None:
    """Rounds from ``start`` on; ``chosen`` takes the arms if it has room for them."""
    features, given, stops, entries = block.features, block.given, batches.stops, state.entries
    numbers, counts = state.numbers, state.counts
    noisy = batches.noise.shape[0] > 0 or coding.rounded
    settled = kind == OPTIMIST and block.common and block.available.shape[0] == 0
    open_batch, point, known = counts[OPEN_BATCH], counts[POINT], counts[KNOWN]
    regret, scale, row, rounding = numbers[REGRET], numbers[SCALE], block.first, 0
    for index in range(block.uniforms.size):
        arm = given[index] if index < given.size else known
        if arm < 0:
            arm = choose(kind, row, index - given.size, scale, block, state)
            known = arm if settled else -1
        if chosen.size > index:
            chosen[index] = arm

        mean = block.means[row, arm]
        regret += block.best[row] - mean
        for i in range(features.shape[1]):
            entries[i] = features[row, i, arm] * coding.factors[i]
        gain = (1.0 if block.uniforms[index] < mean else 0.0) - coding.centre
        batch = min(open_batch, stops.size - 1)
        rounding = take_part(gain, batch, rounding, block, batches, coding, state)

        row = row + 1 if row + 1 < features.shape[0] else 0
        done = start + index + 1
        if point < track.rounds.size and track.rounds[point] == done:
            track.curve[point] = regret
            point += 1
        if open_batch < stops.size and stops[open_batch] == done:
            learn(kind, open_batch, noisy, batches, coding, prior, state, room)
            if shown(kind, state):
                counts[PUBLISHED] += 1
                scale, known = batches.scales[open_batch], -1
            open_batch += 1
    counts[OPEN_BATCH], counts[POINT], counts[KNOWN] = open_batch, point, known
    numbers[REGRET], numbers[SCALE] = regret, scale
