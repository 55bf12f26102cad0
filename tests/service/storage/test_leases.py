"""Several that work on the same batches."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from croupier.service.http.reasons import Reason, Refusal
from croupier.service.shuffler.rows import Basis, ReleasedBatch
from croupier.service.storage.database import Database

from ..beside_the_keys import shuffler_store
from ..noiseless_plans import (
    HASHES,
    begun,
    fill,
    noiseless,
    through,
)

Databases = Callable[[str], Database]


def test_of_two_that_release_at_once_the_first_wins(databases: Databases) -> None:
    plan, database = noiseless(), databases("shuffler")
    rival = shuffler_store(database)
    found: list[ReleasedBatch | None] = []

    def meanwhile(_: bytes) -> str:
        found.append(rival.release(plan.id))
        return "the loser's"

    store = shuffler_store(database, sign=meanwhile)
    store.open_plan(plan, Basis(0, HASHES[0]))
    fill(store, plan, range(3))
    assert store.seal(plan.id)
    assert store.release(plan.id) == found[0] == rival.release(plan.id)
    assert len(store.ledger(plan.id)) == 1


def test_a_release_that_comes_too_late_is_refused(databases: Databases) -> None:
    plan, database = noiseless(), databases("shuffler")
    rival = shuffler_store(database)

    def meanwhile(_: bytes) -> str:
        through(rival, plan)
        return ""

    store = shuffler_store(database, sign=meanwhile)
    store.open_plan(plan, Basis(0, HASHES[0]))
    fill(store, plan, range(3))
    assert store.seal(plan.id)
    with pytest.raises(Refusal) as refused:
        store.release(plan.id)
    assert refused.value.reason is Reason.STALE_BATCH
    assert len(store.ledger(plan.id)) == 1


def test_a_batch_is_leased_to_one_at_a_time(databases: Databases) -> None:
    now = 1000.0
    plan = noiseless()
    store = begun(databases("shuffler"), plan, clock=lambda: now)
    assert store.lease("a", 60) is None
    fill(store, plan, range(3))
    lease = store.lease("a", 60)
    assert lease is not None
    assert (lease.plan_id, lease.batch, lease.until) == (plan.id, 0, 1060.0)
    assert store.lease("b", 60) is None
    now = 1059.0
    assert store.lease("b", 60) is None
    now = 1060.0
    taken = store.lease("b", 60)
    assert taken is not None
    store.give_back(lease)
    assert store.lease("c", 60) is None
    store.give_back(taken)
    assert store.lease("c", 60) is not None


def test_batches_are_leased_until_nothing_is_left_to_do(databases: Databases) -> None:
    plan = noiseless(batches=1)
    store = begun(databases("shuffler"), plan)
    steps: list[Callable[[], object]] = [
        lambda: fill(store, plan, range(3)),
        lambda: store.seal(plan.id),
        lambda: store.release(plan.id),
        lambda: store.acknowledge(plan.id, 0, Basis(1, HASHES[1])),
        lambda: store.scrub(plan.id),
    ]
    waits = []
    for step in steps:
        step()
        lease = store.lease("a", 60)
        waits.append(lease is not None)
        if lease is not None:
            store.give_back(lease)
    assert waits == [True, True, True, True, False]


def test_a_clock_that_was_set_back_blocks_nobody(databases: Databases) -> None:
    now = 9000.0
    plan = noiseless()
    store = begun(databases("shuffler"), plan, clock=lambda: now)
    fill(store, plan, range(3))
    assert store.lease("a", 60) is not None
    now = 1000.0
    assert store.lease("b", 60) is not None
    assert store.lease("c", 60) is None


def test_a_batch_that_gets_nowhere_does_not_hold_up_other_plans(databases: Databases) -> None:
    now = 1000.0
    plans = [noiseless(), noiseless(users=2), noiseless(users=1)]
    store = begun(databases("shuffler"), plans[0], clock=lambda: now)
    for plan in plans:
        store.open_plan(plan, Basis(0, HASHES[0]))
        fill(store, plan, range(plan.users(0)))
    leased = []
    for _ in range(4):
        lease = store.lease("a", 60)
        assert lease is not None
        leased.append(lease.plan_id)
        now += 1.0
        store.give_back(lease)
    assert leased == sorted(plan.id for plan in plans) + leased[:1]
