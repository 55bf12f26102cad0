"""Taking uploads: which are accepted, which refused and why, as one transaction sees them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_bytes

from croupier import wire
from croupier.service.http.reasons import Reason
from croupier.service.shuffler.account_marks import MARK, AccountMarks, Marker, mark_accounts
from croupier.service.shuffler.batch_keys import BatchKeyPair, BatchKeys
from croupier.service.shuffler.newcomer_limit import newcomers_allowed
from croupier.service.shuffler.rows import BatchRow, BatchState, PlanRow, lock_plan, read_batch
from croupier.service.shuffler.shuffling import CarriedSizes
from croupier.service.storage.database import Row, Transaction

NOBODY = bytes(MARK)
"""The account mark of reports that nobody sent."""

UNLIKE = b""
"""The digest of no upload."""


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
    """The numbers that an upload is held against; of accounts that are new to the plan the most.

    All but that last one are the plan's, and public. Where it is None new accounts are not even
    counted: in logs of the database that would tell which upload was of one.
    """

    batches: int
    participations: int
    length: int
    newcomers: int | None


def upload_rules(sizes: CarriedSizes, state: PlanRow, index: int) -> UploadRules:
    """The rules while batch ``index`` is the newest."""
    plan = sizes.plan
    most = newcomers_allowed(sizes.newcomers, state, index)
    length = sizes.transport.length(index)
    return UploadRules(plan.schedule.batches, plan.participations, length, most)


@dataclass
class UploadJudge:
    """Judges uploads to one plan one after the other, and remembers what it accepted.

    ``digests`` has the digests of known reports by id, ``keys`` are those of an open batch,
    ``marks`` those of the uploads' accounts while it is open, ``users`` the marks of those who are
    in it, ``spent`` the participations by account mark.
    """

    plan: PlanRow
    batch: BatchRow
    rules: UploadRules
    digests: dict[bytes, bytes]
    keys: BatchKeyPair | None = None
    marks: Mapping[bytes, AccountMarks] = field(default_factory=dict)
    users: set[bytes] = field(default_factory=set)
    spent: Mapping[bytes, int] = field(default_factory=dict)
    accepted: list[tuple[Upload, AccountMarks]] = field(default_factory=list)
    newcomers: int = 0

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
        before = self.spent.get(mine.account, 0)
        if before >= self.rules.participations:
            return Reason.PARTICIPATION_LIMIT
        most = self.rules.newcomers
        if not before and most is not None:
            if self.batch.newcomers + self.newcomers >= most:
                return Reason.NEW_ACCOUNTS
            self.newcomers += 1
        self.digests[upload.id] = upload.digest
        self.users.add(mine.user)
        self.accepted.append((upload, mine))
        return None


def accept_uploads(
    transaction: Transaction, sizes: CarriedSizes, keys: BatchKeys, uploads: Sequence[Upload]
) -> list[Reason | None]:
    """Judge uploads to one plan in order, and keep the accepted ones."""
    plan = lock_plan(transaction, sizes.id)
    batch = read_batch(transaction, sizes.id, plan.batch)
    judge = read_judge(
        transaction, plan, batch, upload_rules(sizes, plan, batch.index), keys, uploads
    )
    found = [judge.judge(upload) for upload in uploads]
    store_accepted(transaction, judge, keys)
    return found


def read_judge(
    transaction: Transaction,
    plan: PlanRow,
    batch: BatchRow,
    rules: UploadRules,
    keys: BatchKeys,
    uploads: Sequence[Upload],
) -> UploadJudge:
    """A judge that knows all that is stored about these uploads."""
    known = _find_known(transaction, batch, keys, uploads)
    if not batch.is_open:
        return UploadJudge(plan, batch, rules, known)
    pair, accounts = keys.pair(batch), [upload.account for upload in uploads]
    found = mark_accounts(plan.key, pair.early.mark, accounts)
    users = _read_users(transaction, batch, [one.user for one in found.values()])
    spent = _read_spent(transaction, plan.id, [one.account for one in found.values()])
    return UploadJudge(plan, batch, rules, known, pair, found, users, spent)


def _find_known(
    t: Transaction, newest: BatchRow, keys: BatchKeys, uploads: Sequence[Upload]
) -> dict[bytes, bytes]:
    """The digests of those uploads that are stored, by id: of the newest batch or the last one."""
    by_batch: dict[int, list[Upload]] = {}
    for upload in uploads:
        by_batch.setdefault(upload.batch, []).append(upload)
    known: dict[bytes, bytes] = {}
    for index in by_batch.keys() & {newest.index, newest.index - 1}:
        batch = newest if index == newest.index else read_batch(t, newest.plan_id, index)
        if batch.key_prints and not batch.is_over:
            known |= _match_digests(t, batch, keys.late(batch).mark, by_batch[index])
    return known


def _match_digests(
    t: Transaction, batch: BatchRow, mark: Marker, uploads: Sequence[Upload]
) -> dict[bytes, bytes]:
    """Digests by id; where another one is stored, one that is like no upload's."""
    marks = {mark(upload.id): upload for upload in uploads}
    rows = t.among(
        "SELECT id, digest FROM reports WHERE plan = ? AND batch = ? AND id IN (...)",
        batch.plan_id,
        batch.index,
        found=list(marks),
    )
    stored = {marks[bytes(name)].id: bytes(digest) for name, digest in rows}
    digests = {mark(one.digest): one.digest for one in uploads if one.id in stored}
    return {name: digests.get(digest, UNLIKE) for name, digest in stored.items()}


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


def store_accepted(transaction: Transaction, filled: UploadJudge, keys: BatchKeys) -> None:
    """Store what the judge accepted, and how full the batch is."""
    if not filled.accepted or filled.keys is None:
        return
    early, mark = filled.keys.early, filled.keys.late.mark
    rows = [
        (mark(one.id), mark(one.digest), mine.user, early.encrypt(mine.account + one.payload))
        for one, mine in filled.accepted
    ]
    _store_keys(transaction, filled.batch, keys, filled.keys)
    _insert_reports(transaction, filled.batch, rows, filled.newcomers)


def _store_keys(t: Transaction, batch: BatchRow, keys: BatchKeys, pair: BatchKeyPair) -> None:
    """With the first report: its keys on disk, and their fingerprint in its transaction."""
    if batch.key_prints:
        return
    keys.store(batch, pair)
    t.execute(
        "UPDATE batches SET key_prints = ? WHERE plan = ? AND batch = ?",
        pair.prints,
        batch.plan_id,
        batch.index,
    )


def add_empty_reports(
    transaction: Transaction, batch: BatchRow, keys: BatchKeys, payloads: Sequence[bytes]
) -> int:
    """Add reports of nobody to an open batch, under ids and marks that nobody has; how many."""
    if not payloads:
        return 0
    pair = keys.pair(batch)
    rows = [
        (*(token_bytes(MARK) for _ in range(3)), pair.early.encrypt(NOBODY + payload))
        for payload in payloads
    ]
    _store_keys(transaction, batch, keys, pair)
    _insert_reports(transaction, batch, rows)
    transaction.execute(
        "UPDATE batches SET padded = padded + ? WHERE plan = ? AND batch = ?",
        len(rows),
        batch.plan_id,
        batch.index,
    )
    return len(rows)


def _insert_reports(
    transaction: Transaction, batch: BatchRow, rows: Sequence[Row], newcomers: int = 0
) -> None:
    """Rows of id, digest, user's mark and content."""
    where = (batch.plan_id, batch.index)
    transaction.many(
        """
        INSERT INTO reports (plan, batch, id, digest, user_mac, content)
        VALUES (?, ?, ?, ?, ?, ?)
        """,
        [(*where, *row) for row in rows],
    )
    transaction.execute(
        """
        UPDATE batches SET filled = filled + ?, newcomers = newcomers + ?
        WHERE plan = ? AND batch = ?
        """,
        len(rows),
        newcomers,
        *where,
    )
