"""Batches that honest users could not have added up to are charged, kept and not learnt from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from croupier.analyzer import Analyzer
from croupier.plan import Plan
from croupier.service.analyzer.quarantine import JudgedBatch, Standing
from croupier.service.analyzer.rows import PublishedModel
from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.storage.database import Database
from croupier.shuffler import Batch

from ..beside_the_keys import analyzer_store
from ..noiseless_plans import noiseless
from .test_store import batch_of

Databases = Callable[[str], Database]

BATCHES = 5


def begun(databases: Databases) -> tuple[Plan, AnalyzerStore]:
    plan = noiseless(dim=3, batches=BATCHES)
    store = analyzer_store(databases("analyzer"))
    store.open_plan(plan)
    return plan, store


def batch(plan: Plan, index: int, hostile: bool = False) -> Batch:
    """Three users; hostile ones have nine times the features that anybody can have."""
    honest = batch_of(plan, index)
    if not hostile:
        return honest
    return Batch(plan.id, index, {"report": 9.0 * honest.messages["report"]})


def send(store: AnalyzerStore, plan: Plan, index: int, hostile: bool = False) -> PublishedModel:
    newest = store.newest_model(plan.id).model.hash
    return store.receive(batch(plan, index, hostile), newest, bytes([index]) * 32)


def learnt(plan: Plan, sums: list[np.ndarray], left_out: set[int]) -> np.ndarray:
    """Theta of a role that never had these batches."""
    role = Analyzer(plan, left_out)
    for index, one in enumerate(sums):
        role.learn(index, one)
    return role.model.theta


def standings(store: AnalyzerStore, plan: Plan) -> list[str]:
    return [one.standing.value for one in store.judged(plan.id)]


def test_a_suspicious_batch_is_charged_and_not_learnt_from(databases: Databases) -> None:
    plan, store = begun(databases)
    before = send(store, plan, 0).model
    published = send(store, plan, 1, hostile=True)
    np.testing.assert_array_equal(published.model.theta, before.theta)
    assert (published.model.users, published.model.previous) == (before.users, before.hash)
    assert (published.model.version, published.next_batch) == (2, 2)
    assert len(store.ledger(plan.id)) == len(store.sums(plan.id)) == 2
    (found,) = store.quarantined(plan.id)
    assert (found.batch, found.standing) == (1, Standing.QUARANTINED)
    assert found.chance is not None
    assert found.chance < 1e-6
    assert f"batch 1 is quarantined; by the {found.part}" in found.words
    again = store.receive(batch(plan, 1, hostile=True), before.hash, bytes([1]) * 32)
    assert (again.document, again.next_batch) == (published.document, 2)
    assert len(store.quarantined(plan.id)) == 1


def test_the_next_model_is_that_of_the_other_batches(databases: Databases) -> None:
    plan, store = begun(databases)
    for index in range(3):
        send(store, plan, index, hostile=index == 1)
    found = store.newest_model(plan.id).model
    assert (found.version, found.users) == (3, 6)
    np.testing.assert_allclose(found.theta, learnt(plan, store.sums(plan.id), {1}))
    assert standings(store, plan) == ["in", "quarantined", "in"]


@pytest.mark.parametrize(("decision", "out"), [(Standing.IN, {2}), (Standing.LEFT_OUT, {1})])
def test_an_operator_decides_while_another_process_learns(
    databases: Databases, decision: Standing, out: set[int]
) -> None:
    """The model after the next batch follows. With a lie taken in, the sum of all is suspicious."""
    plan, store = begun(databases)
    for index in range(2):
        send(store, plan, index, hostile=index == 1)
    operator = analyzer_store(store._database)
    operator.decide_standing(plan.id, 1, decision)
    assert store.quarantined(plan.id) == []
    found = send(store, plan, 2).model
    np.testing.assert_allclose(found.theta, learnt(plan, store.sums(plan.id), out))
    assert found.users == 6
    assert {one.batch for one in store.quarantined(plan.id)} == out - {1}


def test_a_batch_that_looks_honest_can_be_left_out_and_taken_in_again(
    databases: Databases,
) -> None:
    plan, store = begun(databases)
    send(store, plan, 0)
    send(store, plan, 1)
    store.decide_standing(plan.id, 0, Standing.LEFT_OUT)
    assert send(store, plan, 2).model.users == 6
    store.decide_standing(plan.id, 0, Standing.IN)
    found = send(store, plan, 3).model
    assert (found.users, found.version) == (12, 4)
    np.testing.assert_allclose(found.theta, learnt(plan, store.sums(plan.id), set()))


def test_a_rare_model_is_published_where_a_batch_is_left_out(databases: Databases) -> None:
    plan = noiseless(dim=3, batches=BATCHES, publication="rare", growth=50.0)
    store = analyzer_store(databases("analyzer"))
    store.open_plan(plan)
    before = [send(store, plan, index).model.version for index in range(3)]
    store.decide_standing(plan.id, 1, Standing.LEFT_OUT)
    found = send(store, plan, 3).model
    assert found.version > before[-1]
    assert found.users == 9
    assert send(store, plan, 4).model.version == found.version


def test_only_batches_that_came_can_be_decided_about(databases: Databases) -> None:
    plan, store = begun(databases)
    send(store, plan, 0)
    for index in (-1, 1, 10**6):
        with pytest.raises(Refusal, match=f"batch {index} has not come, 1 have") as refused:
            store.decide_standing(plan.id, index, Standing.LEFT_OUT)
        assert refused.value.reason is Reason.NOT_FOUND


def test_nothing_follows_the_last_batch(databases: Databases) -> None:
    plan, store = begun(databases)
    for index in range(BATCHES):
        send(store, plan, index)
    with pytest.raises(Refusal) as refused:
        store.decide_standing(plan.id, 0, Standing.LEFT_OUT)
    assert refused.value.reason is Reason.PLAN_ENDED


def test_what_cannot_be_seen_alone_is_said_to_be_unknown() -> None:
    words = JudgedBatch(3, Standing.LEFT_OUT, None, None).words
    assert words == "batch 3 is left-out; nothing is known of it alone"
