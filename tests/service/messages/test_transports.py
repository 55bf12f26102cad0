"""Every transport through both machines: the same models as by the roles in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from croupier import wire
from croupier.analyzer import Analyzer
from croupier.errors import RefusedError
from croupier.service.analyzer.rows import PublishedModel
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import sealing, shares
from croupier.service.messages.transports import (
    BitsTransport,
    SealedTransport,
    SharesTransport,
    plan_transport,
)
from croupier.service.shuffler.rows import Basis, BatchRow, BatchState
from croupier.service.storage.columns import array_of
from croupier.service.storage.database import Database
from croupier.shuffler import Batch, Shuffler
from croupier.wire import Transport

from ..beside_the_keys import analyzer_store, shuffler_store
from ..noiseless_plans import basis, learn
from ..packed_reports import KEY, PUBLIC, USERS, plan_of, reports, send

Databases = Callable[[str], Database]


@pytest.mark.parametrize(
    ("protocol", "changes"),
    [
        ("noiseless", {}),
        ("vector-sum", {}),
        ("vector-sum", {"publication": "rare"}),
        ("concurrent-tree", {"levels": 2, "batches": 5}),
        ("concurrent-tree", {"levels": 3, "batches": 8}),
    ],
)
def test_stores_that_forget_everything_in_between_learn_what_the_roles_learn(
    databases: Databases, protocol: str, changes: dict[str, int]
) -> None:
    plan = plan_of(protocol, **changes)
    shuffling, analysing = databases("shuffler"), databases("analyzer")
    first = analyzer_store(analysing).open_plan(plan)
    shuffler_store(shuffling).open_plan(plan, basis(first))
    role, analyzer = Shuffler(plan), Analyzer(plan)
    for index in range(plan.schedule.batches):
        made = reports(plan, index)
        batch = [role.collect(report) for report in made][-1]
        assert batch is not None
        expected = analyzer.receive(batch)
        send(shuffler_store(shuffling), BitsTransport(plan), made)
        released = shuffler_store(shuffling).release(plan.id)
        assert released is not None
        published = learn(analyzer_store(analysing), plan, released)
        assert published.model.hash == expected.hash
        shuffler_store(shuffling).acknowledge(plan.id, index, basis(published))
        shuffler_store(shuffling).scrub(plan.id)
    assert analyzer_store(analysing).repairs(plan.id) == analyzer.repairs


def test_bits_wait_for_their_node_as_one_count_for_each_channel(databases: Databases) -> None:
    plan, database = plan_of("concurrent-tree", levels=2, batches=4), databases("shuffler")
    store = shuffler_store(database)
    store.open_plan(plan, Basis(0, "00" * 32))
    made = reports(plan, 0)
    send(store, BitsTransport(plan), made)
    store.release(plan.id)
    with database.reading() as transaction:
        rows = transaction.all("SELECT channel, content FROM held ORDER BY channel")
    waiting = sorted(set(made[0].messages) - (plan.closing(0) or frozenset()))
    assert waiting
    assert {channel: array_of(bytes(content)).tolist() for channel, content in rows} == {
        channel: [sum(int(one.messages[channel].sum()) for one in made)] for channel in waiting
    }


def test_padding_completes_a_batch_of_every_transport(databases: Databases) -> None:
    for protocol, kind in (
        ("vector-sum", SharesTransport),
        ("amplified-gaussian", SealedTransport),
    ):
        plan = plan_of(protocol)
        store = shuffler_store(databases("shuffler"), transport=kind)
        store.open_plan(plan, Basis(0, "00" * 32, PUBLIC))
        assert store.pad(plan.id, 0) == USERS
        assert store.seal(plan.id)
        released = store.release(plan.id)
        assert released is not None
        header, messages = wire.decode_batch(kind(plan).released_shapes(0), released.body)
        assert (header.transport, header.users) == (kind.kind, USERS)
        state = store.current(plan.id)
        if kind is SharesTransport:
            flags, _ = shares.open_shares(messages[shares.SHARE], KEY, state.binding(kind.kind))
            assert flags.all()
        else:
            plain = wire.batch_shapes(plan.shapes(0), USERS)
            _, bad = sealing.open_rows(plain, messages, KEY, state.binding(kind.kind))
            assert bad == 0


def test_sealed_rows_are_permuted_unread(databases: Databases) -> None:
    plan = plan_of("amplified-gaussian")
    store = shuffler_store(databases("shuffler"), transport=SealedTransport)
    analyzer = analyzer_store(databases("analyzer"))
    first = analyzer.open_plan(plan)
    store.open_plan(plan, Basis(first.model.version, first.model.hash, PUBLIC))
    made, way = reports(plan, 0), SealedTransport(plan)
    state = send(store, way, made)
    released = store.release(plan.id)
    assert released is not None
    header, messages = wire.decode_batch(way.released_shapes(0), released.body)
    plain = wire.batch_shapes(plan.shapes(0), USERS)
    rows, bad = sealing.open_rows(plain, messages, KEY, state.binding(way.kind))
    assert bad == 0
    for channel, found in rows.items():
        sent = np.concatenate([report.messages[channel] for report in made])
        assert sorted(found.tolist()) == sorted(sent.tolist())
    published = analyzer.receive(Batch(plan.id, 0, rows), header.model_hash, b"digest")
    direct = Shuffler(plan)
    batch = [direct.collect(report) for report in made][-1]
    assert batch is not None
    assert published.model.hash == Analyzer(plan).receive(batch).hash


# Transports


def test_bits_have_no_shares_to_add_up(databases: Databases) -> None:
    plan = plan_of("vector-sum")
    store = shuffler_store(databases("shuffler"))
    store.open_plan(plan, Basis(0, "00" * 32))
    with pytest.raises(Refusal) as refused:
        store.share(plan.id, 0, b"\x3f")
    assert refused.value.reason is Reason.STALE_BATCH
    with pytest.raises(Refusal) as refused:
        BitsTransport(plan).combine(0, b"", b"")
    assert refused.value.reason is Reason.NOT_FOUND


def test_a_protocol_whose_reports_do_not_add_up_cannot_be_shared() -> None:
    with pytest.raises(RefusedError, match="are not counted"):
        SharesTransport(plan_of("amplified-gaussian")).length(0)


@pytest.mark.parametrize("transport", list(Transport))
def test_every_transport_has_its_bytes(transport: Transport) -> None:
    protocol = "amplified-gaussian" if transport is Transport.SEALED else "vector-sum"
    way = plan_transport(transport, plan_of(protocol))
    assert way.kind is transport
    assert way.length(0) == wire.report_length(way.shapes(0))


def test_a_header_names_the_key_of_inner_seals_or_none() -> None:
    plan = plan_of("vector-sum")
    state = BatchRow(plan.id, 0, BatchState.SEALED, USERS, USERS, 0, 0, 0, "00" * 32, PUBLIC)
    assert (
        SharesTransport(plan)._header(state.binding(Transport.SHARES)).key_id
        == hashlib.sha256(PUBLIC).digest()[:8]
    )
    bare = BatchRow(plan.id, 0, BatchState.SEALED, USERS, USERS, 0, 0, 0, "00" * 32, bytes(32))
    assert BitsTransport(plan)._header(bare.binding(Transport.BITS)).key_id == wire.NO_KEY


def test_published_models_can_be_compared_by_document(databases: Databases) -> None:
    analyzer = analyzer_store(databases("analyzer"))
    first: PublishedModel = analyzer.open_plan(plan_of("vector-sum"))
    assert analyzer.open_plan(plan_of("vector-sum")).document == first.document
