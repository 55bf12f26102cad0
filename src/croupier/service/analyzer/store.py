"""The analyzer's machine: learns from every released batch once, and publishes models.

It keeps analysed sums, never messages, and restores the ``croupier.analyzer`` role from them. The
published models are read back as they were published: computed again on another machine they
might differ in their last bits, and their chain of hashes would break.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from croupier import wire
from croupier.analyzer import Analyzer
from croupier.model import Model
from croupier.plan import Plan
from croupier.protocols.base import require_protocol
from croupier.service.analyzer import quarantine, rows, share_sums
from croupier.service.analyzer.quarantine import JudgedBatch, Standing
from croupier.service.analyzer.rows import Floats, PublishedModel, ReceivedBatch
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import released_counts
from croupier.service.messages.shares import Words
from croupier.service.messages.signed_documents import LedgerEntry
from croupier.service.storage import dropped_attempts, ledger
from croupier.service.storage.database import Database, Transaction
from croupier.service.storage.noted_steps import NotedSteps
from croupier.service.storage.progress import ProgressFiles
from croupier.shuffler import Batch


def _unsigned(model: Model, _: str) -> str:
    return model.to_json()


def _never(_transaction: Transaction, _plan_id: str) -> bool:
    """A plan that has ended here can be set back like any other."""
    return False


class AnalyzerStore:
    """What was learnt for any number of plans, in one database."""

    def __init__(
        self,
        database: Database,
        progress: ProgressFiles,
        *,
        publish: Callable[[Model, str], str] = _unsigned,
    ) -> None:
        """``publish`` makes a model's document, given the hash of its ledger entry.

        ``progress`` is kept outside of the database, so that one which was set back is known.
        """
        self._database = database
        self._steps = NotedSteps(database, progress, rows.read_position, _never)
        self._publish = publish
        self._plans: dict[str, Plan] = {}
        self._roles: dict[str, Analyzer] = {}

    def set_back(self, plan_id: str) -> str:
        """How the database contradicts what was noted outside of it, in words; empty if not."""
        return self._steps.set_back(plan_id)

    def adopt(self, plan_id: str) -> None:
        """Go on without what was noted outside of the database, taken for the newest there is."""
        with self._steps.adopting_step(plan_id):
            pass

    # What is known

    def open_plan(self, plan: Plan) -> PublishedModel:
        """Begin a plan by publishing its first model; again changes nothing."""
        with self._steps.first_step(plan.id, durable=True) as transaction:
            if rows.insert_plan(transaction, plan):
                first = Analyzer(plan).model
                rows.store_model(transaction, first, self._publish(first, ""))
            return rows.read_newest_model(transaction, plan)

    def plans(self) -> list[str]:
        """The ids of every plan, in order."""
        with self._database.reading() as transaction:
            return [name for (name,) in transaction.all("SELECT id FROM plans ORDER BY id")]

    def plan(self, plan_id: str) -> Plan:
        """The plan as it was opened; it never changes, so it is read once."""
        if plan_id not in self._plans:
            with self._database.reading() as transaction:
                self._plans[plan_id] = rows.read_opened_plan(transaction, plan_id)
        return self._plans[plan_id]

    def plan_document(self, plan_id: str) -> str:
        """The plan's own document, as it was opened."""
        with self._database.reading() as transaction:
            return rows.read_plan_document(transaction, plan_id)

    def newest_model(self, plan_id: str) -> PublishedModel:
        """The model that devices should use now."""
        plan = self.plan(plan_id)
        with self._database.reading() as transaction:
            return rows.read_newest_model(transaction, plan)

    def sign_newest_again(self, sign: Callable[[str], str]) -> None:
        """Replace the signature of every plan's newest model; whoever trusts that trusts all."""
        with self._database.transaction() as transaction:
            rows.sign_newest_again(transaction, sign)

    def document(self, model_hash: str) -> str:
        """A published model by its hash."""
        with self._database.reading() as transaction:
            row = transaction.one("SELECT document FROM models WHERE hash = ?", model_hash)
        if row is None:
            raise Refusal(Reason.NOT_FOUND, f"no model {model_hash} was published")
        return str(row[0])

    def ledger(self, plan_id: str) -> list[LedgerEntry]:
        """What was learnt from, the chain verified."""
        with self._database.reading() as transaction:
            return ledger.read_ledger(transaction, plan_id)

    def ledger_head(self, plan_id: str) -> str:
        """The hash of the newest entry, empty while there is none; nothing is verified."""
        with self._database.reading() as transaction:
            row = transaction.one(
                "SELECT hash FROM ledger WHERE plan = ? ORDER BY batch DESC LIMIT 1", plan_id
            )
        return "" if row is None else str(row[0])

    def repairs(self, plan_id: str) -> int:
        """Eigenvalues raised so far."""
        with self._database.reading() as transaction:
            return rows.read_progress(transaction, plan_id).repairs

    def clipped(self, plan_id: str) -> int:
        """Counts of shared batches that no honest reports could have added up to."""
        with self._database.reading() as transaction:
            return rows.read_progress(transaction, plan_id).clipped

    def dropped(self, plan_id: str) -> int:
        """Attempts at batches of shares of which too few reports opened."""
        with self._database.reading() as transaction:
            return dropped_attempts.count_attempts(transaction, plan_id)

    def sums(self, plan_id: str) -> list[Floats]:
        """What was analysed from every batch."""
        with self._database.reading() as transaction:
            return rows.read_sums(transaction, plan_id)

    # Quarantine

    def judged(self, plan_id: str) -> list[JudgedBatch]:
        """What was found of every batch, and whether it is learnt from."""
        with self._database.reading() as transaction:
            return quarantine.read_judged(transaction, plan_id)

    def quarantined(self, plan_id: str) -> list[JudgedBatch]:
        """Those of them that wait for somebody to decide."""
        return [one for one in self.judged(plan_id) if one.waits]

    def decide_standing(self, plan_id: str, index: int, standing: Standing) -> JudgedBatch:
        """Leave a batch out of the sums, or take it in; the next model follows that."""
        plan = self.plan(plan_id)
        with self._steps.step(plan_id) as transaction:
            return quarantine.decide_standing(transaction, plan, index, standing)

    # Batches

    def receive(self, batch: Batch, model_hash: str, digest: bytes) -> PublishedModel:
        """Learn from a batch whose bytes, of that digest, were verified; again answers the same.

        ``model_hash`` is that of the model which its reports were made with.
        """
        arrival = ReceivedBatch(self.plan(batch.plan_id), batch.index, model_hash, digest)
        release = require_protocol(arrival.plan.mechanism).release(batch.index)
        return self._receive(arrival, lambda: np.asarray(release.analyze(batch.messages)))

    def receive_counts(
        self, counts: wire.Counts, plan_id: str, index: int, model_hash: str, digest: bytes
    ) -> PublishedModel:
        """The same from the ones of the channels that close with the batch."""
        plan = self.plan(plan_id)
        arrival = ReceivedBatch(plan, index, model_hash, digest)
        return self._receive(arrival, lambda: released_counts.settle(plan, index, counts))

    def _receive(self, arrival: ReceivedBatch, analyze: Callable[[], Floats]) -> PublishedModel:
        plan = arrival.plan
        with self._database.reading() as transaction:
            known = rows.read_answer(transaction, arrival)
        if known is not None:
            return known
        released = analyze()
        with self._steps.step(plan.id, durable=True) as transaction:
            rows.lock_plan(transaction, plan.id)
            known = rows.read_answer(transaction, arrival)
            if known is not None:
                return known
            role = self._learn(transaction, arrival, released)
            published = rows.read_newest_model(transaction, plan)
        self._roles[plan.id] = role
        return published

    def decide(
        self, plan_id: str, index: int, model_hash: str, digest: bytes, opened: bytes, tally: Words
    ) -> bytes:
        """The set of reports that opened, as flags, decided by the first call for an attempt."""
        arrival = ReceivedBatch(self.plan(plan_id), index, model_hash, digest)
        with self._steps.step(plan_id, durable=True) as transaction:
            rows.lock_plan(transaction, plan_id)
            decided = share_sums.read_decided_set(transaction, arrival)
            if decided is None:
                share_sums.store_decided_set(transaction, arrival, opened, tally)
            return opened if decided is None else decided

    def settle(self, plan_id: str, index: int, share: bytes) -> PublishedModel:
        """Learn from the two halves of a batch whose set was decided; again answers the same."""
        plan = self.plan(plan_id)
        with self._steps.step(plan_id, durable=True) as transaction:
            rows.lock_plan(transaction, plan_id)
            ours = share_sums.read_share_sums(transaction, plan, index)
            known = share_sums.read_settled(transaction, ours, share)
            if known is not None:
                return known
            released = share_sums.join_share_sums(transaction, ours, share)
            role = self._learn(transaction, ours.arrival, released)
            published = rows.read_newest_model(transaction, plan)
        self._roles[plan.id] = role
        return published

    def _learn(
        self, transaction: Transaction, arrival: ReceivedBatch, released: Floats
    ) -> Analyzer:
        """The role after the batch. It is kept only once the transaction is durable."""
        plan = arrival.plan
        role = self._role(transaction, plan)
        before = role.model.hash
        role, judged = quarantine.learn_judged(transaction, role, arrival, released)
        entry = ledger.charge_batch(
            transaction, plan, arrival.index, arrival.model_hash, arrival.digest
        )
        if role.model.hash != before:
            rows.store_model(transaction, role.model, self._publish(role.model, entry.hash))
        rows.store_sums(transaction, arrival, released, role.model.version, role.repairs)
        quarantine.store_judged(transaction, plan, judged)
        return role

    def _role(self, transaction: Transaction, plan: Plan) -> Analyzer:
        """As the database has it, whatever this process or another did before."""
        role = self._roles.pop(plan.id, None)
        known = (
            rows.read_progress(transaction, plan.id).batch,
            rows.read_left_out(transaction, plan.id),
        )
        if role is not None and (role.batch, role.left_out) == known:
            return role
        return rows.resume_analyzer(transaction, plan)
