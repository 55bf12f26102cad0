"""The shuffler's machine: open, sealed, released, acknowledged, scrubbed.

A batch of shares that too few reports open of goes back from released to open, once more empty.
Each step is one transaction, and a step that was done before changes nothing and answers the
same. The machine randomises and permutes nothing itself: it drives ``croupier.shuffler``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby

from croupier import wire
from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.signed_documents import LedgerEntry
from croupier.service.messages.transports import BitsTransport, PlanTransport
from croupier.service.shuffler import acceptance, attempts, plan_lifecycle, rows, transitions
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.rows import Basis, BatchRow, BatchState, PlanRow, ReleasedBatch
from croupier.service.shuffler.shuffling import CarriedSizes, prepare_release, read_held
from croupier.service.storage import dropped_attempts, leases, ledger
from croupier.service.storage.database import Database, Transaction
from croupier.service.storage.leases import Lease


def _unsigned(_: bytes) -> str:
    return ""


class ShufflerStore:
    """Batches of any number of plans in one database; any number of processes may share it."""

    def __init__(
        self,
        database: Database,
        *,
        transport: Callable[[Plan], PlanTransport] = BitsTransport,
        sign: Callable[[bytes], str] = _unsigned,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._transport = transport
        self._sign = sign
        self._clock = clock
        self._known: dict[str, CarriedSizes] = {}

    # Plans

    def open_plan(self, plan: Plan, basis: Basis) -> None:
        """Begin a plan with its first model; again with the same model changes nothing."""
        with self._database.transaction() as transaction:
            plan_lifecycle.open_plan(transaction, plan, basis)

    def retire(self, plan_id: str, abandon: bool = False) -> int:
        """End a plan before its last batch; how many reports of its newest batch were dropped."""
        with self._database.transaction() as transaction:
            dropped = plan_lifecycle.retire_plan(transaction, plan_id, abandon)
        self._forget()
        return dropped

    def succeed(self, old_id: str, plan: Plan, basis: Basis) -> None:
        """Begin the successor of an ended plan; what users have spent is carried over."""
        with self._database.transaction() as transaction:
            plan_lifecycle.succeed_plan(transaction, old_id, plan, basis)

    def plans(self) -> list[PlanRow]:
        """Every plan, in order of id."""
        with self._database.reading() as transaction:
            found = transaction.all("SELECT id FROM plans ORDER BY id")
            return [rows.read_plan_row(transaction, plan_id) for (plan_id,) in found]

    def plan(self, plan_id: str) -> Plan:
        """The plan as it was opened."""
        with self._database.reading() as transaction:
            return self._carried_sizes(transaction, plan_id).plan

    def lineage(self, plan_id: str) -> list[Plan]:
        """The plan and all that it succeeds, the newest first."""
        with self._database.reading() as transaction:
            return rows.read_lineage(transaction, plan_id)

    def current(self, plan_id: str) -> BatchRow:
        """The newest batch of a plan."""
        with self._database.reading() as transaction:
            return rows.read_newest_batch(transaction, plan_id)

    def ledger(self, plan_id: str) -> list[LedgerEntry]:
        """What was released, the chain verified."""
        with self._database.reading() as transaction:
            return ledger.read_ledger(transaction, plan_id)

    def dropped(self, plan_id: str) -> int:
        """Attempts at batches of shares of which too few reports opened."""
        with self._database.reading() as transaction:
            return dropped_attempts.count_attempts(transaction, plan_id)

    def _forget(self) -> None:
        """After keys or reports were deleted."""
        self._database.forget("batches", "reports", "present", "masks")

    def _carried_sizes(self, transaction: Transaction, plan_id: str) -> CarriedSizes:
        """Plans never change, so each is read once."""
        if plan_id not in self._known:
            plan = rows.read_opened_plan(transaction, plan_id)
            self._known[plan_id] = CarriedSizes(plan, self._transport(plan))
        return self._known[plan_id]

    # Uploads

    def take(self, uploads: Sequence[Upload]) -> list[Reason | None]:
        """Judge the uploads in order and keep the accepted ones, all in one transaction.

        None means that the report is in, durably; it also answers identical bytes sent again.
        """
        verdicts: dict[int, Reason | None] = {}
        # Plans are locked in order of id, so that two groups never wait for each other.
        numbered = sorted(enumerate(uploads), key=lambda one: (one[1].plan_id, one[0]))
        with self._database.transaction() as transaction:
            for plan_id, group in groupby(numbered, key=lambda one: one[1].plan_id):
                numbers, sent = zip(*group, strict=True)
                found = self._take(transaction, plan_id, sent)
                verdicts |= zip(numbers, found, strict=True)
        return [verdicts[number] for number in range(len(uploads))]

    def _take(
        self, transaction: Transaction, plan_id: str, uploads: Sequence[Upload]
    ) -> list[Reason | None]:
        if not rows.is_known(transaction, plan_id):
            return [Reason.WRONG_PLAN] * len(uploads)
        sizes = self._carried_sizes(transaction, plan_id)
        return acceptance.accept_uploads(transaction, sizes, uploads)

    # Batches that stay short

    def pad(self, plan_id: str, floor: int) -> int:
        """Complete a batch of at least ``floor`` real reports with those of nobody; how many."""
        with self._database.reading() as transaction:
            before = rows.read_newest_batch(transaction, plan_id)
            sizes = self._carried_sizes(transaction, plan_id)
        if before.state is not BatchState.OPEN or before.filled < floor:
            return 0
        binding = before.binding(sizes.transport.kind)
        made = [sizes.transport.make_empty_payload(binding) for _ in range(before.room)]
        with self._database.transaction() as transaction:
            batch = rows.lock_newest_batch(transaction, plan_id)
            # Emptied in the meantime, it would stay short, or below the floor.
            fits = batch.index == before.index and batch.filled >= before.filled
            added = made[: batch.room] if fits else []
            return acceptance.add_empty_reports(transaction, batch, added)

    def drop(self, plan_id: str) -> int:
        """Empty an open batch that stays short, and begin it again; how many reports are lost."""
        with self._database.transaction() as transaction:
            batch = rows.lock_newest_batch(transaction, plan_id)
            short = batch.state is BatchState.OPEN and 0 < batch.filled < batch.size
            dropped = attempts.begin_next_attempt(transaction, batch) if short else 0
        self._forget()
        return dropped

    # Steps

    def lease(self, owner: str, seconds: float) -> Lease | None:
        """A batch that waits for a step and that nobody else works on."""
        with self._database.transaction() as transaction:
            return leases.lease_batch(transaction, owner, self._clock(), seconds)

    def give_back(self, lease: Lease) -> None:
        """End a lease early, if it is still ours."""
        with self._database.transaction() as transaction:
            leases.give_back(transaction, lease, self._clock())

    def seal(self, plan_id: str) -> bool:
        """Close the newest batch if it is complete and destroy its key; whether it is closed."""
        with self._database.transaction() as transaction:
            batch = rows.lock_newest_batch(transaction, plan_id)
            if batch.state is not BatchState.OPEN:
                return True
            if batch.room > 0:
                return False
            transitions.seal_batch(transaction, batch)
        self._forget()
        return True

    def release(self, plan_id: str) -> ReleasedBatch | None:
        """Shuffle the newest batch if it is sealed, and charge it; None if it is open.

        The work is done outside of a transaction. If two do it, the first to finish has released
        the batch, and the second answers with what the first has stored.
        """
        with self._database.reading() as transaction:
            batch = rows.read_newest_batch(transaction, plan_id)
            if batch.state is BatchState.OPEN:
                return None
            if batch.state is not BatchState.SEALED:
                return transitions.read_released(transaction, batch)
            sizes = self._carried_sizes(transaction, plan_id)
            payloads = transitions.read_payloads(transaction, batch)
            binding, held = batch.binding(sizes.transport.kind), read_held(transaction, plan_id)
            packed, held = prepare_release(sizes, binding, payloads, held)
        signature = self._sign(packed.body)
        with self._database.transaction() as transaction:
            now = rows.lock_newest_batch(transaction, plan_id)
            if (now.index, now.state, now.attempt) == (
                batch.index,
                BatchState.SEALED,
                batch.attempt,
            ):
                transitions.store_release(transaction, sizes.plan, now, packed, signature, held)
            return transitions.read_released(transaction, batch)

    def share(self, plan_id: str, index: int, opened: bytes, attempt: int = 0) -> bytes:
        """Our part of the sums over the reports that opened: for one set of a batch, ever.

        If these are too few, nothing is ever released of this attempt and the batch begins again.
        """
        with self._database.reading() as transaction:
            found = transitions.read_shares(transaction, plan_id, index, attempt)
            sizes = self._carried_sizes(transaction, plan_id)
        if found.seeds is None:
            return transitions.require_same_set(found, opened)
        try:
            masks = sizes.transport.combine(index, found.seeds, opened)
        except Refusal as refusal:
            self._drop_attempt(sizes.plan, index, opened, attempt, refusal)
            raise
        with self._database.transaction() as transaction:
            batch = rows.lock_newest_batch(transaction, plan_id)
            found = transitions.read_shares(transaction, plan_id, index, attempt)
            if found.seeds is not None:
                return transitions.release_share_sum(transaction, sizes.plan, batch, opened, masks)
            return transitions.require_same_set(found, opened)

    def _drop_attempt(
        self, plan: Plan, index: int, opened: bytes, attempt: int, refusal: Refusal
    ) -> None:
        """Drop the attempt, unless another set has made it whole in the meantime."""
        if refusal.reason is not Reason.GUARANTEE_NOT_MET:
            return
        with self._database.transaction() as transaction:
            batch = rows.lock_newest_batch(transaction, plan.id)
            found = transitions.read_shares(transaction, plan.id, index, attempt)
            if found.seeds is None:
                return
            count = int(wire.decode_flags(opened, batch.size).sum())
            attempts.drop_attempt(
                transaction, batch, transitions.read_released(transaction, batch).body, count
            )
        self._forget()

    def acknowledge(self, plan_id: str, index: int, basis: Basis) -> BatchRow:
        """The analyzer has learnt this model from the batch: open the next, or end the plan."""
        with self._database.transaction() as transaction:
            rows.lock_plan(transaction, plan_id)
            plan = self._carried_sizes(transaction, plan_id).plan
            batch = rows.read_batch(transaction, plan_id, index)
            if not transitions.was_acknowledged(transaction, batch, basis):
                transitions.acknowledge_batch(transaction, plan, batch, basis)
            return rows.read_newest_batch(transaction, plan_id)

    def scrub(self, plan_id: str) -> int:
        """Delete payloads, ids, marks and bytes of acknowledged batches; how many batches."""
        with self._database.transaction() as transaction:
            rows.lock_plan(transaction, plan_id)
            scrubbed = transitions.scrub_batches(transaction, plan_id)
        self._forget()
        return scrubbed
