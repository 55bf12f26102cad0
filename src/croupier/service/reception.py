"""Uploads on their way in: bytes to records, records to opened reports, reports to the store."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from croupier import wire
from croupier.errors import SealError, WireError
from croupier.packing import channels, packed_length
from croupier.service.carriage import REMEMBERED, Carriage
from croupier.service.commits import GroupCommit
from croupier.service.intake import Upload
from croupier.service.newest import Newest
from croupier.service.reasons import Reason, Refusal
from croupier.service.sealing import OVERHEAD, Binding, open_report
from croupier.service.settings import Limits
from croupier.service.states import BatchState
from croupier.shuffler import Shapes
from croupier.wire import Record

Opened = tuple[bytes, Reason]
"""The payload, empty if it was not opened, and the reason if it then does not fit."""

UNOPENED = b""

OPENED_HERE = 64
"""Up to so many seals are opened without another thread.

Opening keeps the interpreter to itself. For fewer it is over before a thread would have to give
way, so that a thread costs its waking and spares nobody a wait.
"""


class Openers(Protocol):
    """The part of a keyring that is needed here."""

    def opener(self, name: bytes) -> X25519PrivateKey | None:
        """The private key of that id, if it may still open."""

    def refresh(self) -> bool:
        """Read again what another process has changed; whether it had."""


@dataclass(frozen=True)
class Verdict:
    """What became of one record; no reason means that it is in."""

    report_id: bytes
    reason: Reason | None


class Reception:
    """Opens the reports of one plan and has them committed in groups.

    A report that was not opened, for a batch that is over or a key that is gone, is still asked
    about: the store knows whether the same bytes were accepted before.
    """

    def __init__(
        self,
        carriage: Carriage,
        keys: Openers,
        newest: Newest,
        commits: GroupCommit[Upload, Reason | None],
        limits: Limits,
    ) -> None:
        self._carriage = carriage
        self._plan = carriage.plan
        self._keys = keys
        self._newest = newest
        self._commits = commits
        self._limits = limits
        self._sealed_length = lru_cache(REMEMBERED)(self._length)
        self._threads = ThreadPoolExecutor(os.cpu_count(), "openers")
        self._spare_bits = lru_cache(8)(lambda index: SpareBits.of(carriage.shapes(index)))

    def record_length(self, index: int) -> int:
        """Bytes of one record for batch ``index``."""
        return wire.record_length(self._sealed_length(index))

    async def take(self, body: bytes) -> list[Verdict]:
        """What became of every record in the body; refused as a whole if it cannot be read."""
        records = self._records(body)
        batch = await self._newest.require()
        if any(_differs(record, batch) for record in records):
            await self._newest.confirm()
            batch = await self._newest.require()
        opened = await self._opened(records, batch)
        return await self._commit(body, records, opened)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def _records(self, body: bytes) -> list[Record]:
        try:
            records = wire.decode_records(body, self._sealed_length)
        except WireError as error:
            raise Refusal(Reason.of(error.reason), str(error)) from error
        most = self._limits.records_per_request
        if len(records) > most:
            raise Refusal(Reason.BODY_TOO_LARGE, f"at most {most} records are taken at once")
        return records

    def _length(self, index: int) -> int:
        """Bytes of the sealed part; beyond the last batch the last one's, to be refused later."""
        last = self._plan.schedule.batches - 1
        return self._carriage.length(min(index, last)) + OVERHEAD

    async def _opened(self, records: Sequence[Record], batch: BatchState) -> list[Opened]:
        """Every record's payload; very many are opened while others have their turns."""
        binding = self._carriage.binding(batch)
        work = partial(self._open_each, records, batch, binding)
        if len(records) <= OPENED_HERE:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _open_each(
        self, records: Sequence[Record], batch: BatchState, binding: Binding
    ) -> list[Opened]:
        return [self._open(record, batch, binding) for record in records]

    def _open(self, record: Record, batch: BatchState, binding: Binding) -> Opened:
        if record.transport is not self._carriage.transport:
            return UNOPENED, Reason.MALFORMED
        if _differs(record, batch):
            return UNOPENED, Reason.BATCH_CLOSED
        key = self._key(record.key_id)
        if key is None:
            return UNOPENED, Reason.UNKNOWN_KEY
        try:
            payload = open_report(record.sealed, key, binding, record.report_id)
        except SealError:
            return UNOPENED, Reason.UNDECRYPTABLE
        if self._spare_bits(batch.index).are_set(payload):
            return UNOPENED, Reason.BAD_PADDING
        return payload, Reason.WRONG_LENGTH

    def _key(self, name: bytes) -> X25519PrivateKey | None:
        """The key of that id, which may have been made since we last looked."""
        found = self._keys.opener(name)
        if found is None and self._keys.refresh():
            found = self._keys.opener(name)
        return found

    async def _commit(
        self, body: bytes, records: Sequence[Record], opened: Sequence[Opened]
    ) -> list[Verdict]:
        answers = await self._commits.submit(self._uploads(body, records, opened))
        return [
            Verdict(record.report_id, otherwise if answer is Reason.WRONG_LENGTH else answer)
            for record, (_, otherwise), answer in zip(records, opened, answers, strict=True)
        ]

    def _uploads(
        self, body: bytes, records: Sequence[Record], opened: Sequence[Opened]
    ) -> list[Upload]:
        """One for every record; its digest is that of its part of the body."""
        plan_id, made, start = self._plan.id, [], 0
        for record, (payload, _) in zip(records, opened, strict=True):
            end = start + wire.record_length(len(record.sealed))
            digest = hashlib.sha256(body[start:end]).digest()
            place = (plan_id, record.batch, record.model_hash)
            made.append(Upload(*place, record.report_id, record.account, digest, payload))
            start = end
        return made


@dataclass(frozen=True)
class SpareBits:
    """The bits of a payload that mean nothing: those above ``used`` in the byte at ``place``.

    Payloads are decoded when their batch is released. Until then this is all that could be wrong
    with one of the right length, and it is looked at without decoding.
    """

    place: int
    used: int

    @classmethod
    def of(cls, shapes: Shapes) -> SpareBits:
        """Those of a report of these shapes; none if its bits fill their bytes."""
        bits = sum(one.rows for one in channels(shapes).values() if one.is_bits)
        return cls(packed_length(bits) - 1, bits % 8)

    def are_set(self, payload: bytes) -> bool:
        """Whether a payload of the right length has one of them set."""
        return bool(self.used and payload[self.place] >> self.used)


def _differs(record: Record, batch: BatchState) -> bool:
    """Whether the record is for another batch or model, as far as we know."""
    return record.batch != batch.index or record.model_hash != batch.model_hash
