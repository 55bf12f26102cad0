"""A trial before its first round."""

from __future__ import annotations

import numpy as np

from croupier.layouts import Layout
from croupier.plan import Plan
from croupier.policies.bayesian import BayesianPolicy
from croupier.policies.ucb import Ucb
from croupier.protocols.running_sums import Correlated
from croupier.simulation.kernels.arrays import (
    GROWTH,
    KNOWN,
    RULE,
    SCALE,
    VOLUME,
    WEIGHT,
    Coding,
    Floats,
    PosteriorRoom,
    Prior,
    Shape,
    TrialState,
    empty_state,
    posterior_room,
    ready,
)
from croupier.simulation.kernels.support import ROOTED, RULES


def first_state(plan: Plan, shape: Shape) -> TrialState:
    """The state before anything is learnt, with the first model."""
    rule = plan.publication
    made = empty_state(shape, every=rule.name == "every")
    if isinstance(plan.policy, Ucb):
        regularizer, scale = plan.policy.numbers(0, 0.0, shape.scored)
        made.numbers[SCALE], made.numbers[WEIGHT] = scale, regularizer
    # The first covariance is diagonal: a library would start its threads for its root.
    weights = np.diag(plan.policy.first_model.matrix)
    power = 0.5 if type(plan.policy) in ROOTED else 1.0
    for rows in (made.matrix, made.half, made.shown_matrix, made.shown_half):
        rows[:] = np.diag(weights**power)
    made.entries[shape.scored :] = _offset(plan)
    made.numbers[GROWTH] = rule.growth or 0.0
    made.numbers[VOLUME] = np.log(weights).sum()
    made.counts[RULE], made.counts[KNOWN] = RULES[rule.name], -1
    return made


def first_posterior(plan: Plan, shape: Shape) -> tuple[Prior, PosteriorRoom]:
    """What is known before any user; policies without a posterior have no use for it."""
    if not isinstance(plan.policy, BayesianPolicy):
        return Prior(np.ones(1), 0.0, 0.0, 1, 1, 1), posterior_room(1, np.ones((1, 1, 1)))
    prior, blocks = plan.policy.prior, plan.layout.blocks
    p = prior.features + 1
    room = posterior_room(shape.levels, prior.state.precision.reshape(blocks, p, p))
    told = shape.scored // blocks, blocks
    return Prior(prior.units, prior.matrix_noise, prior.drift, prior.features, *told), room


def coding(plan: Plan) -> Coding:
    """How contributions are written, and read."""
    layout = plan.layout
    rows, columns = layout.triangle
    return Coding(
        layout.centre,
        _offset(plan),
        float(layout.decode(np.zeros(layout.size), 1).matrix.flat[-1]),
        ready(layout.entry_factors),
        np.asarray(rows, dtype=np.int64),
        np.asarray(columns, dtype=np.int64),
        layout.stretch,
        _shrink(layout),
        layout.low,
        layout.high,
        bool(plan.mechanism.releases[0].roundings),
        isinstance(plan.mechanism.running_sum(np.random.default_rng(0)), Correlated),
    )


def _shrink(layout: Layout) -> Floats:
    """What decoding does to each coordinate."""
    decoded = layout.decode(np.ones(layout.size), 1)
    (rows, columns), p = layout.triangle, decoded.matrix.shape[-1]
    matrix = decoded.matrix.reshape(-1, p, p)[rows // p, rows % p, columns % p]
    return np.concatenate([decoded.vector.ravel(), matrix])


def _offset(plan: Plan) -> float:
    """The layout's own, in units of what a model scores."""
    return float(plan.layout.units[-1] / plan.layout.units[0]) * (
        plan.layout.summed > plan.layout.scored
    )
