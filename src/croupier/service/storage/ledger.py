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
from croupier.service.storage.database import Row, Transaction


def charge_batch(
    transaction: Transaction, plan: Plan, batch: int, model_hash: str, digest: bytes
) -> LedgerEntry:
    """Append the entry of the next batch; one out of turn or after the plan's last is refused.

    Attempts at the batch that were dropped are named in it: they cost nothing.
    """
    last = read_last_entries(transaction, plan.id, 1)
    charged, previous = (last[0].sequence + 1, last[0].hash) if last else (0, "")
    if charged >= plan.schedule.batches:
        raise Refusal(Reason.PLAN_ENDED, f"all {charged} batches of {plan.id} are charged")
    if batch != charged:
        raise Refusal(Reason.STALE_BATCH, f"batch {batch} came, {charged} is to be charged")
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


def read_last_entries(transaction: Transaction, plan_id: str, most: int) -> list[LedgerEntry]:
    """The last entries of a plan, in order."""
    last = "SELECT entry, hash FROM ledger WHERE plan = ? ORDER BY batch DESC LIMIT ?"
    return _read_entries(transaction.all(last, plan_id, most)[::-1], plan_id)


def read_ledger(transaction: Transaction, plan_id: str) -> list[LedgerEntry]:
    """Every entry of a plan, the chain verified."""
    rows = transaction.all("SELECT entry, hash FROM ledger WHERE plan = ? ORDER BY batch", plan_id)
    entries = _read_entries(rows, plan_id)
    verify_chain(entries)
    return entries


def _read_entries(rows: Sequence[Row], plan_id: str) -> list[LedgerEntry]:
    """Entries with the hashes that they were stored with."""
    entries = [LedgerEntry.from_content(json.loads(text)) for text, _ in rows]
    if [entry.hash for entry in entries] != [claimed for _, claimed in rows]:
        raise DocumentError(f"an entry in the ledger of {plan_id} was altered")
    return entries
