"""The device: it plays what the model says, keeps its allowance and refuses to go back."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.coins import SeededCoins, SystemCoins
from croupier.errors import RefusedError
from croupier.model import Model
from croupier.plan import Plan

DIM = 3


def plan(protocol: str = "amplified-gaussian", **changes: Any) -> Plan:
    shared = {"dim": DIM, "batch_size": 2, "horizon": 100, "epsilon": 1.0, "delta": 0.1}
    return Plan.calibrate(protocol, calibration="released", **{**shared, **changes})


def model(of: Plan, version: int, theta: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Model:
    first = of.policy.first_model
    return replace(first, plan_id=of.id, version=version, theta=np.array(theta))


def test_a_device_plays_the_best_arm_of_the_model_it_was_given() -> None:
    client = Client(plan())
    arms = 0.5 * np.eye(DIM)
    assert client.choose(arms).arm == 0
    client.update(model(plan(), 1, theta=(0.0, 1.0, 0.0)))
    assert client.choose(arms).arm == 1
    assert client.choose(arms, mask=[True, False, True]).arm == 0


@pytest.mark.parametrize(
    ("features", "mask", "message"),
    [
        (np.zeros((2, 2)), None, r"features must end in dimension 3, got shape \(2, 2\)"),
        (np.zeros(3), None, r"features must have shape \(arms, dim\), got \(3,\)"),
        (np.zeros((0, 3)), None, r"features must have shape \(arms, dim\), got \(0, 3\)"),
        (np.ones((2, 3)), None, r"features must have norm at most 1.0, got 1.73"),
        (np.full((2, 3), math.nan), None, r"features must be finite, got nan"),
        (np.zeros((2, 3)), [True], r"mask must have shape \(2,\), got \(1,\)"),
        (np.zeros((2, 3)), [False, False], r"mask must leave an arm"),
    ],
)
def test_features_that_cannot_be_played_are_refused(features: Any, mask: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Client(plan()).choose(features, mask)


def test_a_second_report_in_a_batch_is_refused() -> None:
    client = Client(plan(max_participations=5))
    client.report([1.0, 0.0, 0.0], 1.0)
    with pytest.raises(RefusedError, match="already reported in batch 0"):
        client.report([1.0, 0.0, 0.0], 1.0)
    client.update(model(plan(max_participations=5), 1))
    assert client.report([1.0, 0.0, 0.0], 1.0).batch == 1


def test_a_device_stops_when_its_participations_are_used() -> None:
    allowed = plan(max_participations=2)
    client = Client(allowed)
    assert client.remaining == 2
    for batch in (0, 3):
        client.update(model(allowed, batch))
        client.report([0.0, 1.0, 0.0], 0.5)
    assert client.remaining == 0
    client.update(model(allowed, 7))
    with pytest.raises(RefusedError, match="used all of its 2 participations"):
        client.report([0.0, 1.0, 0.0], 0.5)
    assert client.choose(np.eye(DIM)).arm == 0


@pytest.mark.parametrize(("feature", "reward"), [([2.0, 0.0, 0.0], 0.5), ([1.0, 0.0, 0.0], 1.5)])
def test_a_refused_contribution_spends_nothing(feature: list[float], reward: float) -> None:
    client = Client(plan())
    with pytest.raises(ValueError, match="must"):
        client.report(feature, reward)
    assert client.remaining == 1
    assert client.report([1.0, 0.0, 0.0], 0.5).batch == 0


def test_an_older_model_is_refused_and_the_newer_one_stays() -> None:
    client = Client(plan())
    client.update(model(plan(), 4, theta=(0.0, 1.0, 0.0)))
    with pytest.raises(RefusedError, match="version 3 is older than 4"):
        client.update(model(plan(), 3))
    assert client.choose(0.5 * np.eye(DIM)).arm == 1


def test_a_report_is_for_the_open_batch_whatever_the_age_of_the_model() -> None:
    allowed = plan(max_participations=5)
    client = Client(allowed)
    batches = []
    for version, opened in [(0, 0), (0, 1), (2, 4), (5, None)]:
        client.update(model(allowed, version), opened)
        batches.append(client.report([1.0, 0.0, 0.0], 1.0).batch)
    assert batches == [0, 1, 4, 5]


def test_an_older_batch_is_refused_and_model_and_batch_stay() -> None:
    client = Client(plan())
    client.update(model(plan(), 1, theta=(0.0, 1.0, 0.0)), 4)
    for opened, words in [(3, "batch 3 is older than 4"), (None, "batch 2 is older than 4")]:
        with pytest.raises(RefusedError, match=words):
            client.update(model(plan(), 2), opened)
    assert client.choose(0.5 * np.eye(DIM)).arm == 1
    assert client.report([1.0, 0.0, 0.0], 1.0).batch == 4


def test_a_model_cannot_have_learnt_from_the_open_batch() -> None:
    with pytest.raises(ValueError, match="batch must be a whole number of at least 3, got 2"):
        Client(plan()).update(model(plan(), 3), 2)


def test_a_model_of_another_plan_is_refused() -> None:
    other = plan(epsilon=2.0)
    with pytest.raises(RefusedError, match=f"model is for plan {other.id}, this is {plan().id}"):
        Client(plan()).update(model(other, 1))


def test_a_report_names_its_plan_and_batch_and_nobody() -> None:
    report = Client(plan()).report([1.0, 0.0, 0.0], 1.0)
    assert set(vars(report)) == {"plan_id", "batch", "messages"}
    assert (report.plan_id, report.batch) == (plan().id, 0)


@pytest.mark.parametrize("protocol", ["vector-sum", "amplified-gaussian"])
def test_a_report_has_the_same_size_whatever_the_data(protocol: str) -> None:
    shapes = set()
    for feature, reward in ([0.0, 0.0, 0.0], 0.0), ([0.6, -0.8, 0.0], 1.0):
        messages = Client(plan(protocol)).report(feature, reward).messages
        shapes.add(tuple((channel, rows.shape) for channel, rows in sorted(messages.items())))
    assert len(shapes) == 1


def test_a_deployed_device_draws_from_the_operating_system_and_takes_no_seed() -> None:
    assert list(inspect.signature(Client).parameters) == ["plan"]
    client = Client(plan())
    assert isinstance(client._coins, SystemCoins)
    first, second = (Client(plan()).report([0.0] * DIM, 0.0).messages["vector"] for _ in range(2))
    assert (first != second).all()


def test_seeded_devices_repeat_themselves() -> None:
    reports = [
        Client._seeded(plan(), SeededCoins(seed)).report([0.0] * DIM, 0.0).messages["vector"]
        for seed in (7, 7, 8)
    ]
    np.testing.assert_array_equal(reports[0], reports[1])
    assert (reports[0] != reports[2]).all()


@pytest.mark.parametrize("protocol", ["local", "central", "linucb"])
@pytest.mark.parametrize("role", [Client, Analyzer])
def test_a_baseline_cannot_be_deployed(protocol: str, role: Any) -> None:
    with pytest.raises(RefusedError, match=f"{protocol} is a baseline"):
        role(plan(protocol))
