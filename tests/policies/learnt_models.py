"""Two hundred users, and what policies learn from them."""

from __future__ import annotations

import numpy as np

from croupier.layouts import LightOffset
from croupier.model import Model, ReleasedSums
from croupier.policies.bayesian import BayesianPolicy
from croupier.policies.posterior import LinearPrior

LAYOUT = LightOffset(3)
PRIOR = LinearPrior.of(LAYOUT)
RNG = np.random.default_rng(0)
FEATURES = RNG.uniform(-0.5, 0.5, (200, 3))
REWARDS = RNG.random(200)


def learnt(policy: BayesianPolicy, noise: float = 2.0) -> Model:
    """The model after one batch whose sums have noise of this variance."""
    moments = LAYOUT.decode(LAYOUT.encode(FEATURES, REWARDS).sum(axis=0), 200)
    sums = ReleasedSums(moments.vector, moments.matrix, 200, 1, noise)
    return policy.model(policy.learn(policy.start(), sums))
