"""What the tests of the two machines share: plans without noise, reports that can be told apart."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from croupier import wire
from croupier.plan import Plan
from croupier.service.analyzer.rows import PublishedModel
from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.http.reasons import Reason
from croupier.service.messages.transports import BitsTransport
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.rows import Basis, BatchRow, ReleasedBatch
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database
from croupier.shuffler import Batch

from .beside_the_keys import shuffler_store


def noiseless(
    users: int = 3, batches: int = 3, participations: int = 1, dim: int = 6, **changes: object
) -> Plan:
    """A plan whose batch sums show exactly who was counted; dim 6 has 27 coordinates.

    In the paper's layout a user of one coordinate alone is not beyond what honest users could be.
    """
    return Plan.calibrate(
        "noiseless",
        policy="ucb",
        dim=dim,
        batches="fixed",
        batch_size=users,
        horizon=users * batches,
        max_participations=participations,
        **changes,  # type: ignore[arg-type]
    )


def one_hot(plan: Plan, user: int, batch: int = 0) -> bytes:
    """The payload of a user whose report is 1 in a coordinate of their own."""
    row = np.zeros((1, plan.layout.size))
    row[0, user] = 1.0
    return wire.encode_report(plan.shapes(batch), {"report": row})


def account(user: int) -> bytes:
    """32 opaque bytes that a test can look for."""
    return hashlib.sha256(f"account {user}".encode()).digest()


def report_id(user: int, batch: int) -> bytes:
    return hashlib.sha256(f"report {user} {batch}".encode()).digest()[:16]


def upload(plan: Plan, batch: BatchRow, user: int, **changes: object) -> Upload:
    """A user's report for an open batch; the same bytes whenever it is made again."""
    return altered(
        Upload(
            plan.id,
            batch.index,
            batch.model_hash,
            report_id(user, batch.index),
            account(user),
            hashlib.sha256(struct.pack("<II", user, batch.index)).digest(),
            one_hot(plan, user, batch.index),
        ),
        **changes,
    )


def honest_upload(plan: Plan, batch: BatchRow, user: int) -> Upload:
    """The same of a user whose report adds up to something that honest users could send."""
    row = plan.layout.encode(np.full((1, plan.layout.dim), 0.3), np.ones(1))
    payload = wire.encode_report(plan.shapes(batch.index), {"report": row})
    return upload(plan, batch, user, payload=payload)


def altered(sent: Upload, **changes: object) -> Upload:
    return replace(sent, **changes)  # type: ignore[arg-type]


def fill(store: ShufflerStore, plan: Plan, users: range) -> list[Reason | None]:
    """Reports of these users for the open batch, in one group."""
    batch = store.current(plan.id)
    return store.take([upload(plan, batch, user) for user in users])


def opened(plan: Plan, released: ReleasedBatch) -> Batch:
    """A released batch as the analyzer reads it."""
    header, messages = wire.decode_batch(
        BitsTransport(plan).released_shapes(released.batch), released.body
    )
    assert (header.plan_id, header.batch) == (plan.id, released.batch)
    return Batch(plan.id, header.batch, messages)


def ones(plan: Plan, released: ReleasedBatch) -> dict[str, int]:
    """The counts of a released batch of bits."""
    shapes = BitsTransport(plan).released_shapes(released.batch)
    return dict(wire.decode_counts(shapes, released.body)[1])


def learn(analyzer: AnalyzerStore, plan: Plan, released: ReleasedBatch) -> PublishedModel:
    header = wire.decode_batch_header(released.body)
    digest = hashlib.sha256(released.body).digest()
    if BitsTransport(plan).counts:
        place = (plan.id, released.batch, header.model_hash)
        return analyzer.receive_counts(ones(plan, released), *place, digest)
    return analyzer.receive(opened(plan, released), header.model_hash, digest)


def basis(published: PublishedModel) -> Basis:
    return Basis(published.model.version, published.model.hash)


@dataclass(frozen=True)
class Services:
    """Both machines with a plan that has begun."""

    plan: Plan
    shuffler: ShufflerStore
    analyzer: AnalyzerStore

    def begin(self) -> Services:
        self.shuffler.open_plan(self.plan, basis(self.analyzer.open_plan(self.plan)))
        return self

    def finish_batch(self) -> PublishedModel:
        """Everything between a complete batch and the next open one."""
        plan_id = self.plan.id
        assert self.shuffler.seal(plan_id)
        released = self.shuffler.release(plan_id)
        assert released is not None
        published = learn(self.analyzer, self.plan, released)
        self.shuffler.acknowledge(plan_id, released.batch, basis(published))
        assert self.shuffler.scrub(plan_id) == 1
        return published


# The shuffler alone

HASHES = [hashlib.sha256(f"model {version}".encode()).hexdigest() for version in range(9)]


def begun(database: Database, *plans: Plan, **options: Any) -> ShufflerStore:
    """A shuffler with these plans, whose models are only hashes."""
    store = shuffler_store(database, **options)
    for plan in plans:
        store.open_plan(plan, Basis(0, HASHES[0]))
    return store


def released(store: ShufflerStore, plan: Plan) -> ReleasedBatch:
    """A complete batch, sealed and released."""
    assert store.seal(plan.id)
    found = store.release(plan.id)
    assert found is not None
    return found


def through(store: ShufflerStore, plan: Plan) -> ReleasedBatch:
    """A complete batch to its end."""
    found = released(store, plan)
    store.acknowledge(plan.id, found.batch, Basis(found.batch + 1, HASHES[found.batch + 1]))
    store.scrub(plan.id)
    return found


def users_in(plan: Plan, found: ReleasedBatch) -> list[int]:
    """Whose one-hot reports a batch holds."""
    return sorted(np.argmax(opened(plan, found).messages["report"], axis=1).tolist())


def counted(database: Database, table: str) -> int:
    """Rows of a table."""
    with database.reading() as transaction:
        ((count,),) = transaction.all(f"SELECT count(*) FROM {table}")
    return int(count)
