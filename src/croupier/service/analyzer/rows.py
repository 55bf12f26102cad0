"""The analyzer's rows as values: plans, models, batches that were learnt from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.analyzer import Analyzer
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.storage.columns import array_of, bytes_of, read_plan
from croupier.service.storage.database import Row, Transaction
from croupier.service.storage.progress import NO_DIGEST, Position

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PublishedModel:
    """The newest model after a batch, as a value and as the document that was published.

    ``next_batch`` is the index of the batch that reports are now for, None after the last.
    """

    model: Model
    document: str
    next_batch: int | None


@dataclass(frozen=True)
class ReceivedBatch:
    """A batch that came: which one, made with which model, and the digest of its bytes."""

    plan: Plan
    index: int
    model_hash: str
    digest: bytes


@dataclass(frozen=True)
class PlanProgress:
    """How far a plan is: the next batch, eigenvalues raised and counts clipped so far."""

    batch: int
    repairs: int
    clipped: int


# Plans and models


def insert_plan(transaction: Transaction, plan: Plan) -> bool:
    """Whether the plan is new."""
    rows = transaction.execute(
        "INSERT INTO plans (id, document, batch) VALUES (?, ?, 0) ON CONFLICT (id) DO NOTHING",
        plan.id,
        plan.to_json(),
    )
    return rows == 1


def read_plan_document(transaction: Transaction, plan_id: str) -> str:
    """The text of a plan as it was opened."""
    row = transaction.one("SELECT document FROM plans WHERE id = ?", plan_id)
    return str(_require_row(plan_id, row)[0])


def read_opened_plan(transaction: Transaction, plan_id: str) -> Plan:
    """The plan as it was opened."""
    return read_plan(read_plan_document(transaction, plan_id))


_PROGRESS = "SELECT batch, repairs, clipped FROM plans WHERE id = ?"


def read_progress(transaction: Transaction, plan_id: str) -> PlanProgress:
    """How far the plan is."""
    return PlanProgress(*_require_row(plan_id, transaction.one(_PROGRESS, plan_id)))


def read_position(transaction: Transaction, plan_id: str) -> Position | None:
    """How far a plan has come, and with which model; None if it has not begun."""
    row = transaction.one(_PROGRESS, plan_id)
    if row is None:
        return None
    newest = transaction.one(
        "SELECT hash FROM models WHERE plan = ? ORDER BY version DESC LIMIT 1", plan_id
    )
    return Position(row[0], digest=bytes.fromhex(newest[0]) if newest else NO_DIGEST)


def lock_plan(transaction: Transaction, plan_id: str) -> PlanProgress:
    """The same; nobody else learns for this plan until we are done."""
    return PlanProgress(*_require_row(plan_id, transaction.one(_PROGRESS + " FOR UPDATE", plan_id)))


def _require_row(plan_id: str, row: Row | None) -> Row:
    if row is None:
        raise Refusal(Reason.WRONG_PLAN, plan_id)
    return row


def store_model(transaction: Transaction, model: Model, document: str) -> None:
    """A new model, under its version and hash."""
    transaction.execute(
        "INSERT INTO models (plan, version, hash, model, document) VALUES (?, ?, ?, ?, ?)",
        model.plan_id,
        model.version,
        model.hash,
        model.to_json(),
        document,
    )


def read_newest_model(transaction: Transaction, plan: Plan) -> PublishedModel:
    """The newest model and the batch that is next."""
    row = transaction.one(
        "SELECT version FROM models WHERE plan = ? ORDER BY version DESC LIMIT 1", plan.id
    )
    (version,) = _require_row(plan.id, row)
    return _read_published(transaction, plan, version, read_progress(transaction, plan.id).batch)


def sign_newest_again(transaction: Transaction, sign: Callable[[str], str]) -> None:
    """Replace the signature of every plan's newest model."""
    for plan_id, version, document in transaction.all(
        """
        SELECT plan, version, document FROM models AS one
        WHERE version = (SELECT MAX(version) FROM models WHERE plan = one.plan)
        """
    ):
        signed = sign(document)
        if signed != document:
            transaction.execute(
                "UPDATE models SET document = ? WHERE plan = ? AND version = ?",
                signed,
                plan_id,
                version,
            )


def _read_published(
    transaction: Transaction, plan: Plan, version: int, batch: int
) -> PublishedModel:
    row = transaction.one(
        "SELECT model, document FROM models WHERE plan = ? AND version = ?", plan.id, version
    )
    model, document = _require_row(plan.id, row)
    next_batch = batch if batch < plan.schedule.batches else None
    return PublishedModel(Model.from_json(model), document, next_batch)


# Batches


def read_answer(transaction: Transaction, arrival: ReceivedBatch) -> PublishedModel | None:
    """What was answered for this batch; None if it is the one to learn from now."""
    row = transaction.one(
        "SELECT digest, version FROM batches WHERE plan = ? AND batch = ?",
        arrival.plan.id,
        arrival.index,
    )
    if row is None:
        _require_next(transaction, arrival)
        return None
    digest, version = row
    if bytes(digest) != arrival.digest:
        raise Refusal(Reason.ID_CONFLICT, f"batch {arrival.index} came with other bytes before")
    if version is None:
        return None
    return _read_published(transaction, arrival.plan, version, arrival.index + 1)


def _require_next(transaction: Transaction, arrival: ReceivedBatch) -> None:
    """Refuse a batch that is not the next one of its plan."""
    batches = arrival.plan.schedule.batches
    if arrival.index >= batches:
        raise Refusal(Reason.PLAN_ENDED, f"batch {arrival.index} came, there are {batches}")
    now = read_newest_model(transaction, arrival.plan)
    if arrival.index != now.next_batch:
        raise Refusal(Reason.STALE_BATCH, f"batch {arrival.index} came, {now.next_batch} is next")
    if arrival.model_hash != now.model.hash:
        raise Refusal(Reason.STALE_MODEL, f"{arrival.model_hash} came, newest is {now.model.hash}")


def store_sums(
    transaction: Transaction, arrival: ReceivedBatch, released: Floats, version: int, repairs: int
) -> None:
    """What was analysed, and which model is the newest after it."""
    transaction.execute(
        """
        INSERT INTO batches (plan, batch, digest, sums, version) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (plan, batch) DO UPDATE SET sums = excluded.sums, version = excluded.version
        """,
        arrival.plan.id,
        arrival.index,
        arrival.digest,
        bytes_of(released),
        version,
    )
    transaction.execute(
        "UPDATE plans SET batch = ?, repairs = ?, renew = 0 WHERE id = ?",
        arrival.index + 1,
        repairs,
        arrival.plan.id,
    )


def read_sums(transaction: Transaction, plan_id: str) -> list[Floats]:
    """What was analysed from every batch, in order."""
    rows = transaction.all(
        "SELECT sums FROM batches WHERE plan = ? AND sums IS NOT NULL ORDER BY batch", plan_id
    )
    return [array_of(bytes(content)) for (content,) in rows]


def read_left_out(transaction: Transaction, plan_id: str) -> frozenset[int]:
    """Batches that are charged and not learnt from."""
    out = "SELECT batch FROM batches WHERE plan = ? AND standing <> 'in'"
    return frozenset(batch for (batch,) in transaction.all(out, plan_id))


def require_renewal(transaction: Transaction, plan_id: str) -> None:
    """Other batches are learnt from than before, so that a model follows the next one."""
    transaction.execute("UPDATE plans SET renew = 1 WHERE id = ?", plan_id)


def is_renewal_due(transaction: Transaction, plan_id: str) -> bool:
    """Whether that is so and no batch has come since."""
    return transaction.one("SELECT renew FROM plans WHERE id = ?", plan_id) == (1,)


def resume_analyzer(transaction: Transaction, plan: Plan) -> Analyzer:
    """The role as it was after the last batch that came."""
    model = read_newest_model(transaction, plan).model
    repairs = read_progress(transaction, plan.id).repairs
    out = read_left_out(transaction, plan.id)
    return Analyzer.resume(plan, read_sums(transaction, plan.id), model, repairs, out)
