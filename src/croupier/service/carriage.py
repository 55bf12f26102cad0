"""How the reports of a plan travel through the shuffler: payloads in, rows, a batch's bytes out.

A carriage knows the bytes of one transport. It permutes nothing: rows are moved by the shuffler
role between ``unpack`` and ``pack``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from croupier import wire
from croupier.client import deployable
from croupier.coins import SystemCoins
from croupier.errors import RefusedError
from croupier.plan import Plan
from croupier.protocols.base import AdditiveRelease
from croupier.service import sealing, shares
from croupier.service.documents import key_id
from croupier.service.reasons import Reason, Refusal
from croupier.service.states import BatchState
from croupier.shuffler import Batch, Messages, Shapes
from croupier.wire import Transport

REMEMBERED = 1024
"""Batches whose shapes are kept: they are found by randomising, and asked for with every report."""


@dataclass(frozen=True)
class Parcel:
    """A batch's bytes for the analyzer, and the seeds that stay behind where shares are sent."""

    body: bytes
    seeds: bytes | None = None


class Carriage(ABC):
    """One transport of one plan."""

    transport: ClassVar[Transport]

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._protocol = deployable(plan)
        self._plain = lru_cache(REMEMBERED)(plan.shapes)
        self.shapes = lru_cache(REMEMBERED)(self._shapes)

    @abstractmethod
    def _shapes(self, index: int) -> Shapes:
        """What a payload of batch ``index`` looks like as rows."""

    @abstractmethod
    def nobody(self, batch: BatchState) -> bytes:
        """A payload of phi = 0 for an open batch, randomised like any other."""

    def length(self, index: int) -> int:
        """Bytes of a payload."""
        return wire.report_length(self.shapes(index))

    def unpack(self, index: int, payload: bytes) -> Messages:
        """The rows of a payload."""
        return wire.decode_report(self.shapes(index), payload)

    def pack(self, shuffled: Batch, batch: BatchState) -> Parcel:
        """The bytes of a shuffled batch."""
        shapes = self.released_shapes(batch.index)
        return Parcel(wire.encode_batch(self._header(batch), shapes, shuffled.messages))

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
        total = self.plan.users(index) * self.shapes(index)[channel][0][0]
        for before in range(index - 1, -1, -1):
            closing = self.plan.closing(before)
            if closing is None or channel in closing:
                break
            total += self.plan.users(before) * self.shapes(before)[channel][0][0]
        return total

    def combine(self, index: int, seeds: bytes, opened: bytes) -> bytes:
        """The shuffler's part of the sum over the reports that opened."""
        raise Refusal(Reason.NOT_FOUND, f"reports travel as {self.transport.name.lower()}")

    def binding(self, batch: BatchState) -> sealing.Binding:
        """What reports for a batch are bound to."""
        return sealing.Binding(
            self.transport,
            batch.plan_id,
            batch.index,
            batch.model_version,
            batch.model_hash,
            batch.inner_key,
        )

    def _header(self, batch: BatchState) -> wire.BatchHeader:
        sealed = batch.inner_key != sealing.NO_PUBLIC_KEY
        name = key_id(batch.inner_key) if sealed else wire.NO_KEY
        return wire.BatchHeader(
            self.transport, batch.plan_id, batch.index, batch.size, batch.model_hash, name
        )

    def _messages_of_nobody(self, index: int) -> Messages:
        zeros = np.zeros(self.plan.layout.size)
        return self._protocol.release(index).randomize(zeros, SystemCoins())


class Bits(Carriage):
    """The default: the shuffler reads the bits that it permutes."""

    transport = Transport.BITS

    def _shapes(self, index: int) -> Shapes:
        return self._plain(index)

    def nobody(self, batch: BatchState) -> bytes:
        """A payload of phi = 0 for an open batch, randomised like any other."""
        return wire.encode_report(self.shapes(batch.index), self._messages_of_nobody(batch.index))


class Sealed(Carriage):
    """Every row is sealed for the analyzer, and permuted unread."""

    transport = Transport.SEALED

    def _shapes(self, index: int) -> Shapes:
        return sealing.sealed_shapes(self._plain(index))

    def nobody(self, batch: BatchState) -> bytes:
        """A payload of phi = 0 for an open batch, randomised like any other."""
        plain, messages = self._plain(batch.index), self._messages_of_nobody(batch.index)
        sealed = sealing.seal_rows(plain, messages, _public(batch), self.binding(batch))
        return wire.encode_report(self.shapes(batch.index), sealed)


class Shares(Carriage):
    """One half of every report is sealed for the analyzer; seeds of the other half stay."""

    transport = Transport.SHARES

    def _shapes(self, index: int) -> Shapes:
        shares.require_room(self._plain(index), self.plan.users(index))
        return shares.stored_shapes(self._size(index))

    def nobody(self, batch: BatchState) -> bytes:
        """A payload of phi = 0 for an open batch, randomised like any other."""
        tally = self._release(batch.index).tally(self._messages_of_nobody(batch.index))
        messages = shares.share_report(tally, _public(batch), self.binding(batch))
        return wire.encode_report(self.shapes(batch.index), messages)

    def pack(self, shuffled: Batch, batch: BatchState) -> Parcel:
        """The sealed halves, and the seeds in the same order."""
        seeds, released = shares.part(shuffled.messages[shares.REPORT])
        shapes = self.released_shapes(batch.index)
        body = wire.encode_batch(self._header(batch), shapes, released)
        return Parcel(body, seeds.tobytes())

    def released_shapes(self, index: int) -> Shapes:
        """The sealed halves of a batch."""
        return shares.released_shapes(self._size(index), self.plan.users(index))

    def combine(self, index: int, seeds: bytes, opened: bytes) -> bytes:
        """The sum of the masks, over all reports or none.

        Who is left out takes noise along. The plan counts on the noise of ``honest_fraction`` of
        the users, and an analyzer that may leave out some would leave out honest ones.
        """
        users = self.plan.users(index)
        flags = wire.decode_flags(opened, users)
        rows = np.frombuffer(seeds, np.uint8).reshape(users, shares.SEED)
        try:
            return wire.encode_words(shares.sum_masks(rows, flags, self._size(index), users))
        except RefusedError as error:
            raise Refusal(Reason.GUARANTEE_NOT_MET, str(error)) from error

    def _size(self, index: int) -> int:
        return int(self._release(index).tally(self._messages_of_nobody(index)).size)

    def _release(self, index: int) -> AdditiveRelease:
        release = self._protocol.release(index)
        if not isinstance(release, AdditiveRelease):
            raise RefusedError(f"reports of {self.plan.protocol} cannot be split into shares")
        return release


def _public(batch: BatchState) -> X25519PublicKey:
    return X25519PublicKey.from_public_bytes(batch.inner_key)


_CARRIAGES: dict[Transport, type[Carriage]] = {
    kind.transport: kind for kind in (Bits, Sealed, Shares)
}


def carriage(transport: Transport, plan: Plan) -> Carriage:
    """The plan's reports by that transport."""
    return _CARRIAGES[transport](plan)
