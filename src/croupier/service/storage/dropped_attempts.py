"""Attempts at a batch of shares that nothing was released of, on either side's record."""

from __future__ import annotations

from croupier.service.storage.database import Transaction


def record_attempt(
    transaction: Transaction, plan_id: str, index: int, digest: bytes, opened: int
) -> None:
    """One more attempt that nothing was released of."""
    transaction.execute(
        "INSERT INTO drops (plan, batch, attempt, digest, opened) VALUES (?, ?, ?, ?, ?)",
        plan_id,
        index,
        len(read_digests(transaction, plan_id, index)),
        digest,
        opened,
    )


def read_digests(transaction: Transaction, plan_id: str, index: int) -> list[bytes]:
    """The digests of the attempts at a batch that were dropped, in order."""
    rows = transaction.all(
        "SELECT digest FROM drops WHERE plan = ? AND batch = ? ORDER BY attempt", plan_id, index
    )
    return [bytes(digest) for (digest,) in rows]


def count_attempts(transaction: Transaction, plan_id: str) -> int:
    """Attempts of all batches of a plan that were dropped."""
    ((found,),) = transaction.all("SELECT count(*) FROM drops WHERE plan = ?", plan_id)
    return int(found)
