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


def note_participants(transaction: Transaction, batch: BatchRow, accounts: Iterable[bytes]) -> None:
    """These take part in the batch, by the marks of their accounts."""
    transaction.many(
        "INSERT INTO present (plan, batch, account_mac) VALUES (?, ?, ?)",
        [(batch.plan_id, batch.index, account) for account in sorted(accounts)],
    )


def forget_participants(transaction: Transaction, plan_id: str, index: int) -> None:
    """The sum of the masks is released: what was spent stays so, and who it was is forgotten."""
    transaction.execute("DELETE FROM present WHERE plan = ? AND batch = ?", plan_id, index)


def begin_next_attempt(transaction: Transaction, batch: BatchRow) -> int:
    """Drop the reports of a batch and begin its next attempt; how many were dropped."""
    _give_back_participations(transaction, batch)
    dropped = plan_lifecycle.empty_batch(transaction, batch)
    transaction.execute(
        """
        UPDATE batches SET state = 'open', attempt = attempt + 1, body = NULL, signature = NULL,
            seeds = NULL, lease_owner = NULL, lease_until = 0
        WHERE plan = ? AND batch = ?
        """,
        batch.plan_id,
        batch.index,
    )
    return dropped


def _give_back_participations(transaction: Transaction, batch: BatchRow) -> None:
    """The participations of those whose marks were noted; nobody's where none were."""
    where = (batch.plan_id, batch.index)
    transaction.execute(
        """
        UPDATE participations SET spent = spent - 1 WHERE plan = ? AND account_mac IN
            (SELECT account_mac FROM present WHERE plan = ? AND batch = ?)
        """,
        batch.plan_id,
        *where,
    )
    transaction.execute("DELETE FROM participations WHERE plan = ? AND spent = 0", batch.plan_id)
    forget_participants(transaction, *where)


def drop_attempt(transaction: Transaction, batch: BatchRow, body: bytes, opened: int) -> None:
    """Give up an attempt whose shares were handed on: forget its masks, and write that down."""
    dropped_attempts.record_attempt(
        transaction, batch.plan_id, batch.index, hashlib.sha256(body).digest(), opened
    )
    begin_next_attempt(transaction, batch)
