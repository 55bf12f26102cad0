from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from croupier.coins import SeededCoins
from croupier.layouts import LightOffset
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.policies.bayesian import BayesianPolicy, root
from croupier.policies.posterior import LinearPrior
from croupier.policies.sampling import Sampling
from croupier.policies.thompson import Thompson
from croupier.simulation.engine import run
from croupier.simulation.synthetic import Sphere

LAYOUT = LightOffset(3)
POLICY = Thompson(0.01, LinearPrior.of(LAYOUT), 1.0)
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


def test_a_device_plays_the_best_of_one_draw() -> None:
    model = learnt()
    strayed = model.theta + root(model.matrix) @ SeededCoins(3).normal(3)
    choice = POLICY.choose(model, FEATURES, SeededCoins(3))
    np.testing.assert_allclose(choice.scores, FEATURES @ strayed)
    np.testing.assert_allclose(choice.widths, FEATURES @ (strayed - model.theta), atol=1e-15)
    assert choice.arm == np.argmax(FEATURES @ strayed)


def test_a_draw_may_count_against_an_arm_as_it_may_not_in_sampling() -> None:
    model = learnt()
    widths = [POLICY.choose(model, FEATURES, SeededCoins(seed)).widths for seed in range(20)]
    assert np.min(widths) < -0.01
    theirs = Sampling(0.01, POLICY.prior, 1.0)
    same = [theirs.choose(model, FEATURES, SeededCoins(seed)).widths for seed in range(20)]
    np.testing.assert_allclose(same, np.maximum(widths, 0.0))


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
    stacked = Model("thompson", model.theta[None, None], model.matrix[None, None], 1.0, users=200)
    quick = POLICY.sample(stacked, arms[None, None], 5000, np.random.default_rng(5))[0]
    table = np.array([np.bincount(real, minlength=8), np.bincount(quick, minlength=8)])
    # False alarms 1e-6.
    assert chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > RARE


def test_a_device_must_bring_its_coins() -> None:
    with pytest.raises(ValueError, match="coins must be given"):
        POLICY.choose(POLICY.first_model, FEATURES)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(ValueError, match="thompson has no option 'exploration'"):
        Plan.calibrate("linucb", dim=3, horizon=100, policy="thompson", exploration=0.5)


def test_scores_have_the_law_of_the_posterior() -> None:
    model, draws = learnt(), np.random.default_rng(6).standard_normal((40_000, 3))
    scores, _ = POLICY.scores(model, FEATURES[None, :4], draws)
    means, covariance = FEATURES[:4] @ model.theta, FEATURES[:4] @ model.matrix @ FEATURES[:4].T
    spread = np.sqrt(np.diag(covariance))
    # Four means and ten entries beyond 6 standard errors once in 30 million runs.
    assert (np.abs(scores.mean(axis=0) - means) < 6 * spread / 200).all()
    assert (np.abs(np.cov(scores.T) - covariance) < 6 * 1.5 * np.outer(spread, spread) / 200).all()


def test_a_plan_reads_back_and_runs_the_same_twice() -> None:
    made = Plan.calibrate(
        "vector-sum", dim=3, horizon=900, epsilon=4.0, delta=1e-4, policy="thompson"
    )
    assert Plan.from_json(made.to_json()) == made
    first, again = (run(made, Sphere(3, 10), 7, range(3)).regret for _ in range(2))
    np.testing.assert_array_equal(first, again)
