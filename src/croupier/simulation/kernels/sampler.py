"""``Policy.sample`` by kernels, for runs that play all trials at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.model import Model
from croupier.policies.base import Policy, uniform_arms
from croupier.policies.bayesian import root
from croupier.simulation.kernels.arrays import OPTIMIST, SAMPLER, THOMPSON, Floats, Mask, ready
from croupier.simulation.kernels.support import KINDS, draws_of

Sample = Callable[..., NDArray[np.intp]]


def sampler(policy: Policy) -> Sample:
    """What ``policy.sample`` does, compiled where the policy is known."""
    kind = KINDS.get(type(policy))
    if kind is None:
        return policy.sample

    def sample(
        model: Model,
        features: Floats,
        rounds: int,
        rng: np.random.Generator,
        mask: Mask | None = None,
    ) -> NDArray[np.intp]:
        if kind != OPTIMIST and model.users == 0:
            return uniform_arms((len(features), rounds), features.shape[-2], rng, mask)
        return _chosen(kind, model, features, rounds, rng, mask)

    return sample


def _chosen(
    kind: int,
    model: Model,
    features: Floats,
    rounds: int,
    rng: np.random.Generator,
    mask: Mask | None,
) -> NDArray[np.intp]:
    """Arms ``(trials, rounds)``, or ``(trials, 1)`` where all rounds have the same."""
    from croupier.simulation.kernels.arm_choice import choose_all

    trials, sets, arms, dim = features.shape
    offered = np.zeros((trials, 0, arms), dtype=np.bool_) if mask is None else mask
    draws = np.zeros((trials, 1, 1))
    if kind != OPTIMIST:
        draws = rng.standard_normal((trials, rounds, draws_of(kind, dim)))
    different = max(sets, offered.shape[1], draws.shape[1])
    chosen = np.empty((trials, different), dtype=np.intp)
    matrix = model.matrix[:, 0]
    matrix = root(matrix) if kind in (SAMPLER, THOMPSON) else np.triu(matrix) + np.triu(matrix, 1)
    scale: Any = np.broadcast_to(np.reshape(model.scale, (-1,)), (trials,))
    choose_all(
        kind,
        ready(np.swapaxes(features, -1, -2)),
        ready(model.theta[:, 0]),
        ready(matrix),
        ready(scale),
        ready(draws),
        np.require(offered, np.bool_, ["C", "W"]),
        chosen,
    )
    return chosen
