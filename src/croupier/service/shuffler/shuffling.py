"""A sealed batch through the shuffler role: stored payloads in, shuffled rows out.

Channels that stay open over several batches wait in the database between them, already permuted
and cut loose from the reports that they came in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from croupier.coins import SystemCoins
from croupier.plan import Plan
from croupier.service.messages.sealing import Binding
from croupier.service.messages.transports import PackedBatch, PlanTransport
from croupier.service.storage.columns import array_of, bytes_of
from croupier.service.storage.database import DatabaseError, Transaction
from croupier.shuffler import Batch, Messages, Report, Shapes, Shuffler, shuffle

Held = Messages


@dataclass(frozen=True)
class CarriedSizes:
    """What the shuffler role needs of a plan, with the shapes that its transport gives reports.

    ``newcomers`` bounds the accounts of a batch that the plan has never counted; None does not.
    """

    plan: Plan
    transport: PlanTransport
    newcomers: int | None = None

    @property
    def id(self) -> str:
        """The plan's content id."""
        return self.plan.id

    def users(self, index: int) -> int:
        """Reports that batch ``index`` waits for."""
        return self.plan.users(index)

    def shapes(self, index: int) -> Shapes:
        """What every report of batch ``index`` looks like."""
        return self.transport.shapes(index)

    def closing(self, index: int) -> frozenset[str] | None:
        """Channels that are released when batch ``index`` is complete; None for all of them."""
        return self.transport.closing(index)


def prepare_release(
    sizes: CarriedSizes, binding: Binding, payloads: Iterable[bytes], held: Held
) -> tuple[PackedBatch, Held]:
    """The bytes of a complete batch, and what is still held after it."""
    made, held = shuffle_batch(sizes, binding.batch, payloads, held)
    return sizes.transport.pack(made, binding), held


def shuffle_batch(
    sizes: CarriedSizes, index: int, payloads: Iterable[bytes], held: Messages
) -> tuple[Batch, Messages]:
    """The released batch, and what is still held after it."""
    role = resume_shuffler(sizes, index, held)
    batch: Batch | None = None
    for payload in payloads:
        messages = sizes.transport.unpack(index, payload)
        batch = role.collect(Report(sizes.id, index, messages))
    if batch is None:
        raise DatabaseError(f"batch {index} of {sizes.id} is sealed with {role.waiting} reports")
    return batch, shuffle(held_rows(role), SystemCoins())


def resume_shuffler(sizes: CarriedSizes, index: int, held: Messages) -> Shuffler:
    """The role as it was when batch ``index`` opened."""
    role = Shuffler(sizes)
    role._index = index
    role._open._rows = {channel: [rows] for channel, rows in held.items()}
    return role


def held_rows(role: Shuffler) -> Messages:
    """The rows of its open channels."""
    return {channel: np.concatenate(rows) for channel, rows in role._open._rows.items()}


def read_held(transaction: Transaction, plan_id: str) -> Messages:
    """The rows that open channels wait with."""
    rows = transaction.all("SELECT channel, content FROM held WHERE plan = ?", plan_id)
    return {channel: array_of(bytes(content)) for channel, content in rows}


def write_held(transaction: Transaction, plan_id: str, held: Messages) -> None:
    """Replace them."""
    transaction.execute("DELETE FROM held WHERE plan = ?", plan_id)
    transaction.many(
        "INSERT INTO held (plan, channel, content) VALUES (?, ?, ?)",
        [(plan_id, channel, bytes_of(rows)) for channel, rows in held.items()],
    )
