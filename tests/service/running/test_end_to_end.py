"""Devices, shuffler and analyzer over HTTP learn what the roles learn in one process."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from croupier import wire
from croupier.analyzer import Analyzer
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import sealing
from croupier.service.messages.records import make_payload
from croupier.service.messages.sealing import Binding
from croupier.service.messages.signed_documents import (
    LedgerEntry,
    key_id,
    verify_batch,
    verify_chain,
)
from croupier.service.messages.transports import plan_transport
from croupier.service.shuffler.batch_status import explain_wait
from croupier.service.shuffler.rows import BatchState
from croupier.shuffler import OpenChannels, Report, gather
from croupier.wire import Record, Transport

from .conftest import Deploy
from .deployment import BATCHES, USERS, Deployment, Roles, made_plan

COMBINATIONS = [(way, kind) for way in Transport for kind in ("sqlite", "postgresql")]


class Reference:
    """The analyzer role, given the same reports without any service between."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._analyzer = Analyzer(plan)
        self._open = OpenChannels()

    def learn(self, reports: Sequence[Report]) -> Model:
        index = reports[0].batch
        closed = self._open.add(
            gather([one.messages for one in reports]), self._plan.closing(index)
        )
        protocol = self._plan.mechanism
        return self._analyzer.learn(index, protocol.release(index).analyze(closed))  # type: ignore[attr-defined]


def same(found: Model, wanted: Model) -> None:
    assert found.version == wanted.version
    np.testing.assert_array_equal(found.theta, wanted.theta)
    np.testing.assert_array_equal(found.matrix, wanted.matrix)
    assert found.hash == wanted.hash


@pytest.mark.parametrize(("transport", "kind"), COMBINATIONS)
def test_the_service_learns_the_model_of_the_roles(
    deploy: Deploy, transport: Transport, kind: str
) -> None:
    services = deploy(transport, kind)
    reference = Reference(services.plan)
    same(services.model(), Analyzer(services.plan).model)
    for batch in range(BATCHES):
        reports = services.fill(range(batch * USERS, (batch + 1) * USERS))
        services.carry()
        same(services.model(), reference.learn(reports))
    entries = services.read(f"/v1/plans/{services.plan.id}/ledger").json()["entries"]
    hashes = [entry.pop("hash") for entry in entries]
    assert verify_chain(LedgerEntry.from_content(entry) for entry in entries) == hashes[-1]
    assert [entry["batch"] for entry in entries] == list(range(BATCHES))


@pytest.mark.parametrize(
    ("transport", "kind"),
    [
        (Transport.BITS, "sqlite"),
        (Transport.SHARES, "sqlite"),
        (Transport.SHARES, "postgresql"),
    ],
)
def test_channels_that_stay_open_are_learnt_from_when_they_close(
    deploy: Deploy, tmp_path: Path, transport: Transport, kind: str
) -> None:
    """A tree of batches: channels close with later batches than they began in.

    In the middle of a node another process takes over from the shuffler's.
    """
    plan = made_plan("concurrent-tree", levels=2, horizon=4 * USERS, epsilon=15.0)
    roles = Roles.make(tmp_path / "roles", plan, transport)
    services, reference = deploy(kind=kind, roles=roles), Reference(plan)
    for batch in range(4):
        reports = services.fill(range(batch * USERS, (batch + 1) * USERS))
        if batch == 1:
            services.close_shuffler()
            services.shuffler = services.another_shuffler(roles)
        services.carry()
        same(services.model(), reference.learn(reports))
    roles.close()


def bad_record(services: Deployment) -> bytes:
    """Bound to the batch's key outside, sealed for another inside."""
    key = services.shuffler.parts.keyring.sealing_key
    other, told = key.public_bytes_raw(), services.batch()
    place = (services.plan.id, told["batch"], told["model_version"], told["model_hash"])
    right = Binding(Transport.SHARES, *place, bytes.fromhex(told["inner_key"]))
    inside = make_payload(
        services.plan, services.report().messages, replace(right, inner_key=other)
    )
    name = secrets.token_bytes(16)
    sealed = sealing.seal_report(inside, key, right, name)
    head = (Transport.SHARES, key_id(other), told["batch"], told["model_hash"], name, bytes(32))
    return wire.encode_records([Record(*head, sealed)])


def test_one_share_that_does_not_open_has_its_batch_begun_again(deploy: Deploy) -> None:
    """Leaving it out would leave out noise, so nothing is released; the reason is told.

    Everybody may report again, and the batch is released once all reports open.
    """
    services = deploy(Transport.SHARES)
    for attempt in range(2):
        services.fill(range(USERS - 1))
        assert services.post(bad_record(services)).status_code == 201
        with pytest.raises(Refusal, match="5 of 6 reports opened") as refusal:
            services.carry()
        assert refusal.value.reason is Reason.GUARANTEE_NOT_MET
        batch = services.shuffler.parts.store.current(services.plan.id)
        assert (batch.index, batch.state, batch.attempt) == (0, BatchState.OPEN, attempt + 1)
        assert services.batch()["attempt"] == attempt + 1
        assert f"begun again, {attempt + 1} times" in explain_wait(batch)
        assert services.model().version == 0
    reference = Reference(services.plan)
    reports = services.fill(range(USERS))
    services.carry()
    same(services.model(), reference.learn(reports))
    assert "croupier_dropped_attempts 2.0" in services.read("/metrics").text
    (entry,) = services.read(f"/v1/plans/{services.plan.id}/ledger").json()["entries"]
    assert entry["method"].count("dropped before it, nothing released") == 2


def test_a_batch_is_signed_and_has_the_public_length(services: Deployment) -> None:
    services.fill(range(USERS))
    services.carry()
    (sent,) = [request for request in services.sent if request.url.path.endswith("/batches")]
    body = sent.content
    verify_batch(body, sent.headers["croupier-signature"], services.analyzer.parts.trusted)
    shapes = plan_transport(Transport.BITS, services.plan).released_shapes(0)
    header, counts = wire.decode_counts(shapes, body)
    assert (header.plan_id, header.batch, header.users) == (services.plan.id, 0, USERS)
    assert counts.keys() == shapes.keys()
    assert len(body) == wire.counts_length(shapes)
