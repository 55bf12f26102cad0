"""How a plan begins, ends and is succeeded on the shuffler."""

from __future__ import annotations

import secrets

from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.shuffler.rows import (
    Basis,
    BatchRow,
    BatchState,
    lock_newest_batch,
    lock_plan,
    read_batch,
)
from croupier.service.storage.database import Transaction

KEY_BYTES = 32


def open_plan(transaction: Transaction, plan: Plan, basis: Basis) -> None:
    """Begin a plan with its first model; again with the same model changes nothing."""
    begun = _insert_plan(transaction, plan, secrets.token_bytes(KEY_BYTES), None)
    if begun:
        open_next_batch(transaction, plan, 0, basis)
        return
    first = read_batch(transaction, plan.id, 0)
    if (first.model_version, first.model_hash) != (basis.model_version, basis.model_hash):
        raise Refusal(Reason.ID_CONFLICT, f"{plan.id} began with model {first.model_hash}")


def open_next_batch(transaction: Transaction, plan: Plan, index: int, basis: Basis) -> None:
    """The plan's next batch, empty."""
    transaction.execute(
        """
        INSERT INTO batches
            (plan, batch, state, size, model_version, model_hash, inner_key)
        VALUES (?, ?, 'open', ?, ?, ?, ?)
        """,
        plan.id,
        index,
        plan.users(index),
        basis.model_version,
        basis.model_hash,
        basis.inner_key,
    )
    transaction.execute("UPDATE plans SET batch = ? WHERE id = ?", index, plan.id)


def end_plan(transaction: Transaction, plan_id: str) -> None:
    """No further batch is opened, so that channels which are still open never close."""
    transaction.execute("UPDATE plans SET ended = 1 WHERE id = ?", plan_id)
    for table in ("held", "masks", "present"):
        transaction.execute(f"DELETE FROM {table} WHERE plan = ?", plan_id)  # noqa: S608 - ours


def retire_plan(transaction: Transaction, plan_id: str, abandon: bool = False) -> int:
    """End a plan before its last batch; how many reports of its newest batch were dropped.

    Those of an open batch are never released. A batch that is on its way is given up only if that
    is asked for: what it was charged stays charged. A plan that has ended stays as it is.
    """
    if lock_plan(transaction, plan_id).ended:
        return 0
    batch, dropped = lock_newest_batch(transaction, plan_id), 0
    if batch.state in {BatchState.SEALED, BatchState.RELEASED} and not abandon:
        raise Refusal(Reason.BATCH_CLOSED, f"batch {batch.index} is {batch.state}")
    if batch.state in {BatchState.OPEN, BatchState.SEALED, BatchState.RELEASED}:
        dropped = empty_batch(transaction, batch)
        transaction.execute(
            """
            UPDATE batches SET state = 'scrubbed', body = NULL, signature = NULL,
                seeds = NULL, opened = NULL, share = NULL, lease_owner = NULL, lease_until = 0
            WHERE plan = ? AND batch = ?
            """,
            plan_id,
            batch.index,
        )
    end_plan(transaction, plan_id)
    return dropped


def empty_batch(transaction: Transaction, batch: BatchRow) -> int:
    """Drop the reports of a batch; how many were dropped."""
    where = (batch.plan_id, batch.index)
    dropped = transaction.execute("DELETE FROM reports WHERE plan = ? AND batch = ?", *where)
    transaction.execute(
        """
        UPDATE batches SET filled = 0, padded = 0, newcomers = 0, dropped = dropped + ?,
            key_prints = NULL
        WHERE plan = ? AND batch = ?
        """,
        dropped,
        *where,
    )
    return dropped


def succeed_plan(transaction: Transaction, old_id: str, plan: Plan, basis: Basis) -> None:
    """Begin the successor of an ended plan; it takes over the key and what users have spent."""
    old = lock_plan(transaction, old_id)
    if not old.ended:
        raise Refusal(Reason.BATCH_CLOSED, f"{old_id} has not ended")
    if not _insert_plan(transaction, plan, old.key, old_id):
        if lock_plan(transaction, plan.id).predecessor != old_id:
            raise Refusal(Reason.ID_CONFLICT, f"{plan.id} does not succeed {old_id}")
        return
    if not old.key:
        raise Refusal(Reason.ID_CONFLICT, f"{old_id} has another successor")
    open_next_batch(transaction, plan, 0, basis)
    transaction.execute("UPDATE participations SET plan = ? WHERE plan = ?", plan.id, old_id)
    transaction.execute("UPDATE plans SET plan_key = NULL WHERE id = ?", old_id)


def _insert_plan(transaction: Transaction, plan: Plan, key: bytes, predecessor: str | None) -> bool:
    """Whether the plan is new."""
    rows = transaction.execute(
        """
        INSERT INTO plans (id, document, plan_key, batch, predecessor) VALUES (?, ?, ?, 0, ?)
        ON CONFLICT (id) DO NOTHING
        """,
        plan.id,
        plan.to_json(),
        key,
        predecessor,
    )
    return rows == 1
