"""A batch of shares that does not open is dropped unread and begun again, and costs nobody."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from croupier import wire
from croupier.privacy.budget import Budget
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.transports import BitsTransport, SharesTransport
from croupier.service.shuffler.rows import Basis, BatchState, ReleasedBatch
from croupier.service.storage.database import Database

from ..beside_the_keys import beside, shuffler_store
from ..noiseless_plans import counted, fill, noiseless
from ..packed_reports import PUBLIC, USERS, packed, send, upload
from ..shared_batch import Databases, Sharing


class Trying(Sharing):
    """Attempts that fail."""

    def dropped(self, spoilt: int = 1) -> tuple[ReleasedBatch, bytes]:
        """An attempt that does not open."""
        found = self.released(spoilt)
        flags = self.decided(found)
        assert refusal(lambda: self.store.share(self.plan.id, 0, flags, found.attempt)) is (
            Reason.GUARANTEE_NOT_MET
        )
        return found, flags

    def spent(self) -> list[int]:
        with self.database.reading() as transaction:
            return [one for (one,) in transaction.all("SELECT spent FROM participations")]


def refusal(work: Callable[[], object]) -> Reason:
    with pytest.raises(Refusal) as refused:
        work()
    return refused.value.reason


def test_a_batch_that_does_not_open_begins_again_and_is_then_learnt_from(
    databases: Databases,
) -> None:
    trying = Trying(databases)
    plan_id = trying.plan.id
    for attempt in range(3):
        found, _ = trying.dropped()
        batch = trying.store.current(plan_id)
        assert (batch.index, batch.state, batch.filled) == (0, BatchState.OPEN, 0)
        assert (found.attempt, batch.attempt) == (attempt, attempt + 1)
        assert batch.dropped == USERS * (attempt + 1)
    found = trying.released()
    share = trying.store.share(plan_id, 0, trying.decided(found), found.attempt)
    published = trying.analyzer.settle(plan_id, 0, share)
    np.testing.assert_array_equal(trying.analyzer.sums(plan_id)[0], trying.expected())
    after = Basis(published.model.version, published.model.hash, PUBLIC)
    assert trying.store.acknowledge(plan_id, 0, after).index == 1
    assert trying.store.dropped(plan_id) == trying.analyzer.dropped(plan_id) == 3


def test_a_dropped_attempt_counts_for_nobody(databases: Databases) -> None:
    """Every user may take part once, and does: in the attempt that counts."""
    trying = Trying(databases)
    assert trying.plan.terms.max_participations == 1
    trying.released(spoilt=1)
    assert trying.spent() == []
    assert counted(trying.database, "present") == USERS
    found = trying.store.release(trying.plan.id)
    assert found is not None
    refusal(lambda: trying.store.share(trying.plan.id, 0, trying.decided(found)))
    assert trying.spent() == []
    again = trying.released()
    trying.store.share(trying.plan.id, 0, trying.decided(again), again.attempt)
    assert trying.spent() == [1] * USERS
    assert counted(trying.database, "present") == 0


def test_a_dropped_attempt_is_charged_nothing_and_named_in_the_ledger(
    databases: Databases,
) -> None:
    trying = Trying(databases)
    plan_id = trying.plan.id
    lost, _ = trying.dropped()
    assert trying.store.ledger(plan_id) == []
    found = trying.released()
    flags = trying.decided(found)
    assert trying.store.ledger(plan_id) == []
    share = trying.store.share(plan_id, 0, flags, found.attempt)
    (entry,) = trying.store.ledger(plan_id)
    assert entry.digest == hashlib.sha256(found.body).hexdigest()
    assert entry.method.endswith(hashlib.sha256(lost.body).hexdigest())
    trying.analyzer.settle(plan_id, 0, share)
    assert trying.analyzer.ledger(plan_id) == [entry]


def test_flags_for_an_attempt_that_is_over_change_nothing(databases: Databases) -> None:
    """Two processes may have asked the analyzer about the same bytes."""
    trying = Trying(databases)
    plan_id = trying.plan.id
    _, flags = trying.dropped()
    everybody = wire.encode_flags(np.ones(USERS, dtype=bool))
    for told in (flags, everybody):
        assert refusal(lambda told=told: trying.store.share(plan_id, 0, told)) is (  # type: ignore[misc]
            Reason.STALE_BATCH
        )
    found = trying.released()
    for told in (flags, everybody):
        assert refusal(lambda told=told: trying.store.share(plan_id, 0, told)) is (  # type: ignore[misc]
            Reason.STALE_BATCH
        )
    assert trying.store.current(plan_id).attempt == found.attempt == 1
    assert trying.store.share(plan_id, 0, everybody, 1)


def test_a_set_that_is_too_small_cannot_undo_a_sum_that_was_released(databases: Databases) -> None:
    trying = Trying(databases)
    plan_id = trying.plan.id
    flags = trying.decided(trying.released())
    few = wire.encode_flags(np.arange(USERS) > 0)
    first: list[bytes] = []

    class Slow(SharesTransport):
        """While it adds up, another process releases the sum over everybody."""

        def combine(self, index: int, seeds: bytes, opened: bytes) -> bytes:
            first.append(trying.store.share(plan_id, 0, flags))
            return super().combine(index, seeds, opened)

    slow = shuffler_store(trying.database, transport=Slow)
    assert refusal(lambda: slow.share(plan_id, 0, few)) is Reason.GUARANTEE_NOT_MET
    assert trying.store.current(plan_id).state is BatchState.RELEASED
    assert trying.store.share(plan_id, 0, flags) == first[0]


def test_a_slow_shuffle_of_an_old_attempt_is_not_released_with_a_newer_one(
    databases: Databases,
) -> None:
    """Between the work of a release and its transaction the batch may have begun again."""
    trying = Trying(databases)
    plan_id = trying.plan.id
    state = trying.store.current(plan_id)
    bad = [one[:-1] + bytes([one[-1] ^ 1]) for one in _payloads(trying)]
    trying.store.take([upload(trying.way, state, user, one) for user, one in enumerate(bad)])
    trying.store.seal(plan_id)
    signed: list[bytes] = []

    def sign(body: bytes) -> str:
        signed.append(body)
        flags = wire.encode_flags(np.zeros(USERS, dtype=bool))
        trying.store.release(plan_id)
        refusal(lambda: trying.store.share(plan_id, 0, flags))
        send(trying.store, trying.way, trying.made)
        return "too late"

    slow = shuffler_store(trying.database, transport=SharesTransport, sign=sign)
    assert refusal(lambda: slow.release(plan_id)) is Reason.STALE_BATCH
    batch = trying.store.current(plan_id)
    assert (batch.state, batch.attempt, len(signed)) == (BatchState.SEALED, 1, 1)
    found = trying.store.release(plan_id)
    assert found is not None
    assert found.body != signed[0]
    assert wire.decode_flags(trying.decided(found), USERS).all()


def _payloads(trying: Trying) -> list[bytes]:
    state = trying.store.current(trying.plan.id)
    return [packed(trying.way, state, report.messages) for report in trying.made]


def test_the_analyzer_takes_other_bytes_only_for_an_attempt_that_did_not_open(
    databases: Databases,
) -> None:
    trying = Trying(databases)
    lost, _ = trying.dropped()
    found = trying.released()
    trying.decided(found)
    # What is late belongs to an attempt that is over.
    assert refusal(lambda: trying.decided(lost)) is Reason.STALE_BATCH
    other = replace(found, body=found.body[:-1] + bytes([found.body[-1] ^ 1]))
    assert refusal(lambda: trying.decided(other)) is Reason.ID_CONFLICT
    share = trying.store.share(trying.plan.id, 0, trying.decided(found), found.attempt)
    trying.analyzer.settle(trying.plan.id, 0, share)
    assert refusal(lambda: trying.decided(lost)) is Reason.STALE_BATCH
    assert refusal(lambda: trying.decided(other)) is Reason.ID_CONFLICT


def test_no_mask_of_a_dropped_attempt_is_left_anywhere(tmp_path: Path) -> None:
    """Without them the shares that the analyzer has are uniform."""
    names = iter(("shuffler.db", "analyzer.db"))
    opened: list[Database] = []

    def place(role: str) -> Database:
        opened.append(Database.open(str(tmp_path / next(names)), role))
        return opened[-1]

    trying = Trying(place)
    trying.released(spoilt=1)
    with trying.database.reading() as transaction:
        ((seeds,),) = transaction.all("SELECT seeds FROM batches")

    def found(secret: bytes) -> bool:
        files = [one for one in tmp_path.iterdir() if one.name.startswith("shuffler.db")]
        return any(secret in file.read_bytes() for file in files if file.is_file())

    assert found(bytes(seeds)[:64])
    assert list(beside(trying.database).glob("*.late"))
    sent = trying.store.release(trying.plan.id)
    assert sent is not None
    refusal(lambda: trying.store.share(trying.plan.id, 0, trying.decided(sent)))
    assert not found(bytes(seeds)[:64])
    assert not list(beside(trying.database).glob("*.late"))
    assert not found(sent.body[100:164])
    for database in opened:
        database.close()


@pytest.mark.parametrize("protocol", ["vector-sum", "concurrent-tree"])
def test_a_plan_with_noise_to_spare_does_without_some_reports(
    databases: Databases, protocol: str
) -> None:
    """Calibrated for epsilon 8 and promised for 16: some may be missing, but not all."""
    trying = Trying(databases, protocol, budget=Budget(16.0, 1e-2))
    found = trying.released(spoilt=1)
    flags = trying.decided(found)
    share = trying.store.share(trying.plan.id, 0, flags)
    trying.analyzer.settle(trying.plan.id, 0, share)
    size = trying.plan.layout.size
    release = trying.plan.release(0)
    counts = [release.tally(one.messages)[:size] for one in trying.made[1:]]  # type: ignore[attr-defined]
    expected = release.settle(np.sum(counts, axis=0), USERS - 1)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(trying.analyzer.sums(trying.plan.id)[0][:size], expected)
    assert trying.store.dropped(trying.plan.id) == 0


def test_a_short_batch_of_shares_that_is_dropped_gives_back_too(databases: Databases) -> None:
    trying = Trying(databases)
    state = trying.store.current(trying.plan.id)
    sent = [upload(trying.way, state, user, one) for user, one in enumerate(_payloads(trying)[:2])]
    trying.store.take(sent)
    assert trying.store.drop(trying.plan.id) == 2
    assert trying.spent() == []
    assert trying.store.current(trying.plan.id).attempt == 1
    assert trying.store.take(sent) == [None, None]


def test_bits_keep_nothing_about_who_is_present(databases: Databases) -> None:
    plan, database = noiseless(), databases("shuffler")
    store = shuffler_store(database, transport=BitsTransport)
    store.open_plan(plan, Basis(0, "ab" * 32))
    assert fill(store, plan, range(3)) == [None] * 3
    assert counted(database, "participations") == 0
    assert store.seal(plan.id)
    assert counted(database, "participations") == 3
    assert counted(database, "present") == 0


def test_a_plan_that_is_retired_forgets_who_was_present(databases: Databases) -> None:
    trying = Trying(databases)
    state = trying.store.current(trying.plan.id)
    trying.store.take([upload(trying.way, state, 0, _payloads(trying)[0])])
    trying.store.retire(trying.plan.id)
    assert counted(trying.database, "present") == counted(trying.database, "masks") == 0
