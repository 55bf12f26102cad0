from __future__ import annotations

import numpy as np

from croupier.coins import SeededCoins
from croupier.policies.bayesian import root
from croupier.policies.sampling import Sampling
from croupier.policies.thompson import Thompson

from .learnt_models import FEATURES, PRIOR, learnt

POLICY = Thompson(0.01, PRIOR, 1.0)


def test_a_device_plays_the_best_of_one_draw() -> None:
    model = learnt(POLICY)
    strayed = model.theta + root(model.matrix) @ SeededCoins(3).normal(3)
    choice = POLICY.choose(model, FEATURES, SeededCoins(3))
    np.testing.assert_allclose(choice.scores, FEATURES @ strayed)
    np.testing.assert_allclose(choice.widths, FEATURES @ (strayed - model.theta), atol=1e-15)
    assert choice.arm == np.argmax(FEATURES @ strayed)


def test_a_draw_may_count_against_an_arm_as_it_may_not_in_sampling() -> None:
    model = learnt(POLICY)
    widths = [POLICY.choose(model, FEATURES, SeededCoins(seed)).widths for seed in range(20)]
    assert np.min(widths) < -0.01
    theirs = Sampling(0.01, PRIOR, 1.0)
    same = [theirs.choose(model, FEATURES, SeededCoins(seed)).widths for seed in range(20)]
    np.testing.assert_allclose(same, np.maximum(widths, 0.0))


def test_scores_have_the_law_of_the_posterior() -> None:
    model, draws = learnt(POLICY), np.random.default_rng(6).standard_normal((40_000, 3))
    scores, _ = POLICY.scores(model, FEATURES[None, :4], draws)
    means, covariance = FEATURES[:4] @ model.theta, FEATURES[:4] @ model.matrix @ FEATURES[:4].T
    spread = np.sqrt(np.diag(covariance))
    # Four means and ten entries beyond 6 standard errors once in 30 million runs.
    assert (np.abs(scores.mean(axis=0) - means) < 6 * spread / 200).all()
    assert (np.abs(np.cov(scores.T) - covariance) < 6 * 1.5 * np.outer(spread, spread) / 200).all()
