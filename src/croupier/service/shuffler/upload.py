"""Uploads on their way in: bytes to records, records to opened reports, reports to the store."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from croupier import wire
from croupier.errors import WireError
from croupier.packing import channels, packed_length
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.transports import REMEMBERED, PlanTransport
from croupier.service.messages.unsealing import DecryptJob, open_seal
from croupier.service.settings import LimitSettings
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.account_gate import require_account
from croupier.service.shuffler.decrypt_pool import DecryptPool
from croupier.service.shuffler.group_commit import GroupCommit
from croupier.service.shuffler.open_batch import OpenBatch
from croupier.service.shuffler.rows import BatchRow
from croupier.shuffler import Shapes
from croupier.wire import Record

Opened = tuple[bytes, Reason]
"""The payload, empty if it was not opened, and the reason if it then does not fit."""

Opening = X25519PrivateKey | Reason
"""The key that opens a record, or why none does."""

Placed = tuple[list[int], DecryptJob]
"""A job, and the places of its reports among the records of an upload."""

UNOPENED = b""

OPENED_HERE = 4
"""Up to so many seals of one upload are opened at once; asking a helper takes twice as long."""

OPENED_TOGETHER = 32
"""Seals in one job, so that a large upload keeps several helpers busy and the loop free."""


class PrivateKeys(Protocol):
    """The part of a keyring that is needed here."""

    def opener(self, name: bytes) -> X25519PrivateKey | None:
        """The private key of that id, if it may still open."""

    def refresh(self) -> bool:
        """Read again what another process has changed; whether it had."""


@dataclass(frozen=True)
class ReportVerdict:
    """What became of one record; no reason means that it is in."""

    report_id: bytes
    reason: Reason | None


class ReportReceiver:
    """Opens the reports of one plan and has them committed in groups.

    A report that was not opened, for a batch that is over or a key that is gone, is still asked
    about: the store knows whether the same bytes were accepted before.
    """

    def __init__(
        self,
        transport: PlanTransport,
        keys: PrivateKeys,
        open_batch: OpenBatch,
        commits: GroupCommit[Upload, Reason | None],
        limits: LimitSettings,
        decrypt_pool: DecryptPool,
    ) -> None:
        self._transport = transport
        self._plan = transport.plan
        self._keys = keys
        self._open_batch = open_batch
        self._commits = commits
        self._limits = limits
        self._sealed_length = lru_cache(REMEMBERED)(transport.sealed_length)
        self._decrypt_pool = decrypt_pool
        self._spare_bits = lru_cache(8)(lambda index: SpareBits.of(transport.shapes(index)))

    def record_length(self, index: int) -> int:
        """Bytes of one record for batch ``index``."""
        return wire.record_length(self._sealed_length(index))

    async def take(self, body: bytes, account: bytes | None = None) -> list[ReportVerdict]:
        """What became of every record in the body; refused as a whole if it cannot be read.

        So it is if it has a record that is not of ``account``, where only that one may report.
        """
        records = self._read_records(body)
        require_account(records, account)
        batch = await self._open_batch.require()
        if any(_differs(record, batch) for record in records):
            await self._open_batch.confirm()
            batch = await self._open_batch.require()
        return await self._commit(body, records, await self._open_records(records, batch))

    def _read_records(self, body: bytes) -> list[Record]:
        try:
            records = wire.decode_records(body, self._sealed_length)
        except WireError as error:
            raise Refusal(Reason.of(error.reason), str(error)) from error
        most = self._limits.records_per_request
        if len(records) > most:
            raise Refusal(Reason.BODY_TOO_LARGE, f"at most {most} records are taken at once")
        return records

    async def _open_records(self, records: Sequence[Record], batch: BatchRow) -> list[Opened]:
        """Every record's payload; only those are opened that could be good for something."""
        keys = [self._find_key(record, batch) for record in records]
        prefix = batch.binding(self._transport.kind).outer_prefix
        if len(records) <= OPENED_HERE:
            payloads = _open_few(records, keys, prefix)
        else:
            payloads = await self._open_many(records, keys, prefix)
        return [
            (UNOPENED, key) if isinstance(key, Reason) else self._check_payload(payload, batch)
            for key, payload in zip(keys, payloads, strict=True)
        ]

    async def _open_many(
        self, records: Sequence[Record], keys: Sequence[Opening], prefix: bytes
    ) -> list[bytes | None]:
        """By the helpers, as far as there are any."""
        jobs = _make_jobs(records, keys, prefix)
        answers = await self._decrypt_pool.open([job for _, job in jobs])
        found: list[bytes | None] = [None] * len(records)
        for (places, _), payloads in zip(jobs, answers, strict=True):
            for place, payload in zip(places, payloads, strict=True):
                found[place] = payload
        return found

    def _find_key(self, record: Record, batch: BatchRow) -> Opening:
        if record.transport is not self._transport.kind:
            return Reason.MALFORMED
        if _differs(record, batch):
            return Reason.BATCH_CLOSED
        return self._key(record.key_id) or Reason.UNKNOWN_KEY

    def _check_payload(self, payload: bytes | None, batch: BatchRow) -> Opened:
        """What is known of a record that was to be opened."""
        if payload is None:
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
        self, body: bytes, records: Sequence[Record], found: Sequence[Opened]
    ) -> list[ReportVerdict]:
        answers = await self._commits.submit(self._make_uploads(body, records, found))
        return [
            ReportVerdict(record.report_id, otherwise if answer is Reason.WRONG_LENGTH else answer)
            for record, (_, otherwise), answer in zip(records, found, answers, strict=True)
        ]

    def _make_uploads(
        self, body: bytes, records: Sequence[Record], found: Sequence[Opened]
    ) -> list[Upload]:
        """One for every record; its digest is that of its part of the body."""
        plan_id, made, start = self._plan.id, [], 0
        for record, (payload, _) in zip(records, found, strict=True):
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


def _open_few(
    records: Sequence[Record], keys: Sequence[Opening], prefix: bytes
) -> list[bytes | None]:
    """Here and now."""
    return [
        None
        if isinstance(key, Reason)
        else open_seal(record.sealed, key, prefix + record.report_id)
        for record, key in zip(records, keys, strict=True)
    ]


def _make_jobs(records: Sequence[Record], keys: Sequence[Opening], prefix: bytes) -> list[Placed]:
    """What there is to open; around a rotation, records are for different keys."""
    places: dict[X25519PrivateKey, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        if not isinstance(key, Reason):
            places[key].append(place)
    return [
        (
            part,
            DecryptJob(key, prefix, [(records[at].report_id, records[at].sealed) for at in part]),
        )
        for key, all_places in places.items()
        for part in _split_places(all_places)
    ]


def _split_places(places: list[int]) -> list[list[int]]:
    starts = range(0, len(places), OPENED_TOGETHER)
    return [places[start : start + OPENED_TOGETHER] for start in starts]


def _differs(record: Record, batch: BatchRow) -> bool:
    """Whether the record is for another batch or model, as far as we know."""
    return record.batch != batch.index or record.model_hash != batch.model_hash
