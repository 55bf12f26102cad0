"""What each role holds, receives, logs and shows: nothing but what it must."""

from __future__ import annotations

import base64
import io
import json
import logging
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from croupier import wire
from croupier.service.http import logs
from croupier.service.messages.sealing import OVERHEAD
from croupier.service.messages.shares import SEED
from croupier.service.messages.transports import plan_transport
from croupier.service.shuffler.batch_keys import BatchKeys
from croupier.service.shuffler.transitions import read_contents
from croupier.wire import Transport

from ..beside_the_keys import beside
from .conftest import Deploy
from .deployment import USERS, Deployment, Roles, account, altered, made_plan

RARE = 1e-6
"""The chance of a false alarm of a statistical test."""


def stored(url: str) -> bytes:
    """Everything that a SQLite database has on disk, its log included."""
    files = [path for path in Path(url).parent.glob(Path(url).name + "*") if path.is_file()]
    return b"".join(path.read_bytes() for path in files)


def spellings(secret: bytes) -> list[bytes]:
    """The ways in which bytes end up in text."""
    return [secret, secret.hex().encode(), base64.b64encode(secret), repr(secret)[2:-1].encode()]


def traces(secret: bytes, *places: bytes) -> bool:
    return any(spelling in place for spelling in spellings(secret) for place in places)


@pytest.mark.parametrize("transport", list(Transport))
def test_the_analyzer_never_gets_or_keeps_anything_of_a_user(
    deploy: Deploy, transport: Transport
) -> None:
    services = deploy(transport)
    records = []
    for user in range(USERS):
        records.append(services.record(user))
        assert services.post(records[-1]).status_code == 201
    services.carry()
    received = b"".join(request.content for request in services.sent)
    kept = stored(services.urls["analyzer"])
    for user, record in enumerate(records):
        (decoded,) = wire.decode_records(record, len(record) - wire.record_length(0))
        for secret in (decoded.report_id, account(user), decoded.sealed[:48], decoded.sealed[-48:]):
            assert not traces(secret, received, kept)
    bodies = [one.content for one in services.sent if one.url.path.endswith("/batches")]
    rows = [body[-64:] for body in bodies]
    assert rows
    assert not any(traces(row, kept) for row in rows)


@pytest.mark.parametrize("transport", list(Transport))
def test_the_shuffler_forgets_a_batch_once_it_is_acknowledged(
    deploy: Deploy, transport: Transport
) -> None:
    services = deploy(transport)
    records = [services.record(user) for user in range(USERS)]
    services.post(*records)
    names = [record[46:62] for record in records]
    with services.shuffler.parts.database.reading() as transaction:
        marks = [bytes(one) for (one,) in transaction.all("SELECT id FROM reports")]
    before = stored(services.urls["shuffler"])
    assert all(traces(mark, before) for mark in marks)
    assert not any(traces(name, before) for name in names)
    services.carry()
    kept = stored(services.urls["shuffler"])
    assert not any(traces(mark, kept) for mark in marks)
    (body,) = [one.content for one in services.sent if one.url.path.endswith("/batches")]
    assert not any(traces(name, kept) for name in names)
    assert not any(traces(account(user), kept) for user in range(USERS))
    assert not traces(body[-64:], kept)


def test_the_shuffler_never_stores_an_account(services: Deployment) -> None:
    services.post(*(services.record(user) for user in range(USERS - 1)))
    kept = stored(services.urls["shuffler"])
    assert not any(traces(account(user), kept) for user in range(USERS - 1))


def test_of_bits_the_analyzer_gets_their_counts_and_no_order(
    deploy: Deploy, tmp_path: Path
) -> None:
    plan = made_plan(batch_size=100, horizon=100)
    roles = Roles.make(tmp_path / "roles", plan, Transport.BITS)
    services = deploy(roles=roles)
    report = services.report()
    services.post(*(services.record(user, report) for user in range(50)))
    services.post(*(services.record(user, report) for user in range(50, 100)))
    services.carry()
    (body,) = [one.content for one in services.sent if one.url.path.endswith("/batches")]
    shapes = plan_transport(Transport.BITS, plan).released_shapes(0)
    _, counts = wire.decode_counts(shapes, body)
    assert counts == {name: 100 * int(rows.sum()) for name, rows in report.messages.items()}
    # Nothing else is in it that could say more.
    assert wire.encode_counts(wire.decode_batch_header(body), shapes, counts) == body
    roles.close()


def payloads(services: Deployment) -> list[bytes]:
    """As the shuffler reads them when it seals the batch."""
    database = services.shuffler.parts.database
    batch = services.shuffler.parts.store.current(services.plan.id)
    key = BatchKeys(beside(database)).early(batch)
    return [payload for _, payload in read_contents(database, batch, key)]


def test_a_shuffler_of_shares_holds_only_uniform_bytes(deploy: Deploy, tmp_path: Path) -> None:
    """Every user has the same extreme data, and still every byte value is as likely.

    A payload is a seed, the point of a seal, which is public, and what is sealed. Chi-square with
    a false alarm in a million.
    """
    plan = made_plan(batch_size=150, horizon=150)
    roles = Roles.make(tmp_path / "roles", plan, Transport.SHARES)
    services = deploy(roles=roles)
    report = services.report(reward=1.0, feature=(1.0, 0.0))
    for start in range(0, 140, 70):
        services.post(*(services.record(user, report) for user in range(start, start + 70)))
    held = payloads(services)
    assert len(held) == 140
    point = SEED + OVERHEAD - 16
    for start, end in ((0, SEED), (point, len(held[0]))):
        joined = b"".join(payload[start:end] for payload in held)
        counts = np.bincount(np.frombuffer(joined, np.uint8), minlength=256)
        assert chisquare(counts).pvalue > RARE
    assert len({payload[:SEED] for payload in held}) == len(held)
    roles.close()


# Logs and metrics


@pytest.fixture
def lines() -> io.StringIO:
    """What is logged from here on."""
    stream = io.StringIO()
    logs.set_up("debug", stream)
    return stream


def test_logs_and_metrics_say_nothing_about_users(deploy: Deploy, lines: io.StringIO) -> None:
    services = deploy()
    records = [services.record(user) for user in range(USERS)]
    services.post(*records)
    for bad in (
        altered(records[0], account=account(77)),
        altered(records[1], key_id=bytes(8), report_id=bytes(16)),
        records[2][:-1],
    ):
        services.post(bad, headers={"x-forwarded-for": "203.0.113.9", "authorization": "Bearer q"})
    services.carry()
    shown = services.get("/metrics").text + services.read("/metrics").text
    text = (lines.getvalue() + shown).encode()
    assert b"batch acknowledged" in text
    for user, record in enumerate(records):
        for secret in (record[46:62], record[94:142], record[-32:], account(user), account(77)):
            assert not traces(secret[:12], text)
    for address in (b"203.0.113.9", b"127.0.0.1", b"testclient", b"Bearer"):
        assert address not in text
    for line in lines.getvalue().splitlines():
        assert set(json.loads(line)) <= logs.FIELDS


def test_only_listed_fields_of_plain_values_are_logged(lines: io.StringIO) -> None:
    log = logs.logger("shuffler")
    log.info("event", account="somebody", address="203.0.113.9", payload=b"bits", batch=3)
    log.info("event", reason="x" * 201, where=["203.0.113.9"], count=2)
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    assert first.keys() == {"event", "level", "timestamp", "role", "batch"}
    assert second.keys() == {"event", "level", "timestamp", "role", "count"}


def test_libraries_log_their_sentence_without_its_values(lines: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("%s - connection lost", "203.0.113.9:4711")
    try:
        raise RuntimeError("payload 203.0.113.9")
    except RuntimeError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    first, second = (json.loads(line) for line in lines.getvalue().splitlines())
    assert first["event"] == "%s - connection lost"
    assert (second["error"], second["event"]) == ("RuntimeError", "Exception in ASGI application")
    assert second["where"].startswith("test_views.py:")
    assert "203.0.113.9" not in lines.getvalue()
