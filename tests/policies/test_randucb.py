from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from croupier.coins import SeededCoins
from croupier.layouts import LightOffset
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.policies.bayesian import BayesianPolicy
from croupier.policies.posterior import LinearPrior
from croupier.policies.randucb import RandUcb
from croupier.policies.sampling import Sampling
from croupier.simulation.engine import run
from croupier.simulation.synthetic import Contextual

LAYOUT = LightOffset(3)
POLICY = RandUcb(0.01, LinearPrior.of(LAYOUT), 1.0)
RNG = np.random.default_rng(0)
FEATURES = RNG.uniform(-0.5, 0.5, (200, 3))
MOMENTS = LAYOUT.decode(LAYOUT.encode(FEATURES, RNG.random(200)).sum(axis=0), 200)
SUMS = ReleasedSums(MOMENTS.vector, MOMENTS.matrix, 200, 1, 2.0)
RARE = 1e-6


def learnt(policy: BayesianPolicy = POLICY) -> Model:
    return policy.model(policy.learn(policy.start(), SUMS))


def test_its_model_is_the_posterior_of_sampling() -> None:
    ours, theirs = learnt(), learnt(Sampling(0.01, POLICY.prior, 0.7))
    np.testing.assert_array_equal(ours.theta, theirs.theta)
    np.testing.assert_array_equal(ours.matrix, theirs.matrix)
    assert (ours.scale, theirs.scale) == (1.0, 0.7)


def test_all_arms_are_widened_by_one_draw() -> None:
    model = learnt()
    width = abs(SeededCoins(3).normal(1)[0])
    spread = np.sqrt(np.einsum("kd,de,ke->k", FEATURES, model.matrix, FEATURES))
    choice = POLICY.choose(model, FEATURES, SeededCoins(3))
    np.testing.assert_allclose(choice.scores, FEATURES @ model.theta + width * spread)
    assert choice.arm == np.argmax(choice.scores)


def test_the_first_batch_plays_every_available_arm_alike() -> None:
    model, coins = POLICY.first_model, SeededCoins(1)
    mask = np.array([True, True, False, True, True])
    played = [int(POLICY.choose(model, FEATURES[:5], coins, mask).arm) for _ in range(4000)]
    counts = np.bincount(played, minlength=5)
    assert counts[2] == 0
    # False alarms 1e-6.
    assert chisquare(counts[mask]).pvalue > RARE


def test_simulated_devices_choose_with_the_law_of_real_ones() -> None:
    model, arms, coins = learnt(), FEATURES[:8], SeededCoins(4)
    real = [int(POLICY.choose(model, arms, coins).arm) for _ in range(5000)]
    stacked = Model("randucb", model.theta[None, None], model.matrix[None, None], 1.0, users=200)
    quick = POLICY.sample(stacked, arms[None, None], 5000, np.random.default_rng(5))[0]
    table = np.array([np.bincount(real, minlength=8), np.bincount(quick, minlength=8)])
    # False alarms 1e-6.
    assert chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > RARE


def test_a_device_must_bring_its_coins() -> None:
    with pytest.raises(ValueError, match="coins must be given"):
        POLICY.choose(POLICY.first_model, FEATURES)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match="randucb has no option 'exploration'"):
        Plan.calibrate("linucb", dim=3, horizon=100, policy="randucb", exploration=0.5)


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
