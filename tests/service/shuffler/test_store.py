"""The life of a batch on the shuffler, step by step and over again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from croupier import wire
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.shuffler.batch_keys import BatchKeys
from croupier.service.shuffler.rows import Basis, BatchState
from croupier.service.storage.database import Database, DatabaseError

from ..beside_the_keys import beside
from ..noiseless_plans import (
    HASHES,
    Services,
    basis,
    begun,
    fill,
    honest_upload,
    learn,
    noiseless,
    opened,
    released,
    through,
    users_in,
)

Databases = Callable[[str], Database]


def test_a_short_batch_is_not_sealed(services: Services) -> None:
    fill(services.shuffler, services.plan, range(2))
    assert not services.shuffler.seal(services.plan.id)
    assert services.shuffler.release(services.plan.id) is None
    assert services.shuffler.current(services.plan.id).state is BatchState.OPEN


def test_a_batch_whose_rows_do_not_add_up_is_not_sealed(databases: Databases) -> None:
    plan, database = noiseless(), databases("shuffler")
    store = begun(database, plan)
    fill(store, plan, range(3))
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM reports WHERE id = (SELECT min(id) FROM reports)")
    with pytest.raises(DatabaseError, match="with 2 reports"):
        store.seal(plan.id)
    assert store.current(plan.id).state is BatchState.OPEN


def test_a_sealed_batch_has_lost_its_key(services: Services) -> None:
    fill(services.shuffler, services.plan, range(3))
    keys = BatchKeys(beside(services.shuffler._database))
    batch = services.shuffler.current(services.plan.id)
    assert keys.early(batch)
    assert services.shuffler.seal(services.plan.id)
    assert services.shuffler.current(services.plan.id).state is BatchState.SEALED
    with pytest.raises(Refusal, match="early key"):
        BatchKeys(beside(services.shuffler._database)).early(batch)
    assert services.shuffler.seal(services.plan.id)


def test_a_released_batch_has_every_report_once(services: Services) -> None:
    fill(services.shuffler, services.plan, range(3))
    found = released(services.shuffler, services.plan)
    assert users_in(services.plan, found) == [0, 1, 2]
    header = wire.decode_batch_header(found.body)
    first = services.analyzer.newest_model(services.plan.id).model
    assert (header.users, header.model_hash, header.transport) == (3, first.hash, 0)


def test_a_release_is_the_same_bytes_every_time_and_charged_once(services: Services) -> None:
    fill(services.shuffler, services.plan, range(3))
    first = released(services.shuffler, services.plan)
    assert {services.shuffler.release(services.plan.id) for _ in range(5)} == {first}
    assert len(services.shuffler.ledger(services.plan.id)) == 1


def test_the_order_of_arrival_is_not_the_order_of_release(databases: Databases) -> None:
    plan = noiseless(users=6, batches=10, participations=10)
    store, orders = begun(databases("shuffler"), plan), set()
    for _ in range(8):
        fill(store, plan, range(6))
        rows = opened(plan, through(store, plan)).messages["report"]
        orders.add(tuple(np.argmax(rows, axis=1).tolist()))
    # Eight times the same of 720 orders: 720^-7.
    assert len(orders) > 1


def test_a_signature_is_stored_with_the_bytes(databases: Databases) -> None:
    count = 0

    def sign(body: bytes) -> str:
        nonlocal count
        count += 1
        return f"{count} {hashlib.sha256(body).hexdigest()}"

    plan = noiseless()
    store = begun(databases("shuffler"), plan, sign=sign)
    fill(store, plan, range(3))
    first = released(store, plan)
    assert first.signature == f"1 {hashlib.sha256(first.body).hexdigest()}"
    assert store.release(plan.id) == first


def test_the_next_batch_opens_with_the_acknowledgement(services: Services) -> None:
    store, plan = services.shuffler, services.plan
    batch = store.current(plan.id)
    store.take([honest_upload(plan, batch, user) for user in range(3)])
    found = released(store, plan)
    assert store.current(plan.id).index == 0
    published = learn(services.analyzer, plan, found)
    batch = store.acknowledge(plan.id, 0, basis(published))
    assert (batch.index, batch.state, batch.filled) == (1, BatchState.OPEN, 0)
    assert (batch.model_version, batch.model_hash) == (1, published.model.hash)
    assert store.acknowledge(plan.id, 0, basis(published)) == batch
    store.scrub(plan.id)
    assert store.acknowledge(plan.id, 0, basis(published)) == batch


def test_a_batch_can_open_with_the_same_model(services: Services) -> None:
    """Models may be published rarely; batches go on."""
    store, plan = services.shuffler, services.plan
    fill(store, plan, range(3))
    released(store, plan)
    first = basis(services.analyzer.newest_model(plan.id))
    batch = store.acknowledge(plan.id, 0, first)
    assert (batch.index, batch.model_version, batch.model_hash) == (1, 0, first.model_hash)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (Basis(1, HASHES[2]), Reason.ID_CONFLICT),
        (Basis(0, HASHES[0]), Reason.ID_CONFLICT),
    ],
)
def test_a_batch_leads_to_one_model_only(
    databases: Databases, wrong: Basis, reason: Reason
) -> None:
    plan = noiseless()
    store = begun(databases("shuffler"), plan)
    fill(store, plan, range(3))
    released(store, plan)
    store.acknowledge(plan.id, 0, Basis(1, HASHES[1]))
    with pytest.raises(Refusal) as refused:
        store.acknowledge(plan.id, 0, wrong)
    assert refused.value.reason is reason


@pytest.mark.parametrize("wrong", [Basis(0, HASHES[1]), Basis(2, HASHES[2])])
def test_a_model_that_cannot_follow_is_refused(databases: Databases, wrong: Basis) -> None:
    plan = noiseless()
    store = begun(databases("shuffler"), plan)
    fill(store, plan, range(3))
    released(store, plan)
    with pytest.raises(Refusal) as refused:
        store.acknowledge(plan.id, 0, wrong)
    assert refused.value.reason is Reason.STALE_MODEL
    assert store.current(plan.id).state is BatchState.RELEASED


def test_only_a_released_batch_is_acknowledged(databases: Databases) -> None:
    plan = noiseless()
    store = begun(databases("shuffler"), plan)
    for step in (lambda: fill(store, plan, range(3)), lambda: store.seal(plan.id)):
        for index in (0, 1):
            with pytest.raises(Refusal) as refused:
                store.acknowledge(plan.id, index, Basis(1, HASHES[1]))
            assert refused.value.reason is Reason.STALE_BATCH
        step()


def test_a_scrubbed_batch_cannot_be_released_again(services: Services) -> None:
    store, plan = services.shuffler, services.plan
    for batch in range(3):
        fill(store, plan, range(3 * batch, 3 * batch + 3))
        services.finish_batch()
    assert store.scrub(plan.id) == 0
    with pytest.raises(Refusal) as refused:
        store.release(plan.id)
    assert refused.value.reason is Reason.STALE_BATCH


def test_the_last_batch_ends_the_plan(services: Services) -> None:
    store, plan = services.shuffler, services.plan
    for batch in range(3):
        assert [one.ended for one in store.plans()] == [False]
        fill(store, plan, range(3 * batch, 3 * batch + 3))
        services.finish_batch()
    assert [one.ended for one in store.plans()] == [True]
    assert store.current(plan.id).index == 2
    np.testing.assert_array_equal(np.sum(services.analyzer.sums(plan.id), axis=0)[:9], 1.0)


def test_an_unknown_plan_is_refused_by_every_step(services: Services) -> None:
    store, nobody = services.shuffler, "0" * 32
    steps: list[Callable[[], object]] = [
        lambda: store.current(nobody),
        lambda: store.plan(nobody),
        lambda: store.seal(nobody),
        lambda: store.release(nobody),
        lambda: store.acknowledge(nobody, 0, Basis(1, HASHES[1])),
        lambda: store.scrub(nobody),
        lambda: store.pad(nobody, 1),
        lambda: store.drop(nobody),
        lambda: store.retire(nobody),
    ]
    for step in steps:
        with pytest.raises(Refusal) as refused:
            step()
        assert refused.value.reason is Reason.WRONG_PLAN
