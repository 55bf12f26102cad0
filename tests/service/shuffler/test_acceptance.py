"""What the shuffler takes, what it refuses, and why."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from croupier.service.http.reasons import Reason
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.account_marks import make_marker, mark_accounts
from croupier.service.shuffler.rows import Basis, BatchState
from croupier.service.storage.database import ASKED_AT_ONCE, Database
from croupier.wire import Record, Transport

from ..noiseless_plans import (
    Services,
    account,
    altered,
    begun,
    fill,
    learn,
    noiseless,
    one_hot,
    through,
    upload,
)

HASH = hashlib.sha256(b"first model").hexdigest()


def test_accepted_reports_fill_the_batch(services: Services) -> None:
    assert fill(services.shuffler, services.plan, range(2)) == [None, None]
    batch = services.shuffler.current(services.plan.id)
    assert (batch.index, batch.state, batch.size, batch.filled) == (0, BatchState.OPEN, 3, 2)


def test_nothing_to_take_is_taken(services: Services) -> None:
    assert services.shuffler.take([]) == []


def test_identical_bytes_are_accepted_again_and_counted_once(services: Services) -> None:
    first = upload(services.plan, services.shuffler.current(services.plan.id), 0)
    assert services.shuffler.take([first, first]) == [None, None]
    assert services.shuffler.take([first]) == [None]
    assert services.shuffler.current(services.plan.id).filled == 1


def test_a_repeat_is_accepted_until_the_batch_is_scrubbed(services: Services) -> None:
    store, plan = services.shuffler, services.plan
    first = upload(plan, store.current(plan.id), 0)
    fill(store, plan, range(3))
    assert store.take([first]) == [None]
    assert store.seal(plan.id)
    assert store.take([first]) == [None]
    released = store.release(plan.id)
    assert released is not None
    assert store.take([first]) == [None]
    published = learn(services.analyzer, plan, released)
    store.acknowledge(plan.id, 0, Basis(published.model.version, published.model.hash))
    assert store.take([first]) == [None]
    store.scrub(plan.id)
    assert store.take([first]) == [Reason.STALE_BATCH]


@pytest.mark.parametrize("change", ["payload", "digest"])
def test_the_same_id_with_other_bytes_is_refused(services: Services, change: str) -> None:
    first = upload(services.plan, services.shuffler.current(services.plan.id), 0)
    digest = hashlib.sha256(change.encode()).digest()
    other = altered(first, digest=digest, payload=one_hot(services.plan, 1))
    assert services.shuffler.take([first, other]) == [None, Reason.ID_CONFLICT]
    assert services.shuffler.take([other, first]) == [Reason.ID_CONFLICT, None]
    assert services.shuffler.current(services.plan.id).filled == 1


def test_the_same_id_of_another_user_is_refused(services: Services) -> None:
    batch = services.shuffler.current(services.plan.id)
    first, second = (upload(services.plan, batch, user) for user in range(2))
    assert services.shuffler.take([first]) == [None]
    assert services.shuffler.take([altered(second, id=first.id)]) == [Reason.ID_CONFLICT]


def test_a_plan_that_is_not_served_is_refused_and_stops_no_other(services: Services) -> None:
    batch = services.shuffler.current(services.plan.id)
    sent = [upload(services.plan, batch, user) for user in range(3)]
    sent[1] = altered(sent[1], plan_id="0" * 32)
    assert services.shuffler.take(sent) == [None, Reason.WRONG_PLAN, None]


def test_another_batch_than_the_open_one_is_refused(services: Services) -> None:
    store, plan = services.shuffler, services.plan
    early = upload(plan, store.current(plan.id), 7)
    assert store.take([altered(early, batch=1)]) == [Reason.STALE_BATCH]
    fill(store, plan, range(3))
    services.finish_batch()
    assert store.take([early]) == [Reason.STALE_BATCH]


def test_another_model_than_the_batchs_is_refused(services: Services) -> None:
    sent = upload(services.plan, services.shuffler.current(services.plan.id), 0)
    assert services.shuffler.take([altered(sent, model_hash=HASH)]) == [Reason.STALE_MODEL]


@pytest.mark.parametrize("payload", [b"", b"\0" * 27 * 8 + b"\0", b"\0" * (27 * 8 - 1)])
def test_another_length_than_the_plans_is_refused(services: Services, payload: bytes) -> None:
    sent = upload(services.plan, services.shuffler.current(services.plan.id), 0)
    assert services.shuffler.take([altered(sent, payload=payload)]) == [Reason.WRONG_LENGTH]


def test_a_second_report_of_a_user_in_a_batch_is_refused(services: Services) -> None:
    sent = upload(services.plan, services.shuffler.current(services.plan.id), 0)
    again = altered(sent, id=b"another report!!", digest=b"another")
    assert services.shuffler.take([sent, again]) == [None, Reason.DUPLICATE_USER]
    assert services.shuffler.take([again]) == [Reason.DUPLICATE_USER]


def test_a_user_is_in_no_more_batches_than_the_plan_allows(
    databases: Callable[[str], Database],
) -> None:
    plan = noiseless(users=2, batches=4, participations=2)
    services = begun(databases("shuffler"), plan)
    for partner in (1, 2):
        assert fill(services, plan, range(0, partner + 1, partner)) == [None, None]
        through(services, plan)
    sent = upload(plan, services.current(plan.id), 0)
    assert services.take([sent]) == [Reason.PARTICIPATION_LIMIT]
    assert fill(services, plan, range(1, 3)) == [None, None]


def test_exactly_as_many_as_the_batch_needs_are_taken(services: Services) -> None:
    verdicts = fill(services.shuffler, services.plan, range(5))
    assert verdicts == [None, None, None, Reason.BATCH_CLOSED, Reason.BATCH_CLOSED]
    assert services.shuffler.current(services.plan.id).filled == 3
    assert fill(services.shuffler, services.plan, range(5, 6)) == [Reason.BATCH_CLOSED]


def test_a_report_that_was_turned_away_costs_its_user_nothing(services: Services) -> None:
    assert fill(services.shuffler, services.plan, range(4))[3] is Reason.BATCH_CLOSED
    services.finish_batch()
    assert fill(services.shuffler, services.plan, range(3, 4)) == [None]


def test_a_closed_batch_asks_to_wait_also_those_who_know_of_the_next(services: Services) -> None:
    """A device may have fetched the next model before the shuffler has heard of it."""
    store, plan = services.shuffler, services.plan
    fill(store, plan, range(3))
    store.seal(plan.id)
    late = upload(plan, store.current(plan.id), 5)
    assert store.take([late]) == [Reason.BATCH_CLOSED]
    assert store.take([altered(late, batch=1, model_hash=HASH)]) == [Reason.BATCH_CLOSED]
    assert store.take([altered(late, batch=2, model_hash=HASH)]) == [Reason.STALE_BATCH]


def test_a_plan_that_has_ended_takes_nothing(services: Services) -> None:
    store, plan = services.shuffler, services.plan
    beyond = altered(upload(plan, store.current(plan.id), 20), batch=3)
    assert store.take([beyond]) == [Reason.PLAN_ENDED]
    for batch in range(3):
        fill(store, plan, range(3 * batch, 3 * batch + 3))
        services.finish_batch()
    assert fill(store, plan, range(10, 11)) == [Reason.PLAN_ENDED]
    assert store.take([beyond]) == [Reason.PLAN_ENDED]


def test_reports_of_several_plans_are_judged_together_in_their_order(
    databases: Callable[[str], Database],
) -> None:
    plans = [noiseless(users=2), noiseless(users=1)]
    store = begun(databases("shuffler"), *plans)
    batches = [store.current(plan.id) for plan in plans]
    sent = [upload(plans[n % 2], batches[n % 2], user) for user in range(3) for n in range(2)]
    full = Reason.BATCH_CLOSED
    assert store.take(sent) == [None, None, None, full, full, full]


def test_the_digest_of_an_upload_covers_every_byte_of_its_record() -> None:
    record = Record(Transport.BITS, b"k" * 8, 0, HASH, b"r" * 16, b"a" * 32, b"sealed")
    changes: list[dict[str, Any]] = [
        {"key_id": b"K" * 8},
        {"batch": 1},
        {"account": b"A" * 32},
        {"sealed": b"Sealed"},
        {"transport": Transport.SEALED},
    ]
    records = [record, *(replace(record, **change) for change in changes)]
    made = [Upload.of("plan", one, b"payload") for one in records]
    assert len({one.digest for one in made}) == len(records)
    assert made[0] == Upload.of("plan", record, b"payload")
    assert (made[0].id, made[0].account, made[0].payload) == (b"r" * 16, b"a" * 32, b"payload")


def test_marks_are_hmacs_under_the_keys_of_batch_and_plan() -> None:
    accounts = [account(user) for user in (1, 2, 1)]
    found = mark_accounts(b"p" * 32, make_marker(b"b" * 32), accounts)
    assert found == {
        one: (hmac.digest(b"b" * 32, one, "sha256"), hmac.digest(b"p" * 32, one, "sha256"))
        for one in accounts
    }
    assert found[accounts[0]].user != found[accounts[0]].account


def test_a_group_of_more_reports_than_one_statement_takes_is_stored_whole(
    databases: Callable[[str], Database],
) -> None:
    count = ASKED_AT_ONCE + 3
    plan = noiseless(users=count, batches=2)
    database = databases("shuffler")
    store = begun(database, plan)
    batch = store.current(plan.id)
    same = one_hot(plan, 0)
    first = upload(plan, batch, 0)
    names = [user.to_bytes(16, "big") for user in range(count)]
    sent = [altered(first, id=one, account=2 * one, digest=one, payload=same) for one in names]
    again = altered(sent[-1], id=b"another report!!")
    assert store.take([*sent, again]) == [None] * count + [Reason.BATCH_CLOSED]
    assert store.current(plan.id).filled == count
    with database.reading() as transaction:
        kept = transaction.all("SELECT id, digest, user_mac FROM reports")
    for column in zip(*kept, strict=True):
        assert len(set(map(bytes, column))) == count
    assert not {bytes(one) for row in kept for one in row} & {*names, *(2 * one for one in names)}
    assert store.take(sent) == [None] * count
    assert store.seal(plan.id)
    with database.reading() as transaction:
        spent = transaction.all("SELECT count(*), sum(spent) FROM participations")
    assert spent == [(count, count)]
    assert store.take(sent) == [None] * count


def test_a_plans_key_does_not_show_when_its_state_is_printed(services: Services) -> None:
    (plan,) = services.shuffler.plans()
    assert len(plan.key) == 32
    assert repr(plan.key) not in repr(plan)


def test_an_upload_does_not_show_its_account_or_payload_when_printed(services: Services) -> None:
    sent = upload(services.plan, services.shuffler.current(services.plan.id), 0)
    assert repr(account(0)) not in repr(sent)
    assert repr(sent.payload) not in repr(sent)
