"""How the reports of a plan travel through the shuffler: payloads in, rows, a batch's bytes out.

A transport knows the bytes of one transport. It permutes nothing: rows are moved by the shuffler
role between ``unpack`` and ``pack``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import ClassVar

import numpy as np

from croupier import wire
from croupier.coins import SystemCoins
from croupier.errors import RefusedError
from croupier.packing import channels
from croupier.plan import Plan
from croupier.protocols.base import AdditiveRelease, ShuffleRelease, require_protocol
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import released_counts, sealing, shares
from croupier.service.messages.missing_reports import least_opened
from croupier.service.messages.records import make_payload
from croupier.service.messages.sealing import NO_PUBLIC_KEY, Binding
from croupier.service.messages.signed_documents import key_id
from croupier.shuffler import Batch, Messages, Shapes, shapes_of
from croupier.wire import Transport

REMEMBERED = 1024
"""Batches whose shapes are kept: they are found by randomising, and asked for with every report."""


@dataclass(frozen=True)
class PackedBatch:
    """A batch's bytes for the analyzer, and the seeds that stay behind where shares are sent."""

    body: bytes
    seeds: bytes | None = None


class PlanTransport(ABC):
    """One transport of one plan."""

    kind: ClassVar[Transport]

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._protocol = require_protocol(plan.mechanism)
        self._report_shapes = lru_cache(REMEMBERED)(self._find_shapes)
        self.shapes = lru_cache(REMEMBERED)(self._shapes)

    @abstractmethod
    def _shapes(self, index: int) -> Shapes:
        """What a payload of batch ``index`` looks like as rows."""

    def _plain(self, index: int) -> Shapes:
        """What a report looks like: alike for all batches of a release."""
        return self._report_shapes(self._protocol.release(index))

    def _find_shapes(self, release: ShuffleRelease) -> Shapes:
        zeros = np.zeros(self.plan.layout.size)
        return shapes_of(release.randomize(zeros, SystemCoins()))

    def make_empty_payload(self, binding: Binding) -> bytes:
        """A payload of phi = 0 for an open batch, made as any device makes one."""
        zeros = np.zeros(self.plan.layout.size)
        messages = self._protocol.release(binding.batch).randomize(zeros, SystemCoins())
        return make_payload(self.plan, messages, binding)

    def closing(self, index: int) -> frozenset[str] | None:
        """Channels of payloads that the shuffler hands on when batch ``index`` is complete."""
        return self.plan.closing(index)

    def length(self, index: int) -> int:
        """Bytes of a payload."""
        return wire.report_length(self.shapes(index))

    def sealed_length(self, index: int) -> int:
        """Bytes of the sealed part of a record; beyond the last batch they are the last one's.

        Such a record can be read, and is then refused for what is wrong with it.
        """
        return self.length(min(index, self.plan.schedule.batches - 1)) + sealing.OVERHEAD

    def unpack(self, index: int, payload: bytes) -> Messages:
        """The rows of a payload."""
        return wire.decode_report(self.shapes(index), payload)

    def pack(self, shuffled: Batch, binding: Binding) -> PackedBatch:
        """The bytes of a shuffled batch."""
        shapes = self.released_shapes(binding.batch)
        return PackedBatch(wire.encode_batch(self._header(binding), shapes, shuffled.messages))

    def released_length(self, index: int) -> int:
        """Bytes of a released batch."""
        return wire.batch_length(self.released_shapes(index))

    def released_shapes(self, index: int) -> Shapes:
        """What is released with batch ``index``: channels that close, over all their batches."""
        closing = self.plan.closing(index)
        return {
            channel: ((self._rows(index, channel), shape[1]), kind)
            for channel, (shape, kind) in self.shapes(index).items()
            if closing is None or channel in closing
        }

    def _rows(self, index: int, channel: str) -> int:
        """Rows of a channel since it last closed."""
        batches = released_counts.open_batches(self.plan, index, channel)
        return sum(self.plan.users(one) * self.shapes(one)[channel][0][0] for one in batches)

    def combine(self, index: int, seeds: bytes, opened: bytes) -> bytes:
        """The masks of a batch's counts, added up over the reports that opened."""
        raise Refusal(Reason.NOT_FOUND, f"reports travel as {self.kind.name.lower()}")

    def _header(self, binding: Binding) -> wire.BatchHeader:
        sealed = binding.inner_key != NO_PUBLIC_KEY
        name = key_id(binding.inner_key) if sealed else wire.NO_KEY
        index, users = binding.batch, self.plan.users(binding.batch)
        return wire.BatchHeader(self.kind, binding.plan_id, index, users, binding.model_hash, name)


class BitsTransport(PlanTransport):
    """The default: the shuffler reads the bits, and hands on how many are ones in each channel.

    Rows of a protocol that does not analyse counts are permuted and handed on.
    """

    kind = Transport.BITS

    @cached_property
    def counts(self) -> bool:
        """Whether counts are all that is handed on."""
        are_bits = all(one.is_bits for one in channels(self._plain(0)).values())
        return are_bits and isinstance(self._protocol.release(0), AdditiveRelease)

    def released_length(self, index: int) -> int:
        """Bytes of the counts, or of the rows."""
        if not self.counts:
            return super().released_length(index)
        return wire.counts_length(self.released_shapes(index))

    def pack_counts(self, counts: wire.Counts, binding: Binding) -> PackedBatch:
        """The bytes of the counts of the channels that close."""
        shapes = self.released_shapes(binding.batch)
        return PackedBatch(wire.encode_counts(self._header(binding), shapes, counts))

    def _shapes(self, index: int) -> Shapes:
        return self._plain(index)


class SealedTransport(PlanTransport):
    """Every row is sealed for the analyzer, and permuted unread."""

    kind = Transport.SEALED

    def _shapes(self, index: int) -> Shapes:
        return sealing.sealed_shapes(self._plain(index))


class SharesTransport(PlanTransport):
    """One half of every report is sealed for the analyzer; seeds of the other half stay.

    All halves are handed on with their batch, also those of counts that stay open: they say
    nothing without their masks, and a report that does not open is found while the batch can
    still be begun again.
    """

    kind = Transport.SHARES

    def _shapes(self, index: int) -> Shapes:
        size = self._size(index)
        shares.require_room(self._plain(index), partial(self._users, index))
        return shares.stored_shapes(size)

    def _users(self, index: int, channel: str) -> int:
        """Users whose counts are added up before a channel closes."""
        return sum(map(self.plan.users, released_counts.node_batches(self.plan, index, channel)))

    def closing(self, index: int) -> None:
        """All of a payload."""
        return None  # noqa: RET501 - an answer, not the lack of one

    def pack(self, shuffled: Batch, binding: Binding) -> PackedBatch:
        """The sealed halves, and the seeds in the same order."""
        seeds, released = shares.split_rows(shuffled.messages[shares.REPORT])
        shapes = self.released_shapes(binding.batch)
        body = wire.encode_batch(self._header(binding), shapes, released)
        return PackedBatch(body, seeds.tobytes())

    def released_shapes(self, index: int) -> Shapes:
        """The sealed halves of a batch."""
        return shares.released_shapes(self._size(index), self.plan.users(index))

    def combine(self, index: int, seeds: bytes, opened: bytes) -> bytes:
        """The sums of the masks over the reports that opened, refused where these are too few.

        Who is left out takes noise along, and an analyzer that may leave out some would leave out
        honest ones.
        """
        users = self.plan.users(index)
        flags = wire.decode_flags(opened, users)
        rows = np.frombuffer(seeds, np.uint8).reshape(users, shares.SEED)
        # Found out only where it matters: it takes several certificates.
        least = users if flags.all() else least_opened(self.plan, index)
        try:
            return wire.encode_words(shares.sum_masks(rows, flags, self._size(index), least))
        except RefusedError as error:
            raise Refusal(Reason.GUARANTEE_NOT_MET, str(error)) from error

    def _size(self, index: int) -> int:
        return len(released_counts.additive_release(self.plan, index).counted)


_CARRIAGES: dict[Transport, type[PlanTransport]] = {
    one.kind: one for one in (BitsTransport, SealedTransport, SharesTransport)
}


def plan_transport(transport: Transport, plan: Plan) -> PlanTransport:
    """The plan's reports by that transport."""
    return _CARRIAGES[transport](plan)
