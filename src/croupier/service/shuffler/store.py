"""The shuffler's machine: open, sealed, released, acknowledged, scrubbed.

A batch of shares that too few reports open of goes back from released to open, once more empty.
Each step is one transaction, and a step that was done before changes nothing and answers the
same. The machine randomises and permutes nothing itself: it drives ``croupier.shuffler``.

No step is taken over a database that is older than what was noted outside of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from croupier import wire
from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.signed_documents import LedgerEntry
from croupier.service.messages.transports import BitsTransport, PlanTransport
from croupier.service.shuffler import acceptance, attempts, plan_lifecycle, rows, transitions
from croupier.service.shuffler.acceptance import NOBODY, Upload
from croupier.service.shuffler.agreement import (
    Disagreement,
    PublishedHead,
    find_disagreement,
)
from croupier.service.shuffler.batch_keys import BatchKeys
from croupier.service.shuffler.forgetting import Forgetting
from croupier.service.shuffler.rows import Basis, BatchRow, BatchState, PlanRow, ReleasedBatch
from croupier.service.shuffler.shuffling import CarriedSizes, Held, prepare_release, read_held
from croupier.service.shuffler.transitions import SealedBatch
from croupier.service.storage import dropped_attempts, leases, ledger
from croupier.service.storage.database import Database, DatabaseError, Transaction
from croupier.service.storage.leases import Lease
from croupier.service.storage.noted_steps import NotedSteps
from croupier.service.storage.progress import ProgressFiles


def _unsigned(_: bytes) -> str:
    return ""


class ShufflerStore:
    """Batches of any number of plans in one database; any number of processes may share it.

    ``keys`` and ``progress`` are files outside of the database, shared by the same processes.
    """

    def __init__(
        self,
        database: Database,
        keys: BatchKeys,
        progress: ProgressFiles,
        *,
        transport: Callable[[Plan], PlanTransport] = BitsTransport,
        sign: Callable[[bytes], str] = _unsigned,
        clock: Callable[[], float] = time.time,
        newcomers: int | None = None,
    ) -> None:
        """``newcomers`` is the most accounts of a batch that its plan has never counted."""
        self._database = database
        self._keys = keys
        self._steps = NotedSteps(database, progress, rows.read_position, _has_ended)
        self._transport = transport
        self._sign = sign
        self._clock = clock
        self._newcomers = newcomers
        self._known: dict[str, CarriedSizes] = {}
        self._forgetting = Forgetting(database, keys)

    # What is outside of the database

    def set_back(self, plan_id: str) -> str:
        """How the database contradicts what is outside of it, in words; empty if not.

        It may be older than what was noted there, or its open batch under keys that are not there.
        """
        return self._steps.set_back(plan_id) or self._find_lost_keys(plan_id)

    def _find_lost_keys(self, plan_id: str) -> str:
        with self._database.reading() as transaction:
            if not rows.is_known(transaction, plan_id) or _has_ended(transaction, plan_id):
                return ""
            batch = rows.read_newest_batch(transaction, plan_id)
        lost = self._keys.find_lost(batch)
        # Another process may have destroyed them in the meantime, as it should.
        return lost if lost and self.current(plan_id).stage == batch.stage else ""

    def adopt(self, plan_id: str) -> int:
        """Go on without what was kept outside of the database, taken for the newest there is.

        A batch whose keys were lost is begun again; how many reports were dropped with it.
        """
        with self._steps.adopting_step(plan_id) as transaction:
            batch = rows.lock_newest_batch(transaction, plan_id)
            lost = self._keys.find_lost(batch)
            dropped = attempts.go_on_without_keys(transaction, batch) if lost else 0
        self.forget()
        return dropped

    def destroy_keys(self, plan_id: str) -> None:
        """Of a plan that was lost with its database, so that no copy of it can be opened."""
        self._keys.destroy_all(plan_id)

    # Plans

    def open_plan(self, plan: Plan, basis: Basis) -> None:
        """Begin a plan with its first model; again with the same model changes nothing."""
        with self._steps.first_step(plan.id) as transaction:
            plan_lifecycle.open_plan(transaction, plan, basis)

    def retire(self, plan_id: str, abandon: bool = False) -> int:
        """End a plan before its last batch; how many reports of its newest batch were dropped.

        A plan whose database was set back can be ended, and nothing else.
        """
        with self._database.transaction() as transaction:
            dropped = plan_lifecycle.retire_plan(transaction, plan_id, abandon)
            transitions.scrub_batches(transaction, plan_id)
            found = rows.read_newest_batch(transaction, plan_id).position
        self._steps.note_end(plan_id, found)
        self.forget()
        return dropped

    def succeed(self, old_id: str, plan: Plan, basis: Basis) -> None:
        """Begin the successor of an ended plan; what users have spent is carried over."""
        with self._steps.first_step(plan.id) as transaction:
            if self._steps.was_set_back(transaction, old_id):
                raise Refusal(
                    Reason.ROLLED_BACK,
                    f"{old_id} was set back, so that what its users have spent is not known",
                )
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

    def compare(self, plan_id: str, head: PublishedHead) -> Disagreement | None:
        """How our newest batch does not fit what the analyzer shows.

        That we are behind is noted if a signed model says so.
        """
        with self._database.reading() as transaction:
            batch = rows.read_newest_batch(transaction, plan_id)
            own = ledger.read_last_entries(transaction, plan_id, 2)
            batches = self._carried_sizes(transaction, plan_id).plan.schedule.batches
        found = find_disagreement(batch, own, head, batches)
        if found is not None and found.proved:
            self._steps.note_released(plan_id, found.proved)
        return found

    def released(self, plan_id: str) -> int:
        """How many batches were charged."""
        with self._database.reading() as transaction:
            last = ledger.read_last_entries(transaction, plan_id, 1)
        return last[0].sequence + 1 if last else 0

    def dropped(self, plan_id: str) -> int:
        """Attempts at batches of shares of which too few reports opened."""
        with self._database.reading() as transaction:
            return dropped_attempts.count_attempts(transaction, plan_id)

    def forget(self) -> bool:
        """Destroy keys that nothing needs, and overwrite what was deleted; see ``Forgetting``."""
        return self._forgetting.forget()

    def forget_again(self) -> bool:
        """The same, where that is still to be done."""
        return self._forgetting.forget_again()

    def _carried_sizes(self, transaction: Transaction, plan_id: str) -> CarriedSizes:
        """Plans never change, so each is read once."""
        if plan_id not in self._known:
            plan = rows.read_opened_plan(transaction, plan_id)
            self._known[plan_id] = CarriedSizes(plan, self._transport(plan), self._newcomers)
        return self._known[plan_id]

    # Uploads

    def take(self, uploads: Sequence[Upload]) -> list[Reason | None]:
        """Judge the uploads in order and keep the accepted ones, all in one transaction.

        None means that the report is in, durably; it also answers identical bytes sent again.
        """
        # Plans are locked in order of id, so that two groups never wait for each other.
        numbered = sorted(enumerate(uploads), key=lambda one: (one[1].plan_id, one[0]))
        verdicts: dict[int, Reason | None] = {}
        for plan_id, group in groupby(numbered, key=lambda one: one[1].plan_id):
            numbers, sent = zip(*group, strict=True)
            verdicts |= zip(numbers, self._take(plan_id, sent), strict=True)
        return [verdicts[number] for number in range(len(uploads))]

    def _take(self, plan_id: str, uploads: Sequence[Upload]) -> list[Reason | None]:
        with self._steps.step(plan_id) as transaction:
            if not rows.is_known(transaction, plan_id):
                return [Reason.WRONG_PLAN] * len(uploads)
            sizes = self._carried_sizes(transaction, plan_id)
            return acceptance.accept_uploads(transaction, sizes, self._keys, uploads)

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
        with self._steps.step(plan_id) as transaction:
            batch = rows.lock_newest_batch(transaction, plan_id)
            # Emptied in the meantime, it would stay short, or below the floor.
            fits = batch.index == before.index and batch.filled >= before.filled
            added = made[: batch.room] if fits else []
            return acceptance.add_empty_reports(transaction, batch, self._keys, added)

    def drop(self, plan_id: str) -> int:
        """Empty an open batch that stays short, and begin it again; how many reports are lost."""
        with self._steps.step(plan_id) as transaction:
            batch = rows.lock_newest_batch(transaction, plan_id)
            short = batch.state is BatchState.OPEN and 0 < batch.filled < batch.size
            dropped = attempts.begin_next_attempt(transaction, batch) if short else 0
        self.forget()
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
        """Close the newest batch if it is complete; whether it is closed.

        What is released of it is made outside of a transaction, from reports that nobody changes
        any more. If two do it, what the first to finish has made is the batch.
        """
        with self._database.reading() as transaction:
            batch = rows.read_newest_batch(transaction, plan_id)
            sizes = self._carried_sizes(transaction, plan_id)
            held = read_held(transaction, plan_id)
        if not batch.is_open:
            return True
        if batch.room > 0:
            return False
        try:
            made = self._make(sizes, batch, held)
        except (DatabaseError, Refusal):
            if self.current(plan_id).position == batch.position:
                raise
            return True  # another process has sealed it in the meantime
        with self._steps.step(plan_id) as transaction:
            now = rows.lock_newest_batch(transaction, plan_id)
            if now.stage == batch.stage:
                transitions.seal_batch(transaction, now, made)
        self.forget()
        return True

    def _make(self, sizes: CarriedSizes, batch: BatchRow, held: Held) -> SealedBatch:
        """What is released of a complete batch, read report by report."""
        accounts: list[bytes] = []

        def payloads() -> Iterator[bytes]:
            key = self._keys.early(batch)
            for account, payload in transitions.read_contents(self._database, batch, key):
                accounts.append(account)
                yield payload

        binding = batch.binding(sizes.transport.kind)
        packed, held = prepare_release(sizes, binding, payloads(), held)
        seeds = None if packed.seeds is None else self._keys.late(batch).encrypt(packed.seeds)
        counted = sorted(account for account in accounts if account != NOBODY)
        return SealedBatch(packed.body, seeds, held, tuple(counted))

    def release(self, plan_id: str) -> ReleasedBatch | None:
        """Sign and charge the newest batch if it is sealed; None if it is open.

        Where it was released is noted durably before the bytes leave the machine.
        """
        with self._database.reading() as transaction:
            batch = rows.read_newest_batch(transaction, plan_id)
            if batch.is_open:
                return None
            plan = self._carried_sizes(transaction, plan_id).plan
            body = transitions.read_body(transaction, batch)
        signature = self._sign(body)
        with self._steps.step(plan_id, durable=True) as transaction:
            now = rows.lock_newest_batch(transaction, plan_id)
            if (now.index, now.attempt, now.state) == (
                batch.index,
                batch.attempt,
                BatchState.SEALED,
            ):
                transitions.release_batch(transaction, plan, now, signature)
            return transitions.read_released(transaction, batch)

    def share(self, plan_id: str, index: int, opened: bytes, attempt: int = 0) -> bytes:
        """Our part of the sums over the reports that opened: for one set of a batch, ever.

        If these are too few, nothing is ever released of this attempt and the batch begins again.
        """
        with self._database.reading() as transaction:
            found = transitions.read_shares(transaction, plan_id, index, attempt)
            sizes = self._carried_sizes(transaction, plan_id)
            batch = rows.read_batch(transaction, plan_id, index)
        if found.seeds is not None:
            seeds = self._keys.late(batch).decrypt(found.seeds)
            try:
                masks = sizes.transport.combine(index, seeds, opened)
            except Refusal as refusal:
                self._drop_attempt(sizes.plan, index, opened, attempt, refusal)
                raise
        with self._steps.step(plan_id, durable=True) as transaction:
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
        with self._steps.step(plan.id) as transaction:
            batch = rows.lock_newest_batch(transaction, plan.id)
            found = transitions.read_shares(transaction, plan.id, index, attempt)
            if found.seeds is None:
                return
            count = int(wire.decode_flags(opened, batch.size).sum())
            body = transitions.read_body(transaction, batch)
            attempts.drop_attempt(transaction, batch, body, count)
        self.forget()

    def acknowledge(self, plan_id: str, index: int, basis: Basis) -> BatchRow:
        """The analyzer has learnt this model from the batch: open the next, or end the plan."""
        with self._steps.step(plan_id) as transaction:
            rows.lock_plan(transaction, plan_id)
            plan = self._carried_sizes(transaction, plan_id).plan
            batch = rows.read_batch(transaction, plan_id, index)
            if not transitions.was_acknowledged(transaction, batch, basis):
                transitions.acknowledge_batch(transaction, plan, batch, basis)
            return rows.read_newest_batch(transaction, plan_id)

    def scrub(self, plan_id: str) -> int:
        """Delete payloads, ids, marks and bytes of acknowledged batches; how many batches."""
        with self._steps.step(plan_id) as transaction:
            rows.lock_plan(transaction, plan_id)
            scrubbed = transitions.scrub_batches(transaction, plan_id)
        self.forget()
        return scrubbed


def _has_ended(transaction: Transaction, plan_id: str) -> bool:
    return rows.read_plan_row(transaction, plan_id).ended
