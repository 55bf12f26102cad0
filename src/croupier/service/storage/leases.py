"""Leases: of several processes over one database, one works on a batch at a time.

A lease only saves work. What is right does not depend on it, nor on a clock: every step locks its
plan, and looks at the state of the batch again before it changes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from croupier.service.storage.database import Transaction


@dataclass(frozen=True)
class Lease:
    """A batch that ``owner`` works on until ``until``."""

    plan_id: str
    batch: int
    owner: str
    until: float


def lease_batch(transaction: Transaction, owner: str, now: float, seconds: float) -> Lease | None:
    """The batch that has waited longest for a step and that nobody works on.

    A lease that ends later than ours would was given by a clock that has been set back since.
    """
    row = transaction.one(
        """
        SELECT plan, batch FROM batches
        WHERE state <> 'scrubbed' AND (state <> 'open' OR filled = size)
            AND (lease_until <= ? OR lease_until > ?)
        ORDER BY lease_until, plan, batch LIMIT 1 FOR UPDATE SKIP LOCKED
        """,
        now,
        now + seconds,
    )
    if row is None:
        return None
    transaction.execute(
        "UPDATE batches SET lease_owner = ?, lease_until = ? WHERE plan = ? AND batch = ?",
        owner,
        now + seconds,
        *row,
    )
    return Lease(row[0], row[1], owner, now + seconds)


def give_back(transaction: Transaction, held: Lease, now: float) -> None:
    """End a lease early, if it is still ours; others that wait come first then."""
    transaction.execute(
        """
        UPDATE batches SET lease_owner = NULL, lease_until = ?
        WHERE plan = ? AND batch = ? AND lease_owner = ?
        """,
        now,
        held.plan_id,
        held.batch,
        held.owner,
    )
