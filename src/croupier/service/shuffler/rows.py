"""The shuffler's rows as values: the state of a plan and of a batch, read and locked."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.sealing import NO_PUBLIC_KEY, Binding
from croupier.service.storage.columns import read_plan
from croupier.service.storage.database import Row, Transaction
from croupier.service.storage.progress import NO_DIGEST, Position
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


_STEPS = list(BatchState)


@dataclass(frozen=True)
class BatchRow:
    """A batch on the shuffler.

    ``inner_key`` is the raw public key of the analyzer that rows are sealed for, zeros if none.
    ``attempt`` is how often the batch was emptied and begun again, ``newcomers`` how many accounts
    are in it that the plan had never counted, where that has a limit. ``digest`` is that of what
    was made of it, from the seal on; of shares, with that of the sum once it is ``added_up``.
    ``key_prints`` are of the keys that its reports are under, from the first one on.
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
    attempt: int = 0
    newcomers: int = 0
    digest: bytes = NO_DIGEST
    added_up: bool = False
    key_prints: bytes = b""

    @property
    def room(self) -> int:
        """Reports that are missing."""
        return self.size - self.filled

    @property
    def is_open(self) -> bool:
        """Whether its reports are still kept one by one."""
        return self.state is BatchState.OPEN

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is kept any more."""
        return self.state is BatchState.SCRUBBED

    @property
    def stage(self) -> tuple[str, int, int, BatchState]:
        """Which batch and attempt it is, and how far it has come; not how full it is."""
        return self.plan_id, self.index, self.attempt, self.state

    @property
    def position(self) -> Position:
        """How far it has come, to be noted outside of the database."""
        step = 2 * _STEPS.index(self.state) + self.added_up
        place = self.index, self.attempt, step
        return Position(*place, self.filled) if self.is_open else Position(*place, 0, self.digest)

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
    attempt, newcomers, digest, added_up, key_prints
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
    name, number, state, size, filled, padded, dropped, version, model_hash, inner, *more = row
    attempt, newcomers, digest, added_up, prints = more
    counts = size, filled, padded, dropped
    made = (name, number, BatchState(state), *counts, version, model_hash, bytes(inner), attempt)
    later = bytes(digest or NO_DIGEST), bool(added_up), bytes(prints or b"")
    return BatchRow(*made, newcomers, *later)


def read_newest_batch(transaction: Transaction, plan_id: str) -> BatchRow:
    """The newest batch of a plan."""
    return read_batch(transaction, plan_id, read_plan_row(transaction, plan_id).batch)


def read_position(transaction: Transaction, plan_id: str) -> Position | None:
    """How far a plan has come; None if it has not begun."""
    if not is_known(transaction, plan_id):
        return None
    return read_newest_batch(transaction, plan_id).position


@dataclass(frozen=True)
class PlanOnItsWay:
    """A plan's newest batch, and all of which something is still kept."""

    newest: BatchRow
    kept: tuple[BatchRow, ...]
    ended: bool

    @property
    def stage(self) -> tuple[tuple[str, int, int, BatchState], bool]:
        """Where it is, for as long as nothing is to be forgotten."""
        return self.newest.stage, self.ended


def read_plans_on_their_way(transaction: Transaction) -> list[PlanOnItsWay]:
    """Every plan, in order of id."""
    plans = [name for (name,) in transaction.all("SELECT id FROM plans ORDER BY id")]
    return [_read_on_its_way(transaction, read_plan_row(transaction, name)) for name in plans]


def _read_on_its_way(transaction: Transaction, plan: PlanRow) -> PlanOnItsWay:
    newest = read_batch(transaction, plan.id, plan.batch)
    return PlanOnItsWay(newest, tuple(_read_kept(transaction, plan.id)), plan.ended)


def _read_kept(transaction: Transaction, plan_id: str) -> list[BatchRow]:
    kept = "SELECT batch FROM batches WHERE plan = ? AND state <> 'scrubbed'"
    return [read_batch(transaction, plan_id, index) for (index,) in transaction.all(kept, plan_id)]


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
