"""Batches of shares on the analyzer: one set of reports decided on, one pair of halves joined.

Our halves of all counts are kept for every batch. They say nothing until the shuffler's half comes,
and that comes for a count once, when its channel closes, over all batches that it was open in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier import wire
from croupier.plan import Plan
from croupier.service.analyzer import rows
from croupier.service.analyzer.rows import Floats, PublishedModel, ReceivedBatch
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import released_counts
from croupier.service.messages.missing_reports import least_opened
from croupier.service.messages.shares import Words, join_sums
from croupier.service.storage import dropped_attempts
from croupier.service.storage.database import Transaction

Counts = NDArray[np.int64]


# The set


def read_decided_set(transaction: Transaction, arrival: ReceivedBatch) -> bytes | None:
    """The set that was decided on, as flags; None if this batch is the one to decide on now."""
    _drop_failed_attempt(transaction, arrival)
    rows.read_answer(transaction, arrival)
    row = transaction.one(
        "SELECT opened FROM batches WHERE plan = ? AND batch = ?", arrival.plan.id, arrival.index
    )
    return None if row is None else bytes(row[0])


def _drop_failed_attempt(transaction: Transaction, arrival: ReceivedBatch) -> None:
    """An attempt of which too few reports opened has been dropped once other bytes come."""
    plan, index = arrival.plan, arrival.index
    if arrival.digest in dropped_attempts.read_digests(transaction, plan.id, index):
        raise Refusal(Reason.STALE_BATCH, f"batch {index} was begun again since")
    row = transaction.one(
        "SELECT digest, opened FROM batches WHERE plan = ? AND batch = ? AND sums IS NULL",
        plan.id,
        index,
    )
    if row is None or bytes(row[0]) == arrival.digest:
        return
    opened = _count_opened(plan, index, bytes(row[1]))
    if opened < least_opened(plan, index):
        dropped_attempts.record_attempt(transaction, plan.id, index, bytes(row[0]), opened)
        transaction.execute("DELETE FROM batches WHERE plan = ? AND batch = ?", plan.id, index)


def store_decided_set(
    transaction: Transaction, arrival: ReceivedBatch, opened: bytes, tally: Words
) -> None:
    """Keep the set, and the sum of our halves over it."""
    transaction.execute(
        """
        INSERT INTO batches (plan, batch, digest, model_hash, opened, tally)
        VALUES (?, ?, ?, ?, ?, ?)
        """,
        arrival.plan.id,
        arrival.index,
        arrival.digest,
        arrival.model_hash,
        opened,
        wire.encode_words(tally),
    )


def _count_opened(plan: Plan, index: int, opened: bytes) -> int:
    return int(wire.decode_flags(opened, plan.users(index)).sum())


# The halves


@dataclass(frozen=True)
class ShareSums:
    """Our half of the counts that close with a batch, each over the ``users`` that opened.

    ``most`` is what honest reports of so many users could count.
    """

    arrival: ReceivedBatch
    users: Counts
    most: Counts
    tally: Words
    share_digest: bytes | None

    def counts(self, share: bytes) -> tuple[Counts, int]:
        """The counts, and how many had to be brought back into their range.

        Without a range check on reports, one of them can put any number anywhere. Clipped, a bad
        report spoils no more than the sums that it is in, and stops none.
        """
        found = join_sums(self.tally, wire.decode_words(share, self.tally.size))
        inside = np.clip(found, 0, self.most)
        return inside, int(np.count_nonzero(inside != found))

    def sums(self, counts: Counts) -> Floats:
        """The sums that are released with the batch."""
        release = released_counts.additive_release(self.arrival.plan, self.arrival.index)
        return release.settle(counts, self.users)


def read_share_sums(transaction: Transaction, plan: Plan, index: int) -> ShareSums:
    """Our half of a batch whose set was decided."""
    row = transaction.one(
        """
        SELECT digest, model_hash, share_digest FROM batches
        WHERE plan = ? AND batch = ? AND opened IS NOT NULL
        """,
        plan.id,
        index,
    )
    if row is None:
        raise Refusal(Reason.STALE_BATCH, f"no set of reports was decided on for batch {index}")
    digest, model_hash, share_digest = row
    arrival = ReceivedBatch(plan, index, model_hash, bytes(digest))
    users, most, tally = _read_closing_counts(transaction, plan, index)
    told = None if share_digest is None else bytes(share_digest)
    return ShareSums(arrival, users, most, tally.astype(np.uint32), told)


def _read_closing_counts(transaction: Transaction, plan: Plan, index: int) -> Counts:
    """Users, most and our half ``(3, counts)`` of the counts that close, over all their batches."""
    closing = released_counts.closing_channels(plan, index)
    spans = {name: released_counts.open_batches(plan, index, name) for name in closing}
    parts = {
        batch: _read_batch_counts(transaction, plan, batch)
        for batch in sorted(set().union(*spans.values()))
    }
    columns = [sum(parts[batch][name] for batch in spans[name]) for name in closing]
    return np.array(columns, dtype=np.int64).reshape(-1, 3).T


def _read_batch_counts(transaction: Transaction, plan: Plan, batch: int) -> dict[str, Counts]:
    """Users, most and our half of every count of one batch, by channel."""
    row = transaction.one(
        "SELECT opened, tally FROM batches WHERE plan = ? AND batch = ?", plan.id, batch
    )
    if row is None or row[0] is None:
        raise Refusal(Reason.STALE_BATCH, f"no set of reports was decided on for batch {batch}")
    users, counted = (
        _count_opened(plan, batch, bytes(row[0])),
        released_counts.additive_release(plan, batch).counted,
    )
    words = wire.decode_words(bytes(row[1]), len(counted)).astype(np.int64)
    columns = (
        np.full(len(counted), users),
        users * released_counts.largest_counts(plan, batch),
        words,
    )
    return dict(zip(counted, np.column_stack(columns), strict=True))


def read_settled(transaction: Transaction, ours: ShareSums, share: bytes) -> PublishedModel | None:
    """What was answered for these two halves; None if they are to be joined now."""
    if ours.share_digest is None:
        return None
    if ours.share_digest != hashlib.sha256(share).digest():
        raise Refusal(Reason.ID_CONFLICT, "the other half came with other bytes before")
    return rows.read_answer(transaction, ours.arrival)


def join_share_sums(transaction: Transaction, ours: ShareSums, share: bytes) -> Floats:
    """Join the halves; the sums that are released with the batch."""
    counts, clipped = ours.counts(share)
    plan_id = ours.arrival.plan.id
    transaction.execute(
        "UPDATE batches SET share_digest = ? WHERE plan = ? AND batch = ?",
        hashlib.sha256(share).digest(),
        plan_id,
        ours.arrival.index,
    )
    transaction.execute("UPDATE plans SET clipped = clipped + ? WHERE id = ?", clipped, plan_id)
    return ours.sums(counts)
