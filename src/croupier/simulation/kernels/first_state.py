"""A trial before its first round."""

from __future__ import annotations

import numpy as np

from croupier.plan import Plan
from croupier.policies.sampling import Sampling
from croupier.policies.ucb import Ucb
from croupier.simulation.kernels.arrays import (
    GROWTH,
    KNOWN,
    RULE,
    SCALE,
    VOLUME,
    WEIGHT,
    Coding,
    TrialState,
    empty_state,
)
from croupier.simulation.kernels.support import RULES


def first_state(plan: Plan, arms: int, levels: int) -> TrialState:
    """The state before anything is learnt, with the first model."""
    layout, rule = plan.layout, plan.publication
    made = empty_state(layout.dim, arms, layout.size, levels, every=rule.name == "every")
    if isinstance(plan.policy, Ucb):
        regularizer, scale = plan.policy.numbers(0, 0.0, layout.dim)
        made.numbers[SCALE], made.numbers[WEIGHT] = scale, regularizer
        weight = 1 / regularizer
    else:
        weight = 1 / layout.dim
    # The first covariance is a multiple of the identity: a library would start its threads for it.
    power = 0.5 if isinstance(plan.policy, Sampling) else 1.0
    for rows in (made.matrix, made.half, made.shown_matrix, made.shown_half):
        rows[:] = weight**power * np.eye(layout.dim)
    made.numbers[GROWTH] = rule.growth or 0.0
    made.numbers[VOLUME] = layout.dim * np.log(weight)
    made.counts[RULE], made.counts[KNOWN] = RULES[rule.name], -1
    return made


def coding(plan: Plan) -> Coding:
    """How contributions are written."""
    layout = plan.layout
    rounded = bool(plan.mechanism.releases[0].roundings)
    stretch, low, high = layout.stretch, layout.low, layout.high
    return Coding(layout.offset, stretch, 1 / stretch, low, high, rounded)
