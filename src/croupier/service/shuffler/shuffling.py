"""A sealed batch on its way out: stored payloads in, what the analyzer may see of them out.

Of bits that is the number of ones in each channel, all that a uniform permutation leaves of them;
other rows go through the shuffler role. Channels that stay open over several batches wait in the
database between them, as counts, or permuted and cut loose from the reports that they came in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from croupier.coins import SystemCoins
from croupier.packing import MOST_IN_A_BYTE, count_ones
from croupier.plan import Plan
from croupier.service.messages.sealing import Binding
from croupier.service.messages.transports import BitsTransport, PackedBatch, PlanTransport
from croupier.service.storage.columns import array_of, bytes_of
from croupier.service.storage.database import DatabaseError, Transaction
from croupier.shuffler import Batch, Messages, Report, Shapes, Shuffler, shuffle
from croupier.wire import Counts

Held = Messages
"""What open channels wait with: rows, or of a channel of bits how many are ones ``(1,)``."""

COUNTED_AT_ONCE = MOST_IN_A_BYTE
"""Reports in memory, one byte for each of their bits."""


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
    """The bytes of a released batch from its reports, and what is still held after it.

    Counts are a function of the set of reports alone: from the same ones they are the same again,
    in whatever order these come. A permutation is drawn afresh each time.
    """
    transport = sizes.transport
    if isinstance(transport, BitsTransport) and transport.counts:
        counts, still = count_batch(sizes, binding.batch, payloads, held)
        return transport.pack_counts(counts, binding), still
    batch, still = shuffle_batch(sizes, binding.batch, payloads, held)
    return transport.pack(batch, binding), still


def count_batch(
    sizes: CarriedSizes, index: int, payloads: Iterable[bytes], held: Held
) -> tuple[Counts, Held]:
    """The ones of the channels that close, and those of the channels that are still open.

    A channel that closes is counted over all batches that it was open in.
    """
    shapes, closing = sizes.shapes(index), sizes.closing(index)
    rows = [rows for (rows, _), _ in shapes.values()]
    reports, ones = _count_places(payloads, sum(rows))
    if reports != sizes.users(index):
        raise _wrong_number(sizes, index, reports)
    until = np.concatenate([[0], np.cumsum(ones)])
    per_channel = np.diff(until[np.cumsum([0, *rows])])
    totals = {channel: int(count[0]) for channel, count in held.items()}
    for channel, count in zip(shapes, per_channel.tolist(), strict=True):
        totals[channel] = totals.get(channel, 0) + count
    closed = {name for name in totals if closing is None or name in closing}
    still = {name: np.array([totals[name]]) for name in totals.keys() - closed}
    return {name: totals[name] for name in closed}, still


def _count_places(payloads: Iterable[bytes], bits: int) -> tuple[int, NDArray[np.int64]]:
    """Reports, and how many of them have a one at each place; few are in memory at once."""
    waiting, reports, ones = iter(payloads), 0, np.zeros(bits, np.int64)
    while few := list(islice(waiting, COUNTED_AT_ONCE)):
        ones += count_ones(few, bits)
        reports += len(few)
    return reports, ones


def _wrong_number(sizes: CarriedSizes, index: int, reports: int) -> DatabaseError:
    return DatabaseError(f"batch {index} of {sizes.id} is sealed with {reports} reports")


def shuffle_batch(
    sizes: CarriedSizes, index: int, payloads: Iterable[bytes], held: Held
) -> tuple[Batch, Held]:
    """The permuted batch, and what is still held after it."""
    role = resume_shuffler(sizes, index, held)
    batch: Batch | None = None
    for payload in payloads:
        messages = sizes.transport.unpack(index, payload)
        batch = role.collect(Report(sizes.id, index, messages))
    if batch is None:
        raise _wrong_number(sizes, index, role.waiting)
    return batch, shuffle(held_rows(role), SystemCoins())


def resume_shuffler(sizes: CarriedSizes, index: int, held: Held) -> Shuffler:
    """The role as it was when batch ``index`` opened."""
    role = Shuffler(sizes)
    role._index = index
    role._open._rows = {channel: [rows] for channel, rows in held.items()}
    return role


def held_rows(role: Shuffler) -> Held:
    """The rows of its open channels."""
    return {channel: np.concatenate(rows) for channel, rows in role._open._rows.items()}


def read_held(transaction: Transaction, plan_id: str) -> Held:
    """What open channels wait with."""
    rows = transaction.all("SELECT channel, content FROM held WHERE plan = ?", plan_id)
    return {channel: array_of(bytes(content)) for channel, content in rows}


def write_held(transaction: Transaction, plan_id: str, held: Held) -> None:
    """Replace them."""
    transaction.execute("DELETE FROM held WHERE plan = ?", plan_id)
    transaction.many(
        "INSERT INTO held (plan, channel, content) VALUES (?, ?, ?)",
        [(plan_id, channel, bytes_of(rows)) for channel, rows in held.items()],
    )
