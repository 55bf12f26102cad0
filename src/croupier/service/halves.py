"""Batches of shares on the analyzer: one set of reports decided on, one pair of halves joined."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier import wire
from croupier.client import deployable
from croupier.errors import RefusedError
from croupier.plan import Plan
from croupier.protocols.base import AdditiveRelease
from croupier.service import lessons
from croupier.service.database import Transaction
from croupier.service.lessons import Arrival, Floats, Published
from croupier.service.reasons import Reason, Refusal
from croupier.service.shares import Words, combine


def decided(transaction: Transaction, arrival: Arrival) -> bytes | None:
    """The set that was decided on, as flags; None if this batch is the one to decide on now."""
    lessons.answered(transaction, arrival)
    row = transaction.one(
        "SELECT opened FROM batches WHERE plan = ? AND batch = ?", arrival.plan.id, arrival.index
    )
    return None if row is None else bytes(row[0])


def decide(transaction: Transaction, arrival: Arrival, opened: bytes, tally: Words) -> None:
    """Keep the set, and the sum of our halves over it."""
    transaction.execute(
        """
        INSERT INTO batches (plan, batch, digest, model_hash, opened, tally)
        VALUES (?, ?, ?, ?, ?, ?)
        """,
        arrival.plan.id,
        arrival.index,
        arrival.digest,
        arrival.model_hash,
        opened,
        wire.encode_words(tally),
    )


@dataclass(frozen=True)
class Half:
    """Our half of a batch, over the ``users`` whose reports opened."""

    arrival: Arrival
    users: int
    tally: Words
    share_digest: bytes | None

    def counts(self, share: bytes) -> tuple[NDArray[np.int64], int]:
        """The batch's counts, and how many had to be brought back into their range.

        Without a range check on reports, one of them can put any number anywhere. Clipped, a bad
        report spoils no more than its own batch, and stops none.
        """
        found = combine(self.tally, wire.decode_words(share, self.tally.size))
        inside = np.clip(found, 0, self.users * self._most)
        return inside, int(np.count_nonzero(inside != found))

    def sums(self, counts: NDArray[np.int64]) -> Floats:
        """The batch's sums."""
        return self._release.settle(counts, self.users)

    @property
    def _most(self) -> NDArray[np.int64]:
        """The counts of a report of ones."""
        shapes = self.arrival.plan.shapes(self.arrival.index)
        ones = {channel: np.ones(shape, kind) for channel, (shape, kind) in shapes.items()}
        return self._release.tally(ones)

    @property
    def _release(self) -> AdditiveRelease:
        plan = self.arrival.plan
        release = deployable(plan).release(self.arrival.index)
        if not isinstance(release, AdditiveRelease):
            raise RefusedError(f"reports of {plan.protocol} cannot be split into shares")
        return release


def half(transaction: Transaction, plan: Plan, index: int) -> Half:
    """Our half of a batch whose set was decided."""
    row = transaction.one(
        """
        SELECT digest, model_hash, opened, tally, share_digest FROM batches
        WHERE plan = ? AND batch = ? AND opened IS NOT NULL
        """,
        plan.id,
        index,
    )
    if row is None:
        raise Refusal(Reason.STALE_BATCH, f"no set of reports was decided on for batch {index}")
    digest, model_hash, opened, tally, share_digest = row
    users = int(wire.decode_flags(bytes(opened), plan.users(index)).sum())
    words = wire.decode_words(bytes(tally), len(tally) // 4)
    arrival = Arrival(plan, index, model_hash, bytes(digest))
    return Half(arrival, users, words, None if share_digest is None else bytes(share_digest))


def settled(transaction: Transaction, ours: Half, share: bytes) -> Published | None:
    """What was answered for these two halves; None if they are to be joined now."""
    if ours.share_digest is None:
        return None
    if ours.share_digest != hashlib.sha256(share).digest():
        raise Refusal(Reason.ID_CONFLICT, "the other half came with other bytes before")
    return lessons.answered(transaction, ours.arrival)


def settle(transaction: Transaction, ours: Half, share: bytes) -> Floats:
    """Join the halves; the batch's sums."""
    counts, clipped = ours.counts(share)
    plan_id = ours.arrival.plan.id
    transaction.execute(
        "UPDATE batches SET share_digest = ? WHERE plan = ? AND batch = ?",
        hashlib.sha256(share).digest(),
        plan_id,
        ours.arrival.index,
    )
    transaction.execute("UPDATE plans SET clipped = clipped + ? WHERE id = ?", clipped, plan_id)
    return ours.sums(counts)
