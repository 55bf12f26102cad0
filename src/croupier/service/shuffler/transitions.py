"""The steps of a batch's life, each as the statements of one transaction over a locked plan."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from croupier import wire
from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import released_counts
from croupier.service.shuffler import attempts, plan_lifecycle
from croupier.service.shuffler.account_marks import MARK
from croupier.service.shuffler.batch_keys import BatchKey
from croupier.service.shuffler.rows import Basis, BatchRow, BatchState, ReleasedBatch
from croupier.service.shuffler.shuffling import Held, write_held
from croupier.service.storage import ledger
from croupier.service.storage.database import Database, DatabaseError, Row, Transaction

MODULUS = 2**32
"""Masks are 32-bit words."""

PAGE = 2048
"""Reports in memory at once while a batch is sealed."""


@dataclass(frozen=True)
class StoredShares:
    """What is stored of a batch whose reports are shared: ``seeds`` until ``share`` is released."""

    attempt: int
    seeds: bytes | None
    opened: bytes | None
    share: bytes | None


def read_contents(
    database: Database, batch: BatchRow, key: BatchKey
) -> Iterator[tuple[bytes, bytes]]:
    """The reports of a complete batch by and by: account mark and payload, ordered by keyed ids.

    An order that says nothing: ids are random, and stored under a key of the batch.
    """
    last = b""
    while rows := _read_page(database, batch, last):
        last = bytes(rows[-1][0])
        for _, content in rows:
            plain = key.decrypt(bytes(content))
            yield plain[:MARK], plain[MARK:]


def _read_page(database: Database, batch: BatchRow, after: bytes) -> list[Row]:
    with database.reading() as transaction:
        return transaction.all(
            """
            SELECT id, content FROM reports
            WHERE plan = ? AND batch = ? AND id > ? AND content IS NOT NULL
            ORDER BY id LIMIT ?
            """,
            batch.plan_id,
            batch.index,
            after,
            PAGE,
        )


@dataclass(frozen=True)
class SealedBatch:
    """What is made of a complete batch: bytes, channels that stay open, and who takes part.

    ``seeds`` are encrypted already. Accounts are in the order of their marks, which is random.
    """

    body: bytes
    seeds: bytes | None
    held: Held
    accounts: tuple[bytes, ...]


def seal_batch(transaction: Transaction, batch: BatchRow, made: SealedBatch) -> None:
    """Close a complete batch: what was made of it stays, single reports go.

    Participations are written all at once, in an order that says nothing.
    """
    _require_complete(transaction, batch)
    where = (batch.plan_id, batch.index)
    transaction.execute(
        """
        UPDATE batches SET state = 'sealed', body = ?, digest = ?, seeds = ?
        WHERE plan = ? AND batch = ?
        """,
        made.body,
        hashlib.sha256(made.body).digest(),
        made.seeds,
        *where,
    )
    transaction.execute(
        "UPDATE reports SET content = NULL, user_mac = NULL WHERE plan = ? AND batch = ?", *where
    )
    write_held(transaction, batch.plan_id, made.held)
    if made.seeds is None:
        attempts.count_participations(transaction, batch.plan_id, made.accounts)
    else:
        attempts.note_participants(transaction, batch, made.accounts)


def _require_complete(transaction: Transaction, batch: BatchRow) -> None:
    """The rows are counted, whatever the batch says of itself."""
    rows = transaction.all(
        "SELECT count(content) FROM reports WHERE plan = ? AND batch = ?",
        batch.plan_id,
        batch.index,
    )
    if rows != [(batch.size,)]:
        found = f"batch {batch.index} of {batch.plan_id} has {rows[0][0]} reports"
        raise DatabaseError(f"{found}, not {batch.size}")


def release_batch(transaction: Transaction, plan: Plan, batch: BatchRow, signature: str) -> None:
    """Charge a sealed batch and sign it.

    Shares say nothing without their masks, so that these are what is charged.
    """
    if not _has_seeds(transaction, batch):
        _charge_batch(transaction, plan, batch, read_body(transaction, batch))
    transaction.execute(
        "UPDATE batches SET state = 'released', signature = ? WHERE plan = ? AND batch = ?",
        signature,
        plan.id,
        batch.index,
    )


def _has_seeds(transaction: Transaction, batch: BatchRow) -> bool:
    seeds = "SELECT 1 FROM batches WHERE plan = ? AND batch = ? AND seeds IS NOT NULL"
    return transaction.one(seeds, batch.plan_id, batch.index) is not None


def _charge_batch(transaction: Transaction, plan: Plan, batch: BatchRow, body: bytes) -> None:
    digest = hashlib.sha256(body).digest()
    ledger.charge_batch(transaction, plan, batch.index, batch.model_hash, digest)


def read_body(transaction: Transaction, batch: BatchRow) -> bytes:
    """The bytes for the analyzer, from the seal on."""
    return _read_handed_on(transaction, batch)[0]


def read_released(transaction: Transaction, batch: BatchRow) -> ReleasedBatch:
    """The same once they are signed and charged."""
    body, signature, attempt = _read_handed_on(transaction, batch)
    if signature is None:
        raise Refusal(Reason.STALE_BATCH, f"batch {batch.index} was begun again since")
    return ReleasedBatch(batch.plan_id, batch.index, body, signature, attempt)


def _read_handed_on(transaction: Transaction, batch: BatchRow) -> tuple[bytes, str | None, int]:
    row = transaction.one(
        "SELECT body, signature, attempt FROM batches WHERE plan = ? AND batch = ?",
        batch.plan_id,
        batch.index,
    )
    if row is None or row[0] is None:
        raise Refusal(Reason.STALE_BATCH, f"batch {batch.index} is {batch.state}")
    return bytes(row[0]), row[1], row[2]


# Shares


def read_shares(transaction: Transaction, plan_id: str, index: int, attempt: int) -> StoredShares:
    """The shuffler's side of a batch of shares, if it is still at that attempt."""
    row = transaction.one(
        "SELECT attempt, seeds, opened, share FROM batches WHERE plan = ? AND batch = ?",
        plan_id,
        index,
    )
    if row is None or (row[1] is None and row[3] is None):
        raise Refusal(Reason.STALE_BATCH, f"batch {index} has no shares to add up")
    if row[0] != attempt:
        raise Refusal(Reason.STALE_BATCH, f"batch {index} was begun again since")
    return StoredShares(attempt, *(None if part is None else bytes(part) for part in row[1:]))


def require_same_set(found: StoredShares, opened: bytes) -> bytes:
    """The sum that was released; two sums over different sets would show their difference."""
    if found.share is None or found.opened != opened:
        raise Refusal(Reason.ID_CONFLICT, "the sum over another set of reports was released")
    return found.share


def release_share_sum(
    transaction: Transaction, plan: Plan, batch: BatchRow, opened: bytes, masks: bytes
) -> bytes:
    """Release one sum of every mask that closes, charge it, and forget the seeds.

    The other masks are added to those of the batches before, and are released with none alone.
    """
    counted = released_counts.additive_release(plan, batch.index).counted
    total = _add_waiting_masks(transaction, plan.id, counted, masks)
    closing = released_counts.closing_channels(plan, batch.index)
    share = wire.encode_words(np.array([total.pop(name) for name in closing], np.uint32))
    _store_waiting_masks(transaction, plan.id, total)
    _charge_batch(transaction, plan, batch, read_body(transaction, batch))
    attempts.count_participants(transaction, plan.id, batch.index)
    transaction.execute(
        """
        UPDATE batches SET opened = ?, share = ?, digest = ?, seeds = NULL, added_up = 1
        WHERE plan = ? AND batch = ?
        """,
        opened,
        share,
        hashlib.sha256(batch.digest + opened + share).digest(),
        plan.id,
        batch.index,
    )
    return share


def _add_waiting_masks(
    transaction: Transaction, plan_id: str, counted: Sequence[str], masks: bytes
) -> dict[str, int]:
    """The masks of a batch by channel, with those that wait for the same channels."""
    rows = transaction.all("SELECT channel, mask FROM masks WHERE plan = ?", plan_id)
    waiting = {str(channel): int(mask) for channel, mask in rows}
    words = wire.decode_words(masks, len(counted)).tolist()
    own = zip(counted, words, strict=True)
    return waiting | {name: (waiting.get(name, 0) + word) % MODULUS for name, word in own}


def _store_waiting_masks(transaction: Transaction, plan_id: str, masks: Mapping[str, int]) -> None:
    """These masks are of channels that are still open."""
    transaction.execute("DELETE FROM masks WHERE plan = ?", plan_id)
    transaction.many(
        "INSERT INTO masks (plan, channel, mask) VALUES (?, ?, ?)",
        [(plan_id, channel, mask) for channel, mask in masks.items()],
    )


def acknowledge_batch(transaction: Transaction, plan: Plan, batch: BatchRow, basis: Basis) -> None:
    """Note what the analyzer learnt from a released batch; open the next batch or end the plan."""
    _check_acknowledgement(transaction, batch, basis)
    transaction.execute(
        """
        UPDATE batches SET state = 'acknowledged', next_version = ?, next_hash = ?
        WHERE plan = ? AND batch = ?
        """,
        basis.model_version,
        basis.model_hash,
        plan.id,
        batch.index,
    )
    if batch.index + 1 < plan.schedule.batches:
        plan_lifecycle.open_next_batch(transaction, plan, batch.index + 1, basis)
    else:
        plan_lifecycle.end_plan(transaction, plan.id)


def _check_acknowledgement(transaction: Transaction, batch: BatchRow, basis: Basis) -> None:
    if batch.state is not BatchState.RELEASED:
        raise Refusal(Reason.STALE_BATCH, f"batch {batch.index} is {batch.state}")
    if _has_seeds(transaction, batch):
        raise Refusal(Reason.BATCH_CLOSED, f"the shares of batch {batch.index} are not added up")
    version, before = basis.model_version, batch.model_version
    unchanged = (version, basis.model_hash) == (before, batch.model_hash)
    if not unchanged and not before < version <= batch.index + 1:
        raise Refusal(Reason.STALE_MODEL, f"version {version} cannot follow {before}")


def was_acknowledged(transaction: Transaction, batch: BatchRow, basis: Basis) -> bool:
    """Whether it was acknowledged with this model; with another one is refused."""
    if batch.state not in {BatchState.ACKNOWLEDGED, BatchState.SCRUBBED}:
        return False
    row = transaction.one(
        "SELECT next_version, next_hash FROM batches WHERE plan = ? AND batch = ?",
        batch.plan_id,
        batch.index,
    )
    if row != (basis.model_version, basis.model_hash):
        raise Refusal(Reason.ID_CONFLICT, f"batch {batch.index} led to another model")
    return True


def scrub_batches(transaction: Transaction, plan_id: str) -> int:
    """Delete payloads, ids, marks and bytes of acknowledged batches; how many batches."""
    done = "SELECT batch FROM batches WHERE plan = ? AND state = 'acknowledged'"
    for (index,) in transaction.all(done, plan_id):
        transaction.execute("DELETE FROM reports WHERE plan = ? AND batch = ?", plan_id, index)
    return transaction.execute(
        """
        UPDATE batches SET state = 'scrubbed', body = NULL, signature = NULL, opened = NULL,
            share = NULL, lease_owner = NULL, lease_until = 0
        WHERE plan = ? AND state = 'acknowledged'
        """,
        plan_id,
    )
