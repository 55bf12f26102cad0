"""Reports of real devices, packed for each transport."""

from __future__ import annotations

import hashlib
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from croupier import wire
from croupier.client import Client
from croupier.plan import Plan
from croupier.service.messages import sealing, shares
from croupier.service.messages.transports import PlanTransport
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.rows import BatchRow
from croupier.service.shuffler.store import ShufflerStore
from croupier.shuffler import Messages, Report
from croupier.wire import Transport

from .noiseless_plans import account, report_id

USERS = 6
BUDGET = {"dim": 2, "epsilon": 8.0, "delta": 1e-2}
KEY = X25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()


class Written(Plan):
    """A plan whose document is written once: it has all guarantees in it, and they take long."""

    @cached_property
    def _written(self) -> str:
        return super().to_json()

    def to_json(self) -> str:
        return self._written


def written(plan: Plan) -> Plan:
    return Written(plan.mechanism, plan.policy, plan.terms, plan.budget, plan.publication)


@lru_cache
def plan_of(protocol: str, batches: int = 3, **changes: Any) -> Plan:
    shared: dict[str, Any] = {
        "batches": "fixed", "batch_size": USERS, "horizon": USERS * batches, "honest_fraction": 1.0
    }  # fmt: skip
    budget = {"dim": 2} if protocol == "noiseless" else BUDGET
    return written(Plan.calibrate(protocol, **{**shared, **budget, **changes}))


def reports(plan: Plan, batch: int) -> list[Report]:
    """One report of every user of a batch, from real devices."""
    rng = np.random.default_rng(batch)
    made = []
    for _ in range(USERS):
        client = Client(plan)
        client._batch = batch
        feature = rng.standard_normal(2)
        made.append(client.report(feature / np.linalg.norm(feature), float(rng.random() < 0.5)))
    return made


def upload(way: PlanTransport, state: BatchRow, user: int, payload: bytes) -> Upload:
    name = report_id(user, state.index)
    digest = hashlib.sha256(payload + name).digest()
    return Upload(
        way.plan.id,
        state.index,
        state.model_hash,
        name,
        account(100 * state.index + user),
        digest,
        payload,
    )


def packed(way: PlanTransport, state: BatchRow, messages: Messages) -> bytes:
    """What a device would put into the seal for the shuffler."""
    binding, public = state.binding(way.kind), KEY.public_key()
    if way.kind is Transport.SEALED:
        messages = sealing.seal_rows(way.plan.shapes(state.index), messages, public, binding)
    if way.kind is Transport.SHARES:
        release = way.plan.release(state.index)
        messages = shares.share_report(release.tally(messages), public, binding)  # type: ignore[attr-defined]
    return wire.encode_report(way.shapes(state.index), messages)


def send(store: ShufflerStore, way: PlanTransport, made: list[Report]) -> BatchRow:
    """Reports into the open batch, which is then sealed; its state while it was open."""
    state = store.current(way.plan.id)
    sent = [
        upload(way, state, user, packed(way, state, report.messages))
        for user, report in enumerate(made)
    ]
    assert store.take(sent) == [None] * USERS
    assert store.seal(way.plan.id)
    return state
