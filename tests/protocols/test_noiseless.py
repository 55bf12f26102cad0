from __future__ import annotations

import math

import numpy as np
import pytest

from croupier.coins import SeededCoins
from croupier.contribution import contribution
from croupier.layouts import LightOffset
from croupier.plan import Plan
from croupier.protocols.noiseless import NoiselessRelease

LAYOUT = LightOffset(3)
RELEASE = NoiselessRelease(LAYOUT, 5)


def users() -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = [contribution(LAYOUT, rng.uniform(-0.5, 0.5, 3), rng.random()) for _ in range(5)]
    return np.array(rows)


def test_the_real_path_gives_the_exact_sum() -> None:
    exact = [math.fsum(column) for column in users().T]
    assert RELEASE.run(users(), SeededCoins(0)) == pytest.approx(exact, rel=1e-14)


def test_the_shortcut_gives_the_exact_sum_of_every_trial() -> None:
    trials = np.array([users(), 2 * users()])
    sums = RELEASE.sample_sum(trials, np.random.default_rng(0))
    assert sums == pytest.approx(trials.sum(axis=1), rel=1e-14)


def test_analyzer_ignores_message_order_to_the_last_bit() -> None:
    rows = users() * 10.0 ** np.arange(5)[:, None]
    sums = [
        RELEASE.analyze({"report": rows[np.random.default_rng(seed).permutation(5)]})
        for seed in range(20)
    ]
    assert all(np.array_equal(sums[0], other) for other in sums)


def test_it_promises_nothing_and_says_why() -> None:
    plan = Plan.calibrate("noiseless", dim=3, batch_size=5, horizon=10, calibration="theorem")
    assert plan.budget is None
    for guarantee in plan.guarantees().values():
        assert not guarantee.proved
        assert guarantee.reason == "no noise is added"
        assert guarantee.epsilon(1e-5) == math.inf
    assert plan.release(0).noise_std == 0
