"""Batches that honest users could hardly have added up to: learnt from only if an operator says so.

Every batch is judged by its released sums alone, which are public, so that judging costs no
privacy. It is charged like any other either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from croupier.analyzer import Analyzer
from croupier.plan import Plan
from croupier.plausibility import Plausibility
from croupier.service.analyzer import rows
from croupier.service.analyzer.rows import Floats, ReceivedBatch
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.storage.database import Transaction


class Standing(Enum):
    """Whether a batch is learnt from. What is quarantined waits for somebody to decide."""

    IN = "in"
    QUARANTINED = "quarantined"
    LEFT_OUT = "left-out"


@dataclass(frozen=True)
class JudgedBatch:
    """A batch and what was found; ``chance`` is None where it cannot be seen alone."""

    batch: int
    standing: Standing
    chance: float | None
    part: str | None

    @property
    def is_in(self) -> bool:
        """Whether it is learnt from."""
        return self.standing is Standing.IN

    @property
    def waits(self) -> bool:
        """Whether nobody has decided yet."""
        return self.standing is Standing.QUARANTINED

    @property
    def words(self) -> str:
        """In a sentence."""
        if self.chance is None:
            return f"batch {self.batch} is {self.standing.value}; nothing is known of it alone"
        told = f"by the {self.part}, honest users add up to it with a chance of {self.chance:.2g}"
        return f"batch {self.batch} is {self.standing.value}; {told} at most"


def learn_judged(
    transaction: Transaction, role: Analyzer, arrival: ReceivedBatch, released: Floats
) -> tuple[Analyzer, JudgedBatch]:
    """The role after a batch, which it has learnt from unless that is suspicious."""
    found = role.examine(arrival.index, released)
    judged = _judge(arrival.index, found)
    if judged.waits:
        known = rows.read_sums(transaction, arrival.plan.id)
        out = role.left_out | {arrival.index}
        role = Analyzer.resume(arrival.plan, known, role.model, role.repairs, out)
    role.learn(arrival.index, released, renew=rows.is_renewal_due(transaction, arrival.plan.id))
    return role, judged


def _judge(index: int, found: Plausibility | None) -> JudgedBatch:
    if found is None:
        return JudgedBatch(index, Standing.IN, None, None)
    standing = Standing.QUARANTINED if found.suspicious else Standing.IN
    return JudgedBatch(index, standing, found.chance, found.part)


def store_judged(transaction: Transaction, plan: Plan, judged: JudgedBatch) -> None:
    """What was found of a batch whose sums are stored."""
    transaction.execute(
        "UPDATE batches SET standing = ?, chance = ?, part = ? WHERE plan = ? AND batch = ?",
        judged.standing.value,
        judged.chance,
        judged.part,
        plan.id,
        judged.batch,
    )


def read_judged(transaction: Transaction, plan_id: str) -> list[JudgedBatch]:
    """Every batch that was learnt from, or not, in order."""
    found = transaction.all(
        """
        SELECT batch, standing, chance, part FROM batches
        WHERE plan = ? AND sums IS NOT NULL ORDER BY batch
        """,
        plan_id,
    )
    return [JudgedBatch(batch, Standing(word), *rest) for batch, word, *rest in found]


def decide_standing(
    transaction: Transaction, plan: Plan, index: int, standing: Standing
) -> JudgedBatch:
    """An operator's word on a batch; the model after the next batch follows it."""
    progress = rows.lock_plan(transaction, plan.id)
    known = {one.batch: one for one in read_judged(transaction, plan.id)}
    if index not in known:
        raise Refusal(Reason.NOT_FOUND, f"batch {index} has not come, {len(known)} have")
    if progress.batch == plan.schedule.batches:
        raise Refusal(Reason.PLAN_ENDED, "no model follows the last batch")
    before = known[index]
    decided = JudgedBatch(index, standing, before.chance, before.part)
    store_judged(transaction, plan, decided)
    if before.is_in != decided.is_in:
        rows.require_renewal(transaction, plan.id)
    return decided
