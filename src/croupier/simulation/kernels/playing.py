"""The inner loop: score all arms, choose, be rewarded, contribute, learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.algebra import halve
from croupier.simulation.kernels.compiled import compiled, inlined
from croupier.simulation.kernels.learning import (
    close_sums,
    decode_matrix,
    decode_vector,
    learn_inverse,
    learn_posterior,
    update,
)
from croupier.simulation.kernels.publishing import publish
from croupier.simulation.kernels.scoring import first_best, score, withhold
from croupier.simulation.kernels.tables import (
    EVERY,
    FLIPPED,
    GRID,
    KEPT,
    KNOWN,
    LESSON,
    MOST,
    OPTIMIST,
    POINT,
    PUBLISHED,
    REGRET,
    RULE,
    SAMPLER,
    SCALE,
    Coding,
    Crowd,
    Lessons,
    Memory,
    Track,
    Whole,
)

Floats = NDArray[np.float64]


@inlined
def choose(kind: int, row: int, turn: int, scale: float, crowd: Crowd, memory: Memory) -> int:
    """The arm of a round with the arm set ``row`` and the policy's draw ``turn``."""
    scores = memory.scores
    draw = crowd.draws[0 if kind == OPTIMIST else turn]
    score(
        kind, crowd.features[row], draw, scale, memory.shown_theta, memory.shown_matrix,
        memory.shown_half, memory.strayed, scores, memory.spare,
    )  # fmt: skip
    if crowd.available.shape[0] > 0:
        withhold(scores, crowd.available[row])
    return first_best(scores)


@inlined
def contribute(x: Floats, gain: float, stretch: Floats, total: Floats) -> None:
    """Add the contribution of a user with the features ``x (dim,)``."""
    dim = x.size
    place = 0
    for i in range(dim):
        total[i] += gain * x[i]
        for j in range(i, dim):
            total[dim + place] += stretch[place] * (x[i] * x[j])
            place += 1


@inlined
def encode(
    x: Floats, gain: float, stretch: Floats, low: Floats, high: Floats, code: Floats
) -> None:
    """The same contribution, clipped to its range and counted from where that starts."""
    dim = x.size
    for i in range(dim):
        code[i] = min(max(gain * x[i], low[i]), high[i]) - low[i]
    place = dim
    for i in range(dim):
        for j in range(i, dim):
            value = stretch[place - dim] * (x[i] * x[j])
            code[place] = min(max(value, low[place]), high[place]) - low[place]
            place += 1


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
    gain: float, batch: int, rounding: int, crowd: Crowd, lessons: Lessons, coding: Coding,
    memory: Memory,
) -> int:  # fmt: skip
    """Add the contribution of the arm that was played; the roundings used so far."""
    if not coding.rounded:
        contribute(memory.played, gain, coding.stretch, memory.total)
        return rounding
    code, sums = memory.code, int(lessons.sums[batch])
    encode(memory.played, gain, coding.stretch, coding.low, coding.high, code)
    for level in range(sums):
        luck = crowd.roundings[rounding + level]
        add_steps(code, lessons.codes[batch, level], luck, memory.steps[level])
    return rounding + sums


@inlined
def learn_optimist(
    lesson: int, noisy: bool, lessons: Lessons, coding: Coding, memory: Memory
) -> None:
    """The next model of ``ucb``, from the last one where a single user was added in the clear."""
    weight, alone = lessons.regularizers[lesson], lessons.sizes[lesson] == 1 and not noisy
    if alone and update(
        weight, memory.played, memory.vector, memory.matrix, memory.half, memory.theta,
        memory.weights, memory.numbers, memory.counts,
    ):  # fmt: skip
        return
    decode_matrix(memory.total, lessons.noise, lesson, coding.shrink, memory.gram)
    learn_inverse(
        noisy, weight, memory.gram, memory.matrix, memory.values, memory.axes, memory.weights,
        memory.numbers, memory.counts, memory.vector, memory.half, memory.theta,
    )  # fmt: skip


@inlined
def learn(
    kind: int, lesson: int, noisy: bool, lessons: Lessons, coding: Coding, memory: Memory
) -> None:
    """The next model, from all that was released so far."""
    if coding.rounded:
        close_sums(
            lessons.closing[lesson], lessons.codes[lesson], coding.low, memory.steps,
            memory.closed, memory.total,
        )  # fmt: skip
    decode_vector(memory.total, lessons.noise, lesson, memory.vector)
    if kind == OPTIMIST:
        learn_optimist(lesson, noisy, lessons, coding, memory)
        return
    decode_matrix(memory.total, lessons.noise, lesson, coding.shrink, memory.gram)
    learn_posterior(
        lessons.hidden[lesson], kind == SAMPLER, memory.gram, memory.vector, memory.theta,
        memory.matrix, memory.values, memory.axes, memory.weights, memory.counts,
    )  # fmt: skip
    halve(memory.matrix, memory.half)


@inlined
def shown(kind: int, memory: Memory) -> bool:
    """Whether the model that was learnt is published."""
    return memory.counts[RULE] == EVERY or publish(
        kind, memory.theta, memory.matrix, memory.half, memory.shown_theta, memory.shown_matrix,
        memory.shown_half, memory.gram, memory.numbers, memory.counts,
    )  # fmt: skip


@compiled
def play(
    kind: int,
    start: int,
    crowd: Crowd,
    lessons: Lessons,
    coding: Coding,
    memory: Memory,
    track: Track,
    chosen: Whole,
) -> None:
    """Rounds from ``start`` on; ``chosen`` takes the arms if it has room for them."""
    features, given, stops, played = crowd.features, crowd.given, lessons.stops, memory.played
    numbers, counts = memory.numbers, memory.counts
    noisy = lessons.noise.shape[0] > 0 or coding.rounded
    settled = kind == OPTIMIST and crowd.common and crowd.available.shape[0] == 0
    lesson, point, known = counts[LESSON], counts[POINT], counts[KNOWN]
    regret, scale, row, rounding = numbers[REGRET], numbers[SCALE], crowd.first, 0
    for index in range(crowd.uniforms.size):
        arm = given[index] if index < given.size else known
        if arm < 0:
            arm = choose(kind, row, index - given.size, scale, crowd, memory)
            known = arm if settled else -1
        if chosen.size > index:
            chosen[index] = arm

        mean = crowd.means[row, arm]
        regret += crowd.best[row] - mean
        for i in range(played.size):
            played[i] = features[row, i, arm]
        gain = (1.0 if crowd.uniforms[index] < mean else 0.0) - coding.offset
        batch = min(lesson, stops.size - 1)
        rounding = take_part(gain, batch, rounding, crowd, lessons, coding, memory)

        row = row + 1 if row + 1 < features.shape[0] else 0
        done = start + index + 1
        if point < track.rounds.size and track.rounds[point] == done:
            track.curve[point] = regret
            point += 1
        if lesson < stops.size and stops[lesson] == done:
            learn(kind, lesson, noisy, lessons, coding, memory)
            if shown(kind, memory):
                counts[PUBLISHED] += 1
                scale, known = lessons.scales[lesson], -1
            lesson += 1
    counts[LESSON], counts[POINT], counts[KNOWN] = lesson, point, known
    numbers[REGRET], numbers[SCALE] = regret, scale
