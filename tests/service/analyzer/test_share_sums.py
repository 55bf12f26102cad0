"""Reports in two halves: one set, one sum, one answer."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from croupier import wire
from croupier.errors import WireError
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import shares
from croupier.service.messages.transports import SharesTransport
from croupier.service.shuffler.batch_keys import BatchKeys
from croupier.service.shuffler.rows import Basis, BatchState

from ..beside_the_keys import beside, shuffler_store
from ..noiseless_plans import basis
from ..packed_reports import PUBLIC, USERS
from ..shared_batch import Databases, Sharing


class Seeded(Sharing):
    """With a look at what the shuffler keeps."""

    def seeds(self) -> bytes | None:
        with self.database.reading() as transaction:
            ((found,),) = transaction.all("SELECT seeds FROM batches WHERE batch = 0")
        return None if found is None else bytes(found)


def test_two_halves_give_the_sum_and_nothing_else(databases: Databases) -> None:
    sharing = Seeded(databases)
    plan_id = sharing.plan.id
    flags = sharing.decided(sharing.released())
    share = sharing.store.share(plan_id, 0, flags)
    published = sharing.analyzer.settle(plan_id, 0, share)
    np.testing.assert_array_equal(sharing.analyzer.sums(plan_id)[0], sharing.expected())
    assert (published.model.version, published.next_batch) == (1, 1)
    assert sharing.analyzer.clipped(plan_id) == 0
    again = sharing.analyzer.settle(plan_id, 0, sharing.store.share(plan_id, 0, flags))
    assert again.document == published.document
    sharing.store.acknowledge(plan_id, 0, basis(published))
    assert sharing.store.scrub(plan_id) == 1


def test_seeds_stay_with_the_shuffler_until_one_sum_is_released(databases: Databases) -> None:
    sharing = Seeded(databases)
    found = sharing.released()
    flags = sharing.decided(found)
    kept = sharing.seeds()
    assert kept is not None
    key = BatchKeys(beside(sharing.database)).late(sharing.store.current(sharing.plan.id))
    kept = key.decrypt(kept)
    assert len(kept) == USERS * shares.SEED
    assert all(kept[32 * n : 32 * n + 32] not in found.body for n in range(USERS))
    sharing.store.share(sharing.plan.id, 0, flags)
    assert sharing.seeds() is None


def test_a_second_set_is_never_added_up(databases: Databases) -> None:
    sharing = Seeded(databases)
    flags = sharing.decided(sharing.released())
    first = sharing.store.share(sharing.plan.id, 0, flags)
    fewer = wire.encode_flags(np.arange(USERS) > 0)
    with pytest.raises(Refusal) as refused:
        sharing.store.share(sharing.plan.id, 0, fewer)
    assert refused.value.reason is Reason.ID_CONFLICT
    assert sharing.store.share(sharing.plan.id, 0, flags) == first


def test_of_two_sets_at_once_the_first_wins(databases: Databases) -> None:
    sharing = Seeded(databases)
    flags = sharing.decided(sharing.released())
    plan_id, first = sharing.plan.id, []

    class Careless(SharesTransport):
        """Adds up any set, while somebody else adds up theirs."""

        def combine(self, index: int, seeds: bytes, opened: bytes) -> bytes:
            first.append(sharing.store.share(plan_id, 0, flags))
            return b"the sum over another set"

    careless = shuffler_store(sharing.database, transport=Careless)
    with pytest.raises(Refusal) as refused:
        careless.share(plan_id, 0, wire.encode_flags(np.arange(USERS) > 0))
    assert refused.value.reason is Reason.ID_CONFLICT
    assert sharing.store.share(plan_id, 0, flags) == first[0]


@pytest.mark.parametrize("count", [0, 1, USERS - 1])
def test_a_set_without_everybodys_noise_is_refused(databases: Databases, count: int) -> None:
    """Whoever is left out takes noise along, and it may be the honest ones'."""
    sharing = Seeded(databases, honest_fraction=0.5)
    sharing.released()
    with pytest.raises(Refusal, match=f"{count} of {USERS} reports opened") as refused:
        sharing.store.share(sharing.plan.id, 0, wire.encode_flags(np.arange(USERS) < count))
    assert refused.value.reason is Reason.GUARANTEE_NOT_MET
    assert sharing.seeds() is None
    assert sharing.store.current(sharing.plan.id).state is BatchState.OPEN


def test_flags_of_another_length_are_refused(databases: Databases) -> None:
    sharing = Seeded(databases)
    sharing.released()
    with pytest.raises(WireError):
        sharing.store.share(sharing.plan.id, 0, b"\xff\xff")


def test_the_set_is_decided_once(databases: Databases) -> None:
    """By the second time a key may have expired, and fewer reports open."""
    sharing = Seeded(databases)
    found = sharing.released()
    flags = sharing.decided(found)
    digest = hashlib.sha256(found.body).digest()
    size = sharing.plan.layout.size
    place = (sharing.plan.id, 0, sharing.first.hash)
    again = sharing.analyzer.decide(*place, digest, b"\0", np.zeros(size, np.uint32))
    assert again == flags
    with pytest.raises(Refusal) as refused:
        sharing.analyzer.decide(*place, b"other", flags, np.zeros(size, np.uint32))
    assert refused.value.reason is Reason.ID_CONFLICT
    sharing.analyzer.settle(sharing.plan.id, 0, sharing.store.share(sharing.plan.id, 0, flags))
    assert sharing.analyzer.decide(*place, digest, b"\0", np.zeros(size, np.uint32)) == flags


def test_halves_are_joined_once(databases: Databases) -> None:
    sharing = Seeded(databases)
    plan_id = sharing.plan.id
    with pytest.raises(Refusal) as refused:
        sharing.analyzer.settle(plan_id, 0, bytes(4))
    assert refused.value.reason is Reason.STALE_BATCH
    flags = sharing.decided(sharing.released())
    share = sharing.store.share(plan_id, 0, flags)
    with pytest.raises(WireError):
        sharing.analyzer.settle(plan_id, 0, share[:-1])
    sharing.analyzer.settle(plan_id, 0, share)
    with pytest.raises(Refusal) as refused:
        sharing.analyzer.settle(plan_id, 0, bytes(len(share)))
    assert refused.value.reason is Reason.ID_CONFLICT
    assert len(sharing.analyzer.ledger(plan_id)) == 1


def test_counts_that_no_reports_add_up_to_are_clipped_and_counted(databases: Databases) -> None:
    sharing = Seeded(databases)
    plan_id = sharing.plan.id
    flags = sharing.decided(sharing.released())
    share = wire.decode_words(sharing.store.share(plan_id, 0, flags), sharing.plan.layout.size)
    share = share.copy()
    share[0] ^= np.uint32(2**31)
    sharing.analyzer.settle(plan_id, 0, wire.encode_words(share))
    assert sharing.analyzer.clipped(plan_id) == 1
    sums, expected = sharing.analyzer.sums(plan_id)[0], sharing.expected()
    np.testing.assert_array_equal(sums[1:], expected[1:])
    release = sharing.plan.release(0)
    most = USERS * len(sharing.made[0].messages["u0"])
    counts = np.full(sharing.plan.layout.size, most)
    assert sums[0] == release.settle(counts, USERS)[0]  # type: ignore[attr-defined]


def test_a_batch_of_shares_is_not_acknowledged_before_they_are_added_up(
    databases: Databases,
) -> None:
    sharing = Seeded(databases)
    flags = sharing.decided(sharing.released())
    after = Basis(1, "11" * 32, PUBLIC)
    with pytest.raises(Refusal) as refused:
        sharing.store.acknowledge(sharing.plan.id, 0, after)
    assert refused.value.reason is Reason.BATCH_CLOSED
    sharing.store.share(sharing.plan.id, 0, flags)
    assert sharing.store.acknowledge(sharing.plan.id, 0, after).state is BatchState.OPEN
    sharing.store.scrub(sharing.plan.id)
    with pytest.raises(Refusal) as refused:
        sharing.store.share(sharing.plan.id, 0, flags)
    assert refused.value.reason is Reason.STALE_BATCH
