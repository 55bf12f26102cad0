"""The ledger of released batches: a chain, and never longer than the plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from croupier.errors import DocumentError
from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.signed_documents import LedgerEntry
from croupier.service.shuffler.rows import BatchState
from croupier.service.storage.database import Database

from ..noiseless_plans import (
    HASHES,
    begun,
    fill,
    noiseless,
    released,
    through,
)

Databases = Callable[[str], Database]


def test_the_ledger_is_a_chain_over_the_released_bytes(databases: Databases) -> None:
    plan = noiseless()
    store = begun(databases("shuffler"), plan)
    bodies = []
    for batch in range(3):
        fill(store, plan, range(3 * batch, 3 * batch + 3))
        bodies.append(through(store, plan).body)
    entries = store.ledger(plan.id)
    assert [entry.batch for entry in entries] == [0, 1, 2]
    assert [entry.digest for entry in entries] == [hashlib.sha256(b).hexdigest() for b in bodies]
    assert [entry.previous for entry in entries] == ["", *(one.hash for one in entries[:-1])]
    assert [entry.model_hash for entry in entries] == HASHES[:3]


def test_the_ledger_says_what_a_batch_costs(databases: Databases) -> None:
    plan = Plan.calibrate(
        "vector-sum", dim=2, epsilon=4.0, delta=1e-3, batches="fixed", batch_size=5, horizon=10
    )
    store = begun(databases("shuffler"), plan)
    store.pad(plan.id, 0)
    released(store, plan)
    (entry,) = store.ledger(plan.id)
    assert entry.epsilon is not None
    assert 0 < entry.epsilon <= 4.0
    assert entry.delta == 1e-3


def test_the_batch_after_the_plans_last_is_refused(databases: Databases) -> None:
    """Whatever the other tables say."""
    plan, database = noiseless(batches=2), databases("shuffler")
    store = begun(database, plan)
    for batch in range(2):
        fill(store, plan, range(3 * batch, 3 * batch + 3))
        through(store, plan)
    with database.transaction() as transaction:
        _forge_open_batch(transaction, plan, 2)
    fill(store, plan, range(6, 9))
    assert store.current(plan.id).filled == 0
    with database.transaction() as transaction:
        _forge_sealed_batch(transaction, 2)
    with pytest.raises(Refusal) as refused:
        store.release(plan.id)
    assert refused.value.reason is Reason.PLAN_ENDED
    assert len(store.ledger(plan.id)) == 2


def test_a_batch_is_charged_in_its_turn(databases: Databases) -> None:
    plan, database = noiseless(), databases("shuffler")
    store = begun(database, plan)
    with database.transaction() as transaction:
        _forge_open_batch(transaction, plan, 1)
        _forge_sealed_batch(transaction, 1)
    with pytest.raises(Refusal) as refused:
        store.release(plan.id)
    assert refused.value.reason is Reason.STALE_BATCH


@pytest.mark.parametrize("damage", ["altered", "rehashed", "missing"])
def test_a_ledger_that_was_tampered_with_is_found_by_whoever_reads_it(
    databases: Databases, damage: str
) -> None:
    plan, database = noiseless(), databases("shuffler")
    store = begun(database, plan)
    for batch in range(2):
        fill(store, plan, range(3 * batch, 3 * batch + 3))
        through(store, plan)
    with database.transaction() as transaction:
        _damage(transaction, damage)
    with pytest.raises(DocumentError, match="ledger"):
        store.ledger(plan.id)


@pytest.mark.parametrize("damage", ["altered", "missing"])
def test_a_last_entry_that_was_tampered_with_stops_the_next_release(
    databases: Databases, damage: str
) -> None:
    plan, database = noiseless(), databases("shuffler")
    store = begun(database, plan)
    for batch in range(2):
        fill(store, plan, range(3 * batch, 3 * batch + 3))
        through(store, plan)
    with database.transaction() as transaction:
        _damage(transaction, damage, 1)
    fill(store, plan, range(6, 9))
    store.seal(plan.id)
    with pytest.raises((DocumentError, Refusal)):
        store.release(plan.id)
    assert store.current(plan.id).state is BatchState.SEALED


def _forge_open_batch(transaction: Any, plan: Plan, index: int) -> None:
    transaction.execute(
        "INSERT INTO batches (plan, batch, state, size, model_version, model_hash, inner_key) "
        "VALUES (?, ?, 'open', 3, 2, ?, ?)",
        plan.id,
        index,
        HASHES[2],
        bytes(32),
    )
    transaction.execute("UPDATE plans SET batch = ?, ended = 0", index)


def _forge_sealed_batch(transaction: Any, index: int) -> None:
    transaction.execute(
        "UPDATE batches SET filled = 3, state = 'sealed', body = ? WHERE batch = ?", b"body", index
    )


def _damage(transaction: Any, damage: str, batch: int = 0) -> None:
    (text,) = transaction.one("SELECT entry FROM ledger WHERE batch = ?", batch)
    entry = json.dumps({**json.loads(text), "users": 1})
    if damage == "missing":
        transaction.execute("DELETE FROM ledger WHERE batch = ?", batch)
    elif damage == "altered":
        transaction.execute("UPDATE ledger SET entry = ? WHERE batch = ?", entry, batch)
    else:
        forged = LedgerEntry.from_content(json.loads(entry)).hash
        transaction.execute(
            "UPDATE ledger SET entry = ?, hash = ? WHERE batch = ?", entry, forged, batch
        )
