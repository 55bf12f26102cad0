from __future__ import annotations

import math

import numpy as np
import pytest

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.errors import RefusedError
from croupier.layouts import LightOffset
from croupier.plan import Plan
from croupier.protocols.running_sums import PrefixSums


def plan(calibration: str = "theorem") -> Plan:
    return Plan.calibrate("linucb", dim=3, batch_size=1, horizon=50, calibration=calibration)


def test_sums_are_exact_and_without_noise() -> None:
    release = plan().release(0)
    rows = np.random.default_rng(0).normal(size=(2, 1, plan().layout.size))
    sums = release.sample_sum(rows, np.random.default_rng(1))
    assert np.array_equal(sums, rows[:, 0])
    assert release.noise_std == 0
    assert plan().mechanism.largest_noise_variance(50) == 0


def test_prefix_sums_add_up_exactly() -> None:
    running = PrefixSums(plan().mechanism.running_sum(), 9)
    for step in range(1, 9):
        total, variance = running.add(step - 1, np.full(9, float(step)))
        assert np.array_equal(total, np.full(9, step * (step + 1) / 2))
        assert variance == 0


def test_it_promises_nothing_and_says_why() -> None:
    for guarantee in plan().guarantees().values():
        assert guarantee.epsilon(0.5) == math.inf
        assert guarantee.reason == "the server sees everything and adds no noise"


@pytest.mark.parametrize("name", ["linucb", "noiseless"])
def test_certified_is_offered_first_and_takes_no_budget(name: str) -> None:
    made = Plan.calibrate(name, dim=3, batch_size=1, horizon=50, calibration="certified")
    assert made.mechanism.calibrations[0] == "certified"
    assert made.budget is None
    assert isinstance(made.layout, LightOffset)
    assert made.release(0).noise_std == 0


def test_released_constants_are_those_of_the_script() -> None:
    # MATH 8: G = 1 in the radius, lambda = 1e-4.
    scale = plan("released").mechanism.released_scale(None)
    assert (scale.scale, scale.regularizer) == (1.0, 1e-4)


@pytest.mark.parametrize("role", [Client, Analyzer])
def test_it_cannot_be_deployed(role: type) -> None:
    with pytest.raises(RefusedError, match="linucb is a baseline for simulations"):
        role(plan())
    assert not plan().deployable
