"""Attempts at a batch of shares: begun again if too few reports open to release their sum.

Nothing is released of an attempt that is dropped: its masks are destroyed, and the shares that the
analyzer has are uniform without them. So its users have spent nothing, and may report again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from croupier.service.shuffler import plan_lifecycle
from croupier.service.shuffler.rows import BatchRow
from croupier.service.storage import dropped_attempts
from croupier.service.storage.database import Transaction


def count_participations(transaction: Transaction, plan_id: str, accounts: Iterable[bytes]) -> None:
    """These took part once more, by the marks of their accounts."""
    transaction.many(
        """
        INSERT INTO participations (plan, account_mac, spent) VALUES (?, ?, 1)
        ON CONFLICT (plan, account_mac) DO UPDATE SET spent = participations.spent + 1
        """,
        [(plan_id, account) for account in accounts],
    )


def note_participants(transaction: Transaction, batch: BatchRow, accounts: Iterable[bytes]) -> None:
    """These take part in the batch, if its masks are ever added up."""
    transaction.many(
        "INSERT INTO present (plan, batch, account_mac) VALUES (?, ?, ?)",
        [(batch.plan_id, batch.index, account) for account in accounts],
    )


def count_participants(transaction: Transaction, plan_id: str, index: int) -> None:
    """The sum of the masks is released: who was noted has taken part."""
    rows = transaction.all(
        "SELECT account_mac FROM present WHERE plan = ? AND batch = ? ORDER BY account_mac",
        plan_id,
        index,
    )
    count_participations(transaction, plan_id, [bytes(account) for (account,) in rows])
    _forget_participants(transaction, plan_id, index)


def _forget_participants(transaction: Transaction, plan_id: str, index: int) -> None:
    transaction.execute("DELETE FROM present WHERE plan = ? AND batch = ?", plan_id, index)


def begin_next_attempt(transaction: Transaction, batch: BatchRow) -> int:
    """Drop the reports of a batch and begin its next attempt; how many were dropped.

    Nobody has taken part in it: participations are counted at the seal, of shares at the sum.
    """
    _forget_participants(transaction, batch.plan_id, batch.index)
    dropped = plan_lifecycle.empty_batch(transaction, batch)
    transaction.execute(
        """
        UPDATE batches SET state = 'open', attempt = attempt + 1, body = NULL, digest = NULL,
            signature = NULL, seeds = NULL, lease_owner = NULL, lease_until = 0
        WHERE plan = ? AND batch = ?
        """,
        batch.plan_id,
        batch.index,
    )
    return dropped


def go_on_without_keys(transaction: Transaction, batch: BatchRow) -> int:
    """The keys of a batch were lost: begin it again if it needs them; how many were dropped.

    Of a sealed batch only seeds of masks are under a key. Without it they are nobody's, so that
    nothing of the batch can be released; and if not, uploads that are repeated are not known.
    """
    if batch.is_open:
        return begin_next_attempt(transaction, batch)
    row = transaction.one(
        "SELECT body FROM batches WHERE plan = ? AND batch = ? AND seeds IS NOT NULL",
        batch.plan_id,
        batch.index,
    )
    if row is not None:
        drop_attempt(transaction, batch, bytes(row[0]), 0)
        return batch.size
    transaction.execute(
        "UPDATE batches SET key_prints = NULL WHERE plan = ? AND batch = ?",
        batch.plan_id,
        batch.index,
    )
    return 0


def drop_attempt(transaction: Transaction, batch: BatchRow, body: bytes, opened: int) -> None:
    """Give up an attempt whose shares were handed on: forget its masks, and write that down."""
    dropped_attempts.record_attempt(
        transaction, batch.plan_id, batch.index, hashlib.sha256(body).digest(), opened
    )
    begin_next_attempt(transaction, batch)
