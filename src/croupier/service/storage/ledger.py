"""The append-only ledger of a plan: what was released, each entry bound to the one before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from croupier.documents import guarantee_document
from croupier.errors import DocumentError
from croupier.model import canonical
from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.signed_documents import LedgerEntry, verify_chain
from croupier.service.storage import dropped_attempts
from croupier.service.storage.database import Transaction


def charge_batch(
    transaction: Transaction, plan: Plan, batch: int, model_hash: str, digest: bytes
) -> LedgerEntry:
    """Append the entry of the next batch; one out of turn or after the plan's last is refused.

    Attempts at the batch that were dropped are named in it: they cost nothing.
    """
    entries = read_ledger(transaction, plan.id)
    if len(entries) >= plan.schedule.batches:
        raise Refusal(Reason.PLAN_ENDED, f"all {len(entries)} batches of {plan.id} are charged")
    if batch != len(entries):
        raise Refusal(Reason.STALE_BATCH, f"batch {batch} came, {len(entries)} is to be charged")
    previous = entries[-1].hash if entries else ""
    dropped = dropped_attempts.read_digests(transaction, plan.id, batch)
    entry = _make_entry(plan, batch, model_hash, digest, dropped, previous)
    transaction.execute(
        "INSERT INTO ledger (plan, batch, entry, hash) VALUES (?, ?, ?, ?)",
        plan.id,
        batch,
        canonical(entry.content).decode(),
        entry.hash,
    )
    return entry


def _make_entry(
    plan: Plan,
    batch: int,
    model_hash: str,
    digest: bytes,
    dropped: Sequence[bytes],
    previous: str,
) -> LedgerEntry:
    cost = _batch_cost(plan)
    return LedgerEntry(
        sequence=batch,
        plan=plan.id,
        batch=batch,
        users=plan.users(batch),
        model_hash=model_hash,
        digest=digest.hex(),
        mu=cost["mu"],
        epsilon=cost["epsilon"],
        delta=cost["delta"],
        method="; ".join([cost["method"], *map(_describe_dropped, dropped)]),
        previous=previous,
    )


def _describe_dropped(digest: bytes) -> str:
    return f"dropped before it, nothing released: {digest.hex()}"


@lru_cache(maxsize=64)
def _batch_cost(plan: Plan) -> dict[str, Any]:
    """What one batch is worth to a user in it; it takes long to compute and never changes."""
    return guarantee_document(plan.promise_for(1), plan.budget.delta if plan.budget else None)


def read_ledger(transaction: Transaction, plan_id: str) -> list[LedgerEntry]:
    """Every entry of a plan, the chain verified."""
    rows = transaction.all("SELECT entry, hash FROM ledger WHERE plan = ? ORDER BY batch", plan_id)
    entries = [LedgerEntry.from_content(json.loads(text)) for text, _ in rows]
    if [entry.hash for entry in entries] != [claimed for _, claimed in rows]:
        raise DocumentError(f"an entry in the ledger of {plan_id} was altered")
    verify_chain(entries)
    return entries
