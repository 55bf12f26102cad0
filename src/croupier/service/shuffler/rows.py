"""The shuffler's rows as values: the state of a plan and of a batch, read and locked."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.sealing import NO_PUBLIC_KEY, Binding
from croupier.service.storage.columns import read_plan
from croupier.service.storage.database import Row, Transaction
from croupier.wire import Transport


class BatchState(StrEnum):
    """A batch's life. It goes back to open only if nothing of it can be released any more."""

    OPEN = "open"
    SEALED = "sealed"
    RELEASED = "released"
    ACKNOWLEDGED = "acknowledged"
    SCRUBBED = "scrubbed"


@dataclass(frozen=True)
class Basis:
    """What reports of a batch are made with: the newest model, and the key for inner seals."""

    model_version: int
    model_hash: str
    inner_key: bytes = NO_PUBLIC_KEY


@dataclass(frozen=True)
class PlanRow:
    """A plan on the shuffler; ``batch`` is the newest, ``key`` empty once handed on."""

    id: str
    batch: int
    ended: bool
    predecessor: str | None
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class BatchRow:
    """A batch on the shuffler; ``key`` is empty from the seal on.

    ``inner_key`` is the raw public key of the analyzer that rows are sealed for, zeros if none.
    ``attempt`` is how often the batch was emptied and begun again.
    """

    plan_id: str
    index: int
    state: BatchState
    size: int
    filled: int
    padded: int
    dropped: int
    model_version: int
    model_hash: str
    inner_key: bytes
    key: bytes = field(repr=False)
    attempt: int = 0

    @property
    def room(self) -> int:
        """Reports that are missing."""
        return self.size - self.filled

    def binding(self, transport: Transport) -> Binding:
        """What reports for the batch are bound to."""
        return Binding(
            transport,
            self.plan_id,
            self.index,
            self.model_version,
            self.model_hash,
            self.inner_key,
        )


@dataclass(frozen=True)
class ReleasedBatch:
    """A released batch, byte for byte the same whenever it is asked for."""

    plan_id: str
    batch: int
    body: bytes
    signature: str
    attempt: int = 0


_PLAN = "SELECT id, batch, ended, predecessor, plan_key FROM plans WHERE id = ?"

_BATCH = """
SELECT plan, batch, state, size, filled, padded, dropped, model_version, model_hash, inner_key,
    batch_key, attempt
FROM batches WHERE plan = ? AND batch = ?
"""


def is_known(transaction: Transaction, plan_id: str) -> bool:
    """Whether the plan was opened here."""
    return transaction.one(_PLAN, plan_id) is not None


def read_opened_plan(transaction: Transaction, plan_id: str) -> Plan:
    """The plan as it was opened."""
    row = transaction.one("SELECT document FROM plans WHERE id = ?", plan_id)
    if row is None:
        raise Refusal(Reason.WRONG_PLAN, plan_id)
    return read_plan(row[0])


def read_plan_row(transaction: Transaction, plan_id: str) -> PlanRow:
    """The plan as it is now."""
    return _plan_row(_require_row(plan_id, transaction.one(_PLAN, plan_id)))


def read_lineage(transaction: Transaction, plan_id: str) -> list[Plan]:
    """The plan and all that it succeeds, the newest first."""
    before = read_plan_row(transaction, plan_id).predecessor
    earlier = [] if before is None else read_lineage(transaction, before)
    return [read_opened_plan(transaction, plan_id), *earlier]


def lock_plan(transaction: Transaction, plan_id: str) -> PlanRow:
    """The plan as it is now; nobody else changes anything of it until we are done."""
    return _plan_row(_require_row(plan_id, transaction.one(_PLAN + " FOR UPDATE", plan_id)))


def read_batch(transaction: Transaction, plan_id: str, index: int) -> BatchRow:
    """A batch as it is now."""
    row = transaction.one(_BATCH, plan_id, index)
    if row is None:
        raise Refusal(Reason.STALE_BATCH, f"batch {index} of {plan_id} has not been opened")
    name, number, state, size, filled, padded, dropped, version, model_hash, *keys, attempt = row
    counts = size, filled, padded, dropped
    inner_key, key = (bytes(one or b"") for one in keys)
    made = (name, number, BatchState(state), *counts, version, model_hash, inner_key, key, attempt)
    return BatchRow(*made)


def read_newest_batch(transaction: Transaction, plan_id: str) -> BatchRow:
    """The newest batch of a plan."""
    return read_batch(transaction, plan_id, read_plan_row(transaction, plan_id).batch)


def lock_newest_batch(transaction: Transaction, plan_id: str) -> BatchRow:
    """The newest batch of a plan that nobody else changes until we are done."""
    return read_batch(transaction, plan_id, lock_plan(transaction, plan_id).batch)


def _require_row(plan_id: str, row: Row | None) -> Row:
    if row is None:
        raise Refusal(Reason.WRONG_PLAN, plan_id)
    return row


def _plan_row(row: Row) -> PlanRow:
    name, batch, ended, predecessor, key = row
    return PlanRow(name, batch, bool(ended), predecessor, bytes(key or b""))
