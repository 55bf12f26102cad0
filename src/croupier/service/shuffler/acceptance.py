"""Taking uploads: which are accepted, which refused and why, as one transaction sees them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_bytes

from croupier import wire
from croupier.service.http.reasons import Reason
from croupier.service.shuffler import attempts
from croupier.service.shuffler.account_marks import AccountMarks, mark_accounts
from croupier.service.shuffler.rows import BatchRow, BatchState, PlanRow, lock_plan, read_batch
from croupier.service.shuffler.shuffling import CarriedSizes
from croupier.service.storage.database import Row, Transaction
from croupier.wire import Transport


@dataclass(frozen=True)
class Upload:
    """One report as it arrived, opened and checked. ``digest`` is that of the uploaded bytes."""

    plan_id: str
    batch: int
    model_hash: str
    id: bytes
    account: bytes = field(repr=False)
    digest: bytes = field(repr=False)
    payload: bytes = field(repr=False)

    @classmethod
    def of(cls, plan_id: str, record: wire.Record, payload: bytes) -> Upload:
        """The upload behind a record whose seal was opened to ``payload``."""
        digest = hashlib.sha256(wire.encode_records([record])).digest()
        return cls(
            plan_id,
            record.batch,
            record.model_hash,
            record.report_id,
            record.account,
            digest,
            payload,
        )


@dataclass(frozen=True)
class UploadRules:
    """The public numbers of a plan that an upload is held against."""

    batches: int
    participations: int
    length: int


def upload_rules(sizes: CarriedSizes, index: int) -> UploadRules:
    """The rules while batch ``index`` is the newest."""
    plan = sizes.plan
    length = sizes.transport.length(index)
    return UploadRules(plan.schedule.batches, plan.participations, length)


@dataclass
class UploadJudge:
    """Judges uploads to one plan one after the other, and remembers what it accepted.

    ``digests`` has the known reports by id, ``marks`` those of the uploads' accounts while the
    batch is open, ``users`` the marks of those who are in it, ``spent`` the participations by
    account mark.
    """

    plan: PlanRow
    batch: BatchRow
    rules: UploadRules
    digests: dict[bytes, bytes]
    marks: Mapping[bytes, AccountMarks] = field(default_factory=dict)
    users: set[bytes] = field(default_factory=set)
    spent: Mapping[bytes, int] = field(default_factory=dict)
    accepted: list[tuple[Upload, AccountMarks]] = field(default_factory=list)

    def judge(self, upload: Upload) -> Reason | None:
        """None if the report is in, now or since an earlier upload of the same bytes."""
        known = self.digests.get(upload.id)
        if known is not None:
            return None if known == upload.digest else Reason.ID_CONFLICT
        return self._refuse_closed(upload) or self._refuse_unfit(upload) or self._accept(upload)

    def _refuse_closed(self, upload: Upload) -> Reason | None:
        """Why the batch that the upload is for takes no more."""
        if self.plan.ended or upload.batch >= self.rules.batches:
            return Reason.PLAN_ENDED
        if self._is_open:
            return None if upload.batch == self.batch.index else Reason.STALE_BATCH
        # A device may know of the next model before we do.
        soon = upload.batch in {self.batch.index, self.batch.index + 1}
        return Reason.BATCH_CLOSED if soon else Reason.STALE_BATCH

    @property
    def _is_open(self) -> bool:
        room = self.batch.size - self.batch.filled - len(self.accepted)
        return self.batch.state is BatchState.OPEN and room > 0

    def _refuse_unfit(self, upload: Upload) -> Reason | None:
        if upload.model_hash != self.batch.model_hash:
            return Reason.STALE_MODEL
        return None if len(upload.payload) == self.rules.length else Reason.WRONG_LENGTH

    def _accept(self, upload: Upload) -> Reason | None:
        """Take the report, unless its user may not."""
        mine = self.marks[upload.account]
        if mine.user in self.users:
            return Reason.DUPLICATE_USER
        if self.spent.get(mine.account, 0) >= self.rules.participations:
            return Reason.PARTICIPATION_LIMIT
        self.digests[upload.id] = upload.digest
        self.users.add(mine.user)
        self.accepted.append((upload, mine))
        return None


def accept_uploads(
    transaction: Transaction, sizes: CarriedSizes, uploads: Sequence[Upload]
) -> list[Reason | None]:
    """Judge uploads to one plan in order, and keep the accepted ones."""
    plan = lock_plan(transaction, sizes.id)
    batch = read_batch(transaction, sizes.id, plan.batch)
    judge = read_judge(transaction, plan, batch, upload_rules(sizes, batch.index), uploads)
    found = [judge.judge(upload) for upload in uploads]
    store_accepted(transaction, judge)
    if sizes.transport.kind is Transport.SHARES:
        accounts = [mine.account for _, mine in judge.accepted]
        attempts.note_participants(transaction, batch, accounts)
    return found


def read_judge(
    transaction: Transaction,
    plan: PlanRow,
    batch: BatchRow,
    rules: UploadRules,
    uploads: Sequence[Upload],
) -> UploadJudge:
    """A judge that knows all that is stored about these uploads."""
    known = _read_digests(transaction, plan.id, uploads)
    if batch.state is not BatchState.OPEN:
        return UploadJudge(plan, batch, rules, known)
    found = mark_accounts(plan.key, batch.key, [upload.account for upload in uploads])
    users = _read_users(transaction, batch, [one.user for one in found.values()])
    spent = _read_spent(transaction, plan.id, [one.account for one in found.values()])
    return UploadJudge(plan, batch, rules, known, found, users, spent)


def _read_digests(t: Transaction, plan_id: str, uploads: Sequence[Upload]) -> dict[bytes, bytes]:
    rows = t.among(
        "SELECT id, digest FROM reports WHERE plan = ? AND id IN (...)",
        plan_id,
        found=[upload.id for upload in uploads],
    )
    return {bytes(key): bytes(digest) for key, digest in rows}


def _read_users(t: Transaction, batch: BatchRow, found: Sequence[bytes]) -> set[bytes]:
    rows = t.among(
        "SELECT user_mac FROM reports WHERE plan = ? AND batch = ? AND user_mac IN (...)",
        batch.plan_id,
        batch.index,
        found=found,
    )
    return {bytes(mac) for (mac,) in rows}


def _read_spent(t: Transaction, plan_id: str, found: Sequence[bytes]) -> dict[bytes, int]:
    rows = t.among(
        "SELECT account_mac, spent FROM participations WHERE plan = ? AND account_mac IN (...)",
        plan_id,
        found=found,
    )
    return {bytes(mac): spent for mac, spent in rows}


def store_accepted(transaction: Transaction, filled: UploadJudge) -> None:
    """Store what the judge accepted: reports, participations, and how full the batch is."""
    where = (filled.batch.plan_id, filled.batch.index)
    taken = [
        (*where, upload.id, upload.digest, upload.payload, mine.user)
        for upload, mine in filled.accepted
    ]
    _insert_reports(transaction, filled.batch, taken)
    transaction.many(
        """
        INSERT INTO participations (plan, account_mac, spent) VALUES (?, ?, 1)
        ON CONFLICT (plan, account_mac) DO UPDATE SET spent = participations.spent + 1
        """,
        [(filled.plan.id, mine.account) for _, mine in filled.accepted],
    )


def add_empty_reports(transaction: Transaction, batch: BatchRow, payloads: Sequence[bytes]) -> int:
    """Add reports of nobody to an open batch, under ids and marks that nobody has; how many."""
    where = (batch.plan_id, batch.index)
    rows = [
        (*where, token_bytes(wire.REPORT_ID), token_bytes(32), payload, token_bytes(32))
        for payload in payloads
    ]
    _insert_reports(transaction, batch, rows)
    transaction.execute(
        "UPDATE batches SET padded = padded + ? WHERE plan = ? AND batch = ?",
        len(rows),
        *where,
    )
    return len(rows)


def _insert_reports(transaction: Transaction, batch: BatchRow, rows: Sequence[Row]) -> None:
    """Rows of plan, batch, id, digest, payload and user's mark."""
    transaction.many(
        """
        INSERT INTO reports (plan, batch, id, digest, payload, user_mac)
        VALUES (?, ?, ?, ?, ?, ?)
        """,
        rows,
    )
    if rows:
        transaction.execute(
            "UPDATE batches SET filled = filled + ? WHERE plan = ? AND batch = ?",
            len(rows),
            batch.plan_id,
            batch.index,
        )
