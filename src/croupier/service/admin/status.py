"""Answers to what operators ask: why was my batch not released, and what can I do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from croupier.service.admin.service_status import ServiceStatus, ask_service, own_url
from croupier.service.analyzer import parts as analyzer
from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.settings import Role, Settings, ShortBatchPolicy
from croupier.service.shuffler import parts as shuffler
from croupier.service.shuffler.batch_status import (
    describe_batch,
    describe_lineage,
    explain_end,
    explain_wait,
    lineage_words,
)
from croupier.service.shuffler.rows import BatchRow, BatchState
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.startup import read_checked_plan
from croupier.service.storage import progress
from croupier.service.storage.database import Database, EmptyDatabaseError
from croupier.service.storage.progress import ProgressFiles

ROLLED_BACK = (
    "Bring back the newest copy of the database, or the directory never-back-up. If only the "
    "directory is gone, and the database is the newest there is: croupier adopt --config FILE. "
    "Else end the plan at the shuffler with: croupier retire --abandon --config FILE. Begin one "
    "that succeeds nothing then; see docs/deploy.md on rolled-back."
)

LOST = (
    "Bring back the newest copy of the database. If there is none, the plan is over: destroy the "
    "keys that are left of it with: croupier retire --abandon --config FILE, at the shuffler. "
    "Begin another plan then; see docs/deploy.md on rolled-back."
)

QUARANTINE = (
    "Find out what is special about it, then decide: croupier quarantine --config FILE --leave-out "
    "N, or --take-in N. See docs/deploy.md on quarantined."
)


@dataclass(frozen=True)
class PlanStatus:
    """Where a plan stands, why it is not further, and what to do about it."""

    role: str
    plan: str
    answer: str
    advice: str
    moving: bool
    facts: dict[str, Any] = field(default_factory=dict)
    own: ServiceStatus | None = None
    peer: ServiceStatus | None = None
    warning: str = ""

    @property
    def content(self) -> dict[str, Any]:
        """Plain values, for a document."""
        return {"kind": "status", **asdict(self)}


def status(settings: Settings) -> PlanStatus:
    """The answer, from this role's database and from what both services say."""
    own, peer = ask_service(own_url(settings)), ask_service(settings.peer.url)
    try:
        database = Database.open_read_only(settings.database, settings.role.value)
    except EmptyDatabaseError:
        return _not_begun(settings, own, peer, find_lost_database(settings))
    try:
        if settings.role is Role.SHUFFLER:
            return _shuffler_status(settings, shuffler.open_store(settings, database), own, peer)
        return _analyzer_status(settings, analyzer.open_store(settings, database), own, peer)
    finally:
        database.close()


def _shuffler_status(
    settings: Settings, store: ShufflerStore, own: ServiceStatus | None, peer: ServiceStatus | None
) -> PlanStatus:
    plan = read_checked_plan(settings)
    known = {state.id: state for state in store.plans()}
    set_back = store.set_back(plan.id)
    if plan.id not in known:
        return _not_begun(settings, own, peer, set_back)
    batch, set_back = store.current(plan.id), set_back or _told_set_back(own)
    lineage = describe_lineage(store.lineage(plan.id))
    facts, words = describe_batch(batch) | lineage, lineage_words(lineage)
    if known[plan.id].ended:
        answer = explain_end(batch) + words
        return PlanStatus("shuffler", plan.id, answer, "", True, facts, own, peer)
    if set_back:
        answer = f"Rolled back, nothing is taken or released: {set_back}."
        return PlanStatus("shuffler", plan.id, answer, ROLLED_BACK, False, facts, own, peer)
    answer = explain_wait(batch) + words
    advice = _advice(batch, settings, own, peer)
    moving = batch.state is BatchState.OPEN and batch.room > 0 and not _is_troubled(own)
    return PlanStatus("shuffler", plan.id, answer, advice, moving, facts, own, peer)


def find_lost_database(settings: Settings) -> str:
    """What was noted of a plan whose database is empty or not there, in words."""
    plan_id = read_checked_plan(settings).id
    known = ProgressFiles(settings.keys.beside).read(plan_id)
    return "" if known is None else progress.set_back(plan_id, None, known).detail


def _not_begun(
    settings: Settings, own: ServiceStatus | None, peer: ServiceStatus | None, set_back: str
) -> PlanStatus:
    """Nothing is known of the plan here, unless it is noted outside of the database."""
    if set_back:
        answer, advice = f"Rolled back, nothing goes on: {set_back}.", LOST
    elif settings.role is Role.SHUFFLER:
        answer = "The plan has not begun: its first batch opens with the analyzer's first model."
        advice = _first_obstacle(own, peer)
    else:
        answer = "The plan has not begun."
        advice = "Start the analyzer: croupier serve analyzer --config FILE."
    plan = read_checked_plan(settings)
    return PlanStatus(settings.role.value, plan.id, answer, advice, False, {}, own, peer)


def _advice(
    batch: BatchRow, settings: Settings, own: ServiceStatus | None, peer: ServiceStatus | None
) -> str:
    if batch.state is not BatchState.OPEN or batch.room == 0 or _is_troubled(own):
        return _first_obstacle(own, peer)
    rules = settings.batches
    after = f"after {rules.after_seconds:g} seconds"
    return {
        ShortBatchPolicy.WAIT: "Wait for more users, or set batches.short to pad or drop.",
        ShortBatchPolicy.PAD: (
            f"It is padded {after}, once {rules.floor:.0%} of its reports are real."
        ),
        ShortBatchPolicy.DROP: f"It is dropped and begun again {after}.",
    }[rules.short]


def _first_obstacle(own: ServiceStatus | None, peer: ServiceStatus | None) -> str:
    """The first thing that stands between a complete batch and the next model."""
    if own is not None and not own.reachable:
        return "Start the shuffler: croupier serve shuffler --config FILE."
    if own is not None and not own.ready:
        return f"The shuffler {own.words}."
    if peer is not None and not peer.reachable:
        return f"The analyzer {peer.words}. Start it, or check peer.url and the network."
    if peer is not None and not peer.ready:
        return f"The analyzer {peer.words}."
    if own is not None and own.trouble:
        return f"The last try failed: {own.trouble}. See docs/deploy.md on this word."
    return "Nothing is wrong; look again in a moment."


def _analyzer_status(
    settings: Settings, store: AnalyzerStore, own: ServiceStatus | None, peer: ServiceStatus | None
) -> PlanStatus:
    plan = read_checked_plan(settings)
    set_back = store.set_back(plan.id)
    if plan.id not in store.plans():
        return _not_begun(settings, own, peer, set_back)
    published = store.newest_model(plan.id)
    facts = {
        "model_version": published.model.version,
        "model_hash": published.model.hash,
        "next_batch": published.next_batch,
        "repairs": store.repairs(plan.id),
    }
    set_back = set_back or _told_set_back(own)
    if set_back:
        answer = f"Rolled back, nothing is learnt: {set_back}."
        return PlanStatus("analyzer", plan.id, answer, ROLLED_BACK, False, facts, own, peer)
    waiting = store.quarantined(plan.id)
    facts["quarantined"] = [one.batch for one in waiting]
    if published.next_batch is None:
        answer, advice = "All batches have come; the plan has ended.", ""
    elif waiting:
        answer = f"Not all that came is learnt from: {waiting[0].words}."
        return PlanStatus("analyzer", plan.id, answer, QUARANTINE, False, facts, own, peer)
    else:
        answer = (
            f"Model {published.model.version} is published; batch {published.next_batch} has not "
            "come from the shuffler."
        )
        advice = "Ask the shuffler's operator for: croupier status --config FILE."
        if own is not None and own.troubled:
            advice = f"The analyzer {own.words}."
            return PlanStatus("analyzer", plan.id, answer, advice, False, facts, own, peer)
    return PlanStatus("analyzer", plan.id, answer, advice, True, facts, own, peer)


def _told_set_back(own: ServiceStatus | None) -> str:
    """What the running service has found by comparing itself with the other one."""
    return "" if own is None else own.rolled_back


def _is_troubled(own: ServiceStatus | None) -> bool:
    return own is not None and own.troubled
