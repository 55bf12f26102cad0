"""The inner loop: score all arms, choose, be rewarded, contribute, learn.

Bundles of arrays are opened once, in :func:`play`: to look into one costs, in every round.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.algebra import halve, multiply
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
from croupier.simulation.kernels.scoring import (
    first_best,
    score_optimist,
    score_strayed,
    withhold,
)
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
def choose(
    kind: int,
    x: Floats,
    draw: Floats,
    scale: float,
    theta: Floats,
    matrix: Floats,
    half: Floats,
    strayed: Floats,
    scores: Floats,
    spare: Floats,
) -> None:
    """Scores of all arms ``x (dim, arms)`` under a model."""
    if kind == SAMPLER:
        multiply(matrix, draw, strayed)
        for i in range(draw.size):
            strayed[i] *= scale
        score_strayed(x, theta, strayed, scores, spare)
    else:
        width = scale if kind == OPTIMIST else scale * abs(draw[0])
        score_optimist(x, theta, half, width, scores, spare)


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


@compiled
def play(  # noqa: C901, PLR0912, PLR0915
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
    features, means, best, uniforms = crowd.features, crowd.means, crowd.best, crowd.uniforms
    available, given, draws, roundings = crowd.available, crowd.given, crowd.draws, crowd.roundings
    stops, sizes, noise, hidden = lessons.stops, lessons.sizes, lessons.noise, lessons.hidden
    codes, sums, closing = lessons.codes, lessons.sums, lessons.closing
    regularizers, scales = lessons.regularizers, lessons.scales
    stretch, shrink, low, high = coding.stretch, coding.shrink, coding.low, coding.high
    total, steps, closed, code = memory.total, memory.steps, memory.closed, memory.code
    played, vector, gram, theta = memory.played, memory.vector, memory.gram, memory.theta
    matrix, half, shown_theta = memory.matrix, memory.half, memory.shown_theta
    shown_matrix, shown_half = memory.shown_matrix, memory.shown_half
    values, axes, weights, strayed = memory.values, memory.axes, memory.weights, memory.strayed
    scores, spare, numbers, counts = memory.scores, memory.spare, memory.numbers, memory.counts
    rounds, curve = track.rounds, track.curve
    first, row, sets, dim = given.size, crowd.first, features.shape[0], theta.size
    noisy, offered = noise.shape[0] > 0 or coding.rounded, available.shape[0] > 0
    settled = kind == OPTIMIST and crowd.common and not offered
    lesson, point, known, rounding = counts[LESSON], counts[POINT], counts[KNOWN], 0
    regret, scale, every = numbers[REGRET], numbers[SCALE], counts[RULE] == EVERY
    published = counts[PUBLISHED]
    for index in range(uniforms.size):
        if index < first:
            arm = given[index]
        elif known >= 0:
            arm = known
        else:
            draw = draws[0] if kind == OPTIMIST else draws[index - first]
            choose(
                kind, features[row], draw, scale, shown_theta, shown_matrix, shown_half, strayed,
                scores, spare,
            )  # fmt: skip
            if offered:
                withhold(scores, available[row])
            arm = first_best(scores)
            if settled:
                known = arm
        if chosen.size > index:
            chosen[index] = arm

        mean = means[row, arm]
        regret += best[row] - mean
        for i in range(dim):
            played[i] = features[row, i, arm]
        gain = (1.0 if uniforms[index] < mean else 0.0) - coding.offset
        if coding.rounded:
            encode(played, gain, stretch, low, high, code)
            batch = min(lesson, stops.size - 1)
            for level in range(sums[batch]):
                add_steps(code, codes[batch, level], roundings[rounding], steps[level])
                rounding += 1
        else:
            contribute(played, gain, stretch, total)

        row = row + 1 if row + 1 < sets else 0
        done = start + index + 1
        if point < rounds.size and rounds[point] == done:
            curve[point] = regret
            point += 1
        if lesson < stops.size and stops[lesson] == done:
            if coding.rounded:
                close_sums(closing[lesson], codes[lesson], low, steps, closed, total)
            decode_vector(total, noise, lesson, vector)
            if kind == OPTIMIST:
                weight, alone = regularizers[lesson], sizes[lesson] == 1 and not noisy
                if not alone or not update(
                    weight, played, vector, matrix, half, theta, weights, numbers, counts
                ):
                    decode_matrix(total, noise, lesson, shrink, gram)
                    learn_inverse(
                        noisy, weight, gram, matrix, values, axes, weights, numbers, counts,
                        vector, half, theta,
                    )  # fmt: skip
            else:
                decode_matrix(total, noise, lesson, shrink, gram)
                learn_posterior(
                    hidden[lesson], kind == SAMPLER, gram, vector, theta, matrix, values, axes,
                    weights, counts,
                )  # fmt: skip
                halve(matrix, half)
            if every or publish(
                kind, theta, matrix, half, shown_theta, shown_matrix, shown_half, gram, numbers,
                counts,
            ):  # fmt: skip
                published += 1
                scale, known = scales[lesson], -1
            lesson += 1
    counts[LESSON], counts[POINT], counts[KNOWN] = lesson, point, known
    counts[PUBLISHED], numbers[REGRET], numbers[SCALE] = published, regret, scale
