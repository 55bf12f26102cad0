"""The analyzer's machine: every batch once, models in a chain, the same answer every time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from croupier.analyzer import Analyzer
from croupier.errors import DocumentError
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.analyzer.rows import PublishedModel
from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.storage.database import Database, Hooks
from croupier.shuffler import Batch

from ..beside_the_keys import analyzer_store, forget_progress
from ..noiseless_plans import noiseless

Databases = Callable[[str], Database]


def batch_of(plan: Plan, index: int, seed: int = 0) -> Batch:
    """Three users with data of their own."""
    rng = np.random.default_rng((seed, index))
    features = rng.standard_normal((3, plan.layout.dim))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return Batch(plan.id, index, {"report": plan.layout.encode(features, rng.random(3))})


def send(store: AnalyzerStore, plan: Plan, index: int, seed: int = 0) -> PublishedModel:
    """A batch made with the newest model."""
    digest = hashlib.sha256(f"{seed} {index}".encode()).digest()
    return store.receive(
        batch_of(plan, index, seed), store.newest_model(plan.id).model.hash, digest
    )


def begun(databases: Databases, **changes: object) -> tuple[Plan, AnalyzerStore]:
    plan = noiseless(dim=3, **changes)  # type: ignore[arg-type]
    store = analyzer_store(databases("analyzer"))
    store.open_plan(plan)
    return plan, store


def test_the_first_model_is_published_when_a_plan_begins(databases: Databases) -> None:
    plan, store = begun(databases)
    first = store.newest_model(plan.id)
    assert first.model.hash == Analyzer(plan).model.hash
    assert (first.model.version, first.next_batch) == (0, 0)
    assert store.open_plan(plan).document == first.document
    assert store.document(first.model.hash) == first.document
    assert store.plans() == [plan.id]
    assert store.plan(plan.id).id == plan.id


def test_every_batch_gives_the_model_that_the_role_would_publish(databases: Databases) -> None:
    plan, store = begun(databases)
    role = Analyzer(plan)
    for index in range(3):
        published = send(store, plan, index)
        expected = role.receive(batch_of(plan, index))
        assert published.model.hash == expected.hash
        assert published.model.previous == store.newest_model(plan.id).model.previous
        assert published.next_batch == (index + 1 if index < 2 else None)
        np.testing.assert_array_equal(store.sums(plan.id)[index], _sum(plan, index))
    assert store.repairs(plan.id) == role.repairs


def _sum(plan: Plan, index: int) -> np.ndarray:
    return np.asarray(np.sort(batch_of(plan, index).messages["report"], axis=0).sum(axis=0))


def test_a_batch_that_comes_again_is_answered_and_not_learnt_from(databases: Databases) -> None:
    plan, store = begun(databases)
    answers = [send(store, plan, index) for index in range(2)]
    digests = [hashlib.sha256(f"0 {index}".encode()).digest() for index in range(2)]
    for index, answer in enumerate(answers):
        again = store.receive(batch_of(plan, index), answer.model.previous, digests[index])
        assert again.document == answer.document
        assert again.next_batch == index + 1
    assert len(store.sums(plan.id)) == len(store.ledger(plan.id)) == 2


def test_other_bytes_for_a_batch_that_came_are_refused(databases: Databases) -> None:
    plan, store = begun(databases)
    send(store, plan, 0)
    with pytest.raises(Refusal) as refused:
        send(store, plan, 0, seed=1)
    assert refused.value.reason is Reason.ID_CONFLICT
    assert len(store.sums(plan.id)) == 1


def test_a_batch_out_of_turn_is_refused(databases: Databases) -> None:
    plan, store = begun(databases)
    with pytest.raises(Refusal) as refused:
        send(store, plan, 1)
    assert refused.value.reason is Reason.STALE_BATCH


def test_a_batch_made_with_another_model_is_refused(databases: Databases) -> None:
    plan, store = begun(databases)
    with pytest.raises(Refusal) as refused:
        store.receive(batch_of(plan, 0), "00" * 32, b"digest")
    assert refused.value.reason is Reason.STALE_MODEL
    assert store.newest_model(plan.id).next_batch == 0


def test_the_batch_after_the_plans_last_is_refused(databases: Databases) -> None:
    plan, store = begun(databases)
    for index in range(3):
        send(store, plan, index)
    with pytest.raises(Refusal) as refused:
        send(store, plan, 3)
    assert refused.value.reason is Reason.PLAN_ENDED
    assert len(store.ledger(plan.id)) == 3


def test_the_ledger_refuses_the_batch_after_the_last_whatever_else_is_said(
    databases: Databases,
) -> None:
    plan, database = noiseless(dim=3, batches=1), databases("analyzer")
    store = analyzer_store(database)
    store.open_plan(plan)
    send(store, plan, 0)
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM batches")
        transaction.execute("DELETE FROM models WHERE version = 1")
        transaction.execute("UPDATE plans SET batch = 0")
    forget_progress(database)
    with pytest.raises(Refusal) as refused:
        send(analyzer_store(database), plan, 0)
    assert refused.value.reason is Reason.PLAN_ENDED


def test_a_broken_ledger_stops_learning(databases: Databases) -> None:
    plan, database = noiseless(dim=3), databases("analyzer")
    store = analyzer_store(database)
    store.open_plan(plan)
    send(store, plan, 0)
    with database.transaction() as transaction:
        transaction.execute(
            "UPDATE ledger SET entry = replace(entry, '\"users\":3', '\"users\":2')"
        )
    with pytest.raises(DocumentError, match="ledger"):
        send(store, plan, 1)
    assert store.newest_model(plan.id).next_batch == 1


def test_a_batch_of_a_plan_that_is_not_served_is_refused(databases: Databases) -> None:
    plan, store = begun(databases)
    with pytest.raises(Refusal) as refused:
        store.receive(replace(batch_of(plan, 0), plan_id="0" * 32), "", b"digest")
    assert refused.value.reason is Reason.WRONG_PLAN
    with pytest.raises(Refusal) as refused:
        store.document("00" * 32)
    assert refused.value.reason is Reason.NOT_FOUND


def test_a_store_that_starts_anew_goes_on_where_it_was(databases: Databases) -> None:
    plan, database = noiseless(dim=3), databases("analyzer")
    kept = begun(databases)[1]
    analyzer_store(database).open_plan(plan)
    for index in range(3):
        expected = send(kept, plan, index)
        found = send(analyzer_store(database), plan, index)
        assert found.document == expected.document
    assert analyzer_store(database).repairs(plan.id) == kept.repairs(plan.id)


def test_a_store_that_others_have_overtaken_catches_up(databases: Databases) -> None:
    plan, database = noiseless(dim=3), databases("analyzer")
    first, second = analyzer_store(database), analyzer_store(database)
    first.open_plan(plan)
    for index, store in enumerate((first, second, first)):
        send(store, plan, index)
    role = Analyzer(plan)
    for index in range(3):
        model = role.receive(batch_of(plan, index))
    assert (
        first.newest_model(plan.id).model.hash
        == second.newest_model(plan.id).model.hash
        == model.hash
    )


def test_the_next_model_follows_the_published_one_not_a_recomputed_one(
    databases: Databases,
) -> None:
    """Another machine may round differently; the chain must not break for that."""
    plan, database = noiseless(dim=3), databases("analyzer")
    store = analyzer_store(database)
    store.open_plan(plan)
    published = send(store, plan, 0).model
    rounded = replace(published, theta=np.nextafter(published.theta, 2.0))
    with database.transaction() as transaction:
        transaction.execute(
            "UPDATE models SET model = ?, hash = ? WHERE version = 1",
            rounded.to_json(),
            rounded.hash,
        )
    forget_progress(database)
    later = analyzer_store(database)
    assert send(later, plan, 1).model.previous == rounded.hash


def test_models_that_are_not_replaced_are_not_published_again(databases: Databases) -> None:
    plan, store = begun(databases, batches=6, publication="rare", growth=50.0)
    versions = [send(store, plan, index).model.version for index in range(6)]
    role = Analyzer(plan)
    expected = [role.receive(batch_of(plan, index)).version for index in range(6)]
    assert versions == expected
    assert len(set(versions)) < 6
    assert len(store.ledger(plan.id)) == 6


def test_a_document_is_made_once_with_the_ledger_entry_it_rests_on(databases: Databases) -> None:
    made: list[str] = []

    def publish(model: Model, entry: str) -> str:
        made.append(entry)
        return f"{len(made)} {model.hash} {entry}"

    plan = noiseless(dim=3)
    store = analyzer_store(databases("analyzer"), publish=publish)
    store.open_plan(plan)
    for index in range(2):
        send(store, plan, index)
    entries = [entry.hash for entry in store.ledger(plan.id)]
    assert made == ["", *entries]
    newest = store.newest_model(plan.id)
    assert newest.document == f"3 {newest.model.hash} {entries[-1]}"
    assert store.document(newest.model.hash) == newest.document


class CrashError(Exception):
    """Raised around a commit."""


def test_what_was_learnt_but_not_committed_is_forgotten(
    kind: str, places: Callable[[str], str]
) -> None:
    """Even if another process has learnt from other bytes for the same batch meanwhile."""
    armed = False

    def hook() -> None:
        if armed:
            raise CrashError

    plan, url = noiseless(dim=3), places(kind)
    databases = [Database.open(url, "analyzer", hooks) for hooks in (Hooks(hook), Hooks())]
    store, other = map(analyzer_store, databases)
    store.open_plan(plan)
    send(store, plan, 0)
    armed = True
    with pytest.raises(CrashError):
        send(store, plan, 1)
    armed = False
    send(other, plan, 1, seed=1)
    role = Analyzer(plan)
    for index, seed in enumerate((0, 1, 0)):
        expected = role.receive(batch_of(plan, index, seed))
    assert send(store, plan, 2).model.hash == expected.hash
    for database in databases:
        database.close()


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
def test_a_crash_leaves_nothing_in_memory_that_the_database_does_not_have(
    databases: Databases, kind: str, places: Callable[[str], str], moment: str
) -> None:
    armed = False

    def hook() -> None:
        if armed:
            raise CrashError

    plan = noiseless(dim=3)
    database = Database.open(places(kind), "analyzer", Hooks(**{moment: hook}))
    store = analyzer_store(database)
    store.open_plan(plan)
    send(store, plan, 0)
    armed = True
    with pytest.raises(CrashError):
        send(store, plan, 1)
    armed = False
    done = 1 if moment == "before_commit" else 2
    assert store.newest_model(plan.id).next_batch == done
    if moment == "before_commit":
        send(store, plan, 1)
    send(store, plan, 2)
    kept = analyzer_store(databases("analyzer"))
    kept.open_plan(plan)
    for index in range(3):
        expected = send(kept, plan, index)
    assert store.newest_model(plan.id).document == expected.document
    database.close()
