"""The three roles together, and what the analyzer accepts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.coins import SeededCoins
from croupier.errors import RefusedError
from croupier.model import Model
from croupier.plan import Plan
from croupier.shuffler import Batch, Shuffler, shuffle

Floats = NDArray[np.float64]

DIM, USERS, BATCHES = 3, 40, 4
TRUTH = np.array([0.5, 0.3, 0.1])


def plan(protocol: str, calibration: str = "released", **changes: Any) -> Plan:
    shared = {"dim": DIM, "batch_size": USERS, "horizon": USERS * BATCHES + 7}
    budget = {"epsilon": 5.0, "delta": 0.1}
    return Plan.calibrate(protocol, calibration=calibration, **{**shared, **budget, **changes})


def arm_sets(count: int, seed: int = 3) -> Floats:
    sets = np.random.default_rng(seed).standard_normal((count, 6, DIM))
    return np.asarray(sets / np.linalg.norm(sets, axis=-1, keepdims=True))


def deploy(used: Plan, batches: int = BATCHES) -> tuple[list[Model], Floats, Floats]:
    """Every user on a device of their own; the models, and the features and rewards behind them."""
    shuffler, analyzer = Shuffler(used), Analyzer(used)
    rng = np.random.default_rng(11)
    features, rewards, models = [], [], [analyzer.model]
    for number, arms in enumerate(arm_sets(batches * USERS)):
        client = Client._seeded(used, SeededCoins(number))
        client.update(analyzer.model, analyzer.batch)
        played = arms[int(client.choose(arms).arm)]
        reward = float(rng.random() < max(played @ TRUTH, 0.0))
        batch = shuffler.collect(client.report(played, reward))
        features.append(played)
        rewards.append(reward)
        if batch is not None:
            models.append(analyzer.receive(batch))
    assert shuffler.waiting == 0
    return models, np.array(features), np.array(rewards)


def test_without_noise_the_deployment_learns_by_least_squares() -> None:
    used = plan("noiseless", "theorem")
    models, features, rewards = deploy(used)
    assert len(models) == BATCHES + 1
    for version, model in enumerate(models):
        seen, paid = features[: version * USERS], rewards[: version * USERS]
        expected = np.linalg.solve(seen.T @ seen + np.eye(DIM), seen.T @ paid)
        np.testing.assert_allclose(model.theta, expected, rtol=1e-5, atol=1e-15)
        assert (model.version, model.users, model.repairs) == (version, version * USERS, 0)


@pytest.mark.parametrize("protocol", ["vector-sum", "amplified-gaussian"])
def test_a_private_deployment_releases_the_sums_with_the_noise_it_states(protocol: str) -> None:
    used = plan(protocol)
    models, features, rewards = deploy(used)
    last = models[-1]
    gram = np.linalg.inv(last.matrix)
    regularizer = used.policy.parameters["regularizer"]
    matrix_error = gram - regularizer * np.eye(DIM) - features.T @ features
    vector_error = gram @ last.theta - features.T @ rewards
    # Nine sums with noise of the stated size: beyond 5 standard deviations once in 200,000 runs.
    stated = math.sqrt(BATCHES) * used.release(0).noise_std
    upper = matrix_error[np.triu_indices(DIM)]
    errors = np.concatenate([vector_error, upper]) / stated
    assert last.repairs == 0
    assert np.abs(errors).max() < 5
    # chi-squared with 9 degrees of freedom is below 0.6 once in 10,000 runs.
    assert (errors**2).sum() > 0.6


@pytest.mark.parametrize("protocol", ["noiseless", "vector-sum", "amplified-gaussian"])
def test_models_form_a_chain_of_hashes_under_one_plan(protocol: str) -> None:
    used = plan(protocol)
    models, _, _ = deploy(used, batches=2)
    assert [model.version for model in models] == [0, 1, 2]
    assert [model.plan_id for model in models] == [used.id] * 3
    assert [model.previous for model in models[1:]] == [model.hash for model in models[:-1]]
    assert all(Model.from_json(model.to_json()).hash == model.hash for model in models)


def test_batches_go_on_while_a_model_stays_published() -> None:
    used = plan("noiseless", "theorem", publication="rare", growth=10.0)
    models, features, rewards = deploy(used)
    versions = [model.version for model in models]
    assert len(models) == BATCHES + 1
    assert 1 < len(set(versions)) < BATCHES + 1
    last = versions[-1] * USERS
    seen, paid = features[:last], rewards[:last]
    expected = np.linalg.solve(seen.T @ seen + np.eye(DIM), seen.T @ paid)
    np.testing.assert_allclose(models[-1].theta, expected, rtol=1e-5)
    assert models[-1].users == last


def test_a_rare_model_follows_the_one_published_before_it() -> None:
    used = plan("noiseless", "theorem", publication="rare", growth=10.0)
    models, _, _ = deploy(used)
    published = [models[0]]
    for model in models:
        if model.version != published[-1].version:
            assert model.previous == published[-1].hash
            published.append(model)
    assert len(published) > 1


def test_a_batch_that_publishes_nothing_is_not_taken_twice() -> None:
    used = plan("noiseless", "theorem", publication="rare", growth=1e6)
    analyzer = Analyzer(used)
    first = analyzer.model
    assert analyzer.receive(released(used)) is first
    assert analyzer.batch == 1
    with pytest.raises(RefusedError, match="batch 0 came, 1 is next"):
        analyzer.receive(released(used))
    assert analyzer.receive(released(used, index=1)) is first
    assert analyzer.batch == 2


def released(used: Plan, index: int = 0) -> Batch:
    """One batch of a plan, straight from its devices."""
    shuffler = Shuffler(used)
    batch = None
    for arms in arm_sets(USERS):
        batch = shuffler.collect(Client(used).report(arms[0], 1.0))
    assert batch is not None
    return replace(batch, index=index)


@pytest.mark.parametrize("protocol", ["noiseless", "vector-sum", "amplified-gaussian"])
def test_analyzer_ignores_message_order(protocol: str) -> None:
    used = plan(protocol)
    batch = released(used)
    again = replace(batch, messages=shuffle(batch.messages, SeededCoins(5)))
    changed = any(
        (again.messages[channel] != rows).any() for channel, rows in batch.messages.items()
    )
    assert changed
    assert Analyzer(used).receive(again).hash == Analyzer(used).receive(batch).hash


def test_a_batch_of_another_plan_is_refused() -> None:
    used, other = plan("noiseless"), plan("noiseless", dim=DIM, horizon=500)
    analyzer = Analyzer(used)
    with pytest.raises(RefusedError, match=f"batch is for plan {other.id}, this is {used.id}"):
        analyzer.receive(released(other))
    assert analyzer.model.version == 0


def test_a_batch_out_of_order_is_refused_and_changes_nothing() -> None:
    used = plan("noiseless")
    analyzer = Analyzer(used)
    with pytest.raises(RefusedError, match="batch 1 came, 0 is next"):
        analyzer.receive(released(used, index=1))
    first = analyzer.receive(released(used))
    with pytest.raises(RefusedError, match="batch 0 came, 1 is next"):
        analyzer.receive(released(used))
    assert analyzer.model is first


def test_repairs_are_counted_over_all_batches() -> None:
    used = plan("noiseless", "theorem")
    analyzer = Analyzer(used)
    rows = np.zeros((1, used.layout.size))
    rows[0, used.layout.labels.index("v0.0")] = -5.0
    batches = [Batch(used.id, index, {"report": rows}) for index in range(2)]
    assert [analyzer.receive(batch).repairs for batch in batches] == [1, 1]
    assert analyzer.repairs == 2


def test_the_first_model_is_published_before_any_batch() -> None:
    analyzer = Analyzer(plan("vector-sum"))
    assert (analyzer.model.version, analyzer.model.users, analyzer.model.previous) == (0, 0, "")
    assert not analyzer.model.theta.any()


def test_a_late_report_is_refused_by_the_shuffler() -> None:
    used = plan("noiseless")
    shuffler = Shuffler(used)
    late = Client(used).report([1.0, 0.0, 0.0], 1.0)
    for arms in arm_sets(USERS):
        shuffler.collect(Client(used).report(arms[0], 1.0))
    with pytest.raises(RefusedError, match="report is for batch 0, batch 1 is open"):
        shuffler.collect(late)
