"""The inner loop: score all arms, choose, be rewarded, contribute, learn.

Bundles of arrays are opened once, in :func:`play`. Handing one on would count references to each
of its arrays, in every round.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.algebra import halve, multiply
from croupier.simulation.kernels.compiled import compiled, inlined
from croupier.simulation.kernels.learning import (
    add_steps,
    decode_matrix,
    decode_vector,
    learn_inverse,
    learn_posterior,
    update,
)
from croupier.simulation.kernels.scoring import (
    first_best,
    score_optimist,
    score_strayed,
    withhold,
)
from croupier.simulation.kernels.tables import (
    KNOWN,
    LESSON,
    OPTIMIST,
    POINT,
    REGRET,
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
def round_off(value: float, low: float, high: float, grid: float, luck: float) -> float:
    """A coordinate in whole steps of the grid above its range, rounded at random."""
    scaled = grid * (min(max(value, low), high) - low)
    whole = math.floor(scaled)
    return whole + (1.0 if luck < scaled - whole else 0.0)


@inlined
def contribute_steps(
    x: Floats,
    gain: float,
    stretch: Floats,
    low: Floats,
    high: Floats,
    grid: float,
    luck: Floats,
    steps: Floats,
) -> None:
    """The same in steps of the grid."""
    dim = x.size
    for i in range(dim):
        steps[i] += round_off(gain * x[i], low[i], high[i], grid, luck[i])
    place = dim
    for i in range(dim):
        for j in range(i, dim):
            value = stretch[place - dim] * (x[i] * x[j])
            steps[place] += round_off(value, low[place], high[place], grid, luck[place])
            place += 1


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
    grids, regularizers, scales = lessons.grids, lessons.regularizers, lessons.scales
    stretch, low, high = coding.stretch, coding.low, coding.high
    total, steps, played, vector = memory.total, memory.steps, memory.played, memory.vector
    gram, theta, matrix, half = memory.gram, memory.theta, memory.matrix, memory.half
    values, axes, weights, strayed = memory.values, memory.axes, memory.weights, memory.strayed
    scores, spare, numbers, counts = memory.scores, memory.spare, memory.numbers, memory.counts
    rounds, curve = track.rounds, track.curve
    first, row, sets, dim = given.size, crowd.first, features.shape[0], theta.size
    noisy, offered = noise.shape[0] > 0 or coding.rounded, available.shape[0] > 0
    settled = kind == OPTIMIST and crowd.common and not offered
    lesson, point, known = counts[LESSON], counts[POINT], counts[KNOWN]
    regret, scale = numbers[REGRET], numbers[SCALE]
    for index in range(uniforms.size):
        if index < first:
            arm = given[index]
        elif known >= 0:
            arm = known
        else:
            draw = draws[0] if kind == OPTIMIST else draws[index - first]
            choose(kind, features[row], draw, scale, theta, matrix, half, strayed, scores, spare)
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
            grid = grids[min(lesson, grids.size - 1)]
            contribute_steps(played, gain, stretch, low, high, grid, roundings[index], steps)
        else:
            contribute(played, gain, stretch, total)

        row = row + 1 if row + 1 < sets else 0
        done = start + index + 1
        if point < rounds.size and rounds[point] == done:
            curve[point] = regret
            point += 1
        if lesson < stops.size and stops[lesson] == done:
            if coding.rounded:
                add_steps(steps, grids[lesson], sizes[lesson], low, total)
            decode_vector(total, noise, lesson, vector)
            if kind == OPTIMIST:
                weight, alone = regularizers[lesson], sizes[lesson] == 1 and not noisy
                if not alone or not update(
                    weight, played, vector, matrix, half, theta, weights, numbers, counts
                ):
                    decode_matrix(total, noise, lesson, coding.shrink, gram)
                    learn_inverse(
                        noisy, weight, gram, matrix, values, axes, weights, numbers, counts,
                        vector, half, theta,
                    )  # fmt: skip
            else:
                decode_matrix(total, noise, lesson, coding.shrink, gram)
                learn_posterior(
                    hidden[lesson], kind == SAMPLER, gram, vector, theta, matrix, values, axes,
                    weights, counts,
                )  # fmt: skip
                halve(matrix, half)
            scale, known = scales[lesson], -1
            lesson += 1
    counts[LESSON], counts[POINT], counts[KNOWN] = lesson, point, known
    numbers[REGRET], numbers[SCALE] = regret, scale
