from __future__ import annotations

import numpy as np

from croupier.coins import SeededCoins
from croupier.plan import Plan
from croupier.policies.randucb import RandUcb
from croupier.simulation.engine import run
from croupier.simulation.synthetic import Contextual

from .learnt_models import FEATURES, PRIOR, learnt

POLICY = RandUcb(0.01, PRIOR, 1.0)


def test_all_arms_are_widened_by_one_draw() -> None:
    model = learnt(POLICY)
    width = abs(SeededCoins(3).normal(1)[0])
    spread = np.sqrt(np.einsum("kd,de,ke->k", FEATURES, model.matrix, FEATURES))
    choice = POLICY.choose(model, FEATURES, SeededCoins(3))
    np.testing.assert_allclose(choice.scores, FEATURES @ model.theta + width * spread)
    assert choice.arm == np.argmax(choice.scores)


def test_it_beats_sampling_where_every_user_has_an_own_action_set() -> None:
    """MATH 6.5, point 6. Here it is 13 % less over 100 trials, and 60 have an error of 2 %."""
    world = Contextual(5, 20)
    drawn, widened = (
        Plan.calibrate(
            "vector-sum", dim=5, horizon=20000, epsilon=1.0, delta=0.1, policy=policy,
            constant_feature=world.constant_of(5),
        )
        for policy in ("sampling", "randucb")
    )  # fmt: skip
    more, less = (run(one, world, 0, range(60)).regret[:, -1].mean() for one in (drawn, widened))
    assert less < more
