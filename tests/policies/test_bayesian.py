"""What every policy with a posterior does, whatever it draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from croupier.coins import SeededCoins
from croupier.model import Model
from croupier.plan import Plan
from croupier.policies.bayesian import BayesianPolicy
from croupier.policies.randucb import RandUcb
from croupier.policies.sampling import Sampling
from croupier.policies.thompson import Thompson
from croupier.simulation.engine import run
from croupier.simulation.synthetic import Sphere

from .learnt_models import FEATURES, PRIOR, learnt

POLICIES = [kind(0.01, PRIOR, kind.usual_spread) for kind in (Sampling, RandUcb, Thompson)]
EVERY = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
RARE = 1e-6


@EVERY
def test_its_model_is_the_posterior_with_its_own_spread(policy: BayesianPolicy) -> None:
    ours, theirs = learnt(policy), learnt(POLICIES[0])
    np.testing.assert_array_equal(ours.theta, theirs.theta)
    np.testing.assert_array_equal(ours.matrix, theirs.matrix)
    assert ours.scale == {"sampling": 0.7, "randucb": 1.0, "thompson": 1.0}[policy.name]


@EVERY
def test_the_first_batch_plays_every_available_arm_alike(policy: BayesianPolicy) -> None:
    model, coins = policy.first_model, SeededCoins(1)
    mask = np.array([True, True, False, True, True])
    played = [int(policy.choose(model, FEATURES[:5], coins, mask).arm) for _ in range(4000)]
    counts = np.bincount(played, minlength=5)
    assert counts[2] == 0
    # False alarms 1e-6.
    assert chisquare(counts[mask]).pvalue > RARE


@EVERY
def test_simulated_devices_choose_with_the_law_of_real_ones(policy: BayesianPolicy) -> None:
    model, arms, coins = learnt(policy), FEATURES[:8], SeededCoins(4)
    real = [int(policy.choose(model, arms, coins).arm) for _ in range(5000)]
    theta, matrix = model.theta[None, None], model.matrix[None, None]
    stacked = Model(policy.name, theta, matrix, model.scale, users=200)
    quick = policy.sample(stacked, arms[None, None], 5000, np.random.default_rng(5))[0]
    table = np.array([np.bincount(real, minlength=8), np.bincount(quick, minlength=8)])
    # False alarms 1e-6.
    assert chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > RARE


@EVERY
def test_a_device_must_bring_its_coins(policy: BayesianPolicy) -> None:
    with pytest.raises(ValueError, match="coins must be given"):
        policy.choose(policy.first_model, FEATURES)


@EVERY
def test_unknown_options_are_refused(policy: BayesianPolicy) -> None:
    with pytest.raises(ValueError, match=f"{policy.name} has no option 'exploration'"):
        Plan.calibrate("linucb", dim=3, horizon=100, policy=policy.name, exploration=0.5)


@EVERY
def test_a_plan_reads_back_and_runs_the_same_twice(policy: BayesianPolicy) -> None:
    made = Plan.calibrate(
        "vector-sum", dim=3, horizon=900, epsilon=4.0, delta=1e-4, policy=policy.name
    )
    assert Plan.from_json(made.to_json()) == made
    first, again = (run(made, Sphere(3, 10), 7, range(3)).regret for _ in range(2))
    np.testing.assert_array_equal(first, again)
