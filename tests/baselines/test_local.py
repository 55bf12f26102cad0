from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from croupier.analyzer import Analyzer
from croupier.baselines.local import Local, LocalRelease
from croupier.client import Client
from croupier.errors import GuaranteeError, RefusedError
from croupier.layouts import LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.protocols.base import Terms
from croupier.protocols.running_sums import PrefixSums
from croupier.schedules import FixedBatches


def plan(**changes: Any) -> Plan:
    asked: dict[str, Any] = {
        "dim": 5,
        "batch_size": 1,
        "batches": "fixed",
        "horizon": 20_000,
        "calibration": "theorem",
        "epsilon": 1.0,
        "delta": 0.1,
    }
    return Plan.calibrate("local", **{**asked, **changes})


def test_theorem_sigma_is_that_of_zheng_et_al() -> None:
    sigma = plan(epsilon=0.5, delta=1e-5).release(0).parameters["sigma"]
    assert sigma == pytest.approx(4 * math.sqrt(2 * math.log(2.5e5)) / 0.5)


def test_released_sigma_is_that_of_the_script() -> None:
    made = plan(calibration="released")
    sigma = math.sqrt(math.log(25))
    assert made.release(0).parameters["sigma"] == pytest.approx(sigma)
    scale = made.mechanism.released_scale(made.budget)
    assert scale.scale == pytest.approx(sigma * math.sqrt(20_000 * 5))
    assert scale.regularizer == 2 * scale.scale


def test_the_released_constants_have_the_true_delta_of_the_notes() -> None:
    # MATH 8: target delta 0.1 at epsilon 1, true delta 0.195.
    made = plan(calibration="released")
    for guarantee in made.guarantees().values():
        assert guarantee.delta(1.0) == pytest.approx(0.195, abs=5e-4)
    assert not made.met


def test_the_released_constants_do_not_hold_at_epsilon_ten() -> None:
    assert not plan(calibration="released", epsilon=10.0).met


def test_the_theorems_noise_meets_its_budget() -> None:
    assert plan().met
    assert plan().promise.mu == pytest.approx(
        math.sqrt(4.5) / plan().release(0).parameters["sigma"]
    )


def test_theorem_refuses_epsilon_above_one_with_both_numbers() -> None:
    with pytest.raises(GuaranteeError, match=r"needs epsilon <= 1, but 1.5 > 1"):
        plan(epsilon=1.5)
    assert plan(epsilon=1.5, outside=True).release(0).parameters["sigma"] > 0


def test_returning_users_are_refused_from_epsilon_one_on() -> None:
    with pytest.raises(GuaranteeError, match=r"thm:composition needs epsilon < 1, but 1 >= 1"):
        plan(max_participations=3)


@pytest.mark.parametrize("participations", [1, 3, 1000])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-3, 1e-9), (0.2, 0.1), (1.0, 1e-300), (50.0, 0.9)]
)
def test_certified_noise_meets_the_budget_and_is_the_least(
    participations: int, epsilon: float, delta: float
) -> None:
    budget = Budget(epsilon, delta)
    layout, schedule = LightOffset(3), FixedBatches(5, 50)
    made = Local.calibrate(budget, layout, schedule, Terms("certified", participations))
    assert made.guarantee(participations).meets(budget)
    assert not made.guarantee(participations + 1).meets(budget)
    less = Local(layout, schedule, (LocalRelease(layout, 5, made.sigma * 0.999),))
    assert not less.guarantee(participations).meets(budget)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [(1.0, 1e-5, 7.9139), (1.0, 0.1, 2.3035), (0.2, 0.1, 4.8770), (10.0, 0.1, 0.5978)],
)
def test_certified_noise_is_that_of_the_check_table(
    epsilon: float, delta: float, sigma: float
) -> None:
    asked: dict[str, Any] = {"calibration": "certified", "epsilon": epsilon, "delta": delta}
    made = plan(policy="ucb", **asked)
    assert made.release(0).parameters["sigma"] == pytest.approx(sigma, abs=0.51e-4)
    assert made.met
    assert isinstance(made.layout, PapersLayout)
    four = plan(policy="ucb", max_participations=4, **asked)
    assert four.release(0).parameters["sigma"] == pytest.approx(2 * sigma, abs=1.1e-4)
    # The default layout has half the sensitivity.
    assert isinstance(plan(**asked).layout, LightOffset)
    assert plan(**asked).release(0).parameters["sigma"] == pytest.approx(sigma / 2, abs=0.26e-4)


def test_certified_noise_does_not_rest_on_the_honesty_of_others() -> None:
    alone = plan(calibration="certified", batch_size=20, honest_fraction=0.1)
    assert alone.release(0) == plan(calibration="certified", batch_size=20).release(0)
    assert alone.met


def test_participations_add_up_as_squares() -> None:
    made = plan(epsilon=0.5, max_participations=4)
    once, four = made.mechanism.guarantee(1).mu, made.mechanism.guarantee(4).mu
    assert once is not None
    assert four == pytest.approx(2 * once)
    assert made.met


def test_the_report_with_least_noise_decides() -> None:
    layout = LightOffset(2)
    releases = (LocalRelease(layout, 3, 2.0), LocalRelease(layout, 3, 0.5))
    made = Local(layout, FixedBatches(3, 9), releases)
    assert made.local_guarantee().mu == pytest.approx(math.sqrt(9 / 8) / 0.5)


def test_a_batch_sum_has_the_noise_of_all_its_users() -> None:
    release = LocalRelease(LightOffset(2), 9, 0.7)
    assert release.noise_std == pytest.approx(2.1)
    rows = np.random.default_rng(0).normal(size=(9, 5))
    many = np.broadcast_to(rows, (4000, *rows.shape))
    sums = release.sample_sum(many, np.random.default_rng(1))
    scaled = (sums - rows.sum(axis=0)) / 2.1
    # One test on 20000 numbers; false alarms 1e-6.
    assert kstest(scaled.ravel(), "norm").pvalue > 1e-6


def test_prefix_sums_add_up_the_variances() -> None:
    running = PrefixSums(plan(batch_size=4).mechanism.running_sum(), 20)
    sigma = plan(batch_size=4).release(0).parameters["sigma"]
    for step in range(1, 5):
        _, variance = running.add(step - 1, np.zeros(20))
        assert variance == pytest.approx(step * 4 * sigma**2)
    assert plan(batch_size=4).mechanism.largest_noise_variance(4) == pytest.approx(variance)


@pytest.mark.parametrize("role", [Client, Analyzer])
def test_it_cannot_be_deployed(role: type) -> None:
    with pytest.raises(RefusedError, match="local is a baseline for simulations"):
        role(plan())
