"""A trial before its first round."""

from __future__ import annotations

import numpy as np

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
    PosteriorRoom,
    Prior,
    Shape,
    TrialState,
    empty_state,
    posterior_room,
)
from croupier.simulation.kernels.support import ROOTED, RULES


def first_state(plan: Plan, shape: Shape) -> TrialState:
    """The state before anything is learnt, with the first model."""
    rule = plan.publication
    made = empty_state(shape, every=rule.name == "every")
    if isinstance(plan.policy, Ucb):
        regularizer, scale = plan.policy.numbers(0, 0.0, shape.scored)
        made.numbers[SCALE], made.numbers[WEIGHT] = scale, regularizer
    # The first covariance is a multiple of the identity: a library would start its threads for it.
    weight = float(plan.policy.first_model.matrix[0, 0])
    power = 0.5 if type(plan.policy) in ROOTED else 1.0
    for rows in (made.matrix, made.half, made.shown_matrix, made.shown_half):
        rows[:] = weight**power * np.eye(shape.scored)
    made.entries[shape.scored :] = _offset(plan)
    made.numbers[GROWTH] = rule.growth or 0.0
    made.numbers[VOLUME] = shape.scored * np.log(weight)
    made.counts[RULE], made.counts[KNOWN] = RULES[rule.name], -1
    return made


def first_posterior(plan: Plan, shape: Shape) -> tuple[Prior, PosteriorRoom]:
    """What is known before any user; policies without a posterior have no use for it."""
    if not isinstance(plan.policy, BayesianPolicy):
        return Prior(np.ones(1), 0.0, 0.0), posterior_room(Shape(1, 1, 1, 1, 1), np.ones((1, 1)))
    prior = plan.policy.prior
    room = posterior_room(shape, prior.state.precision)
    return Prior(prior.units, prior.matrix_noise, prior.drift), room


def coding(plan: Plan) -> Coding:
    """How contributions are written, and read."""
    layout = plan.layout
    decoded = layout.decode(np.ones(layout.size), 1)
    shrink = np.concatenate([decoded.vector, decoded.matrix[layout.triangle]])
    sent = layout.summed * (layout.summed + 1) // 2 == len(layout.triangle[0])
    return Coding(
        layout.centre,
        _offset(plan),
        0.0 if sent else float(decoded.matrix[-1, -1]),
        layout.stretch,
        shrink,
        layout.low,
        layout.high,
        bool(plan.mechanism.releases[0].roundings),
        isinstance(plan.mechanism.running_sum(np.random.default_rng(0)), Correlated),
    )


def _offset(plan: Plan) -> float:
    """The layout's own, in units of what a model scores."""
    return float(plan.layout.units[-1] / plan.layout.units[0]) * (
        plan.layout.summed > plan.layout.scored
    )
