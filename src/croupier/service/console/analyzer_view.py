"""What the analyzer's operator may see: models, the ledger, and what privacy has cost so far."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from starlette.routing import Route

from croupier.plan import Plan
from croupier.service.analyzer import rows
from croupier.service.analyzer.app import AnalyzerApp
from croupier.service.analyzer.metrics import AnalyzerMetrics
from croupier.service.analyzer.model_age import ModelAge
from croupier.service.analyzer.parts import AnalyzerParts
from croupier.service.analyzer.quarantine import read_judged
from croupier.service.console.common_view import NEWEST, Snapshot, count_refused, list_keys
from croupier.service.console.rewards import read_rewards
from croupier.service.console.routes import console_routes
from croupier.service.storage import ledger
from croupier.service.storage.database import Transaction

_MODELS = "SELECT version, hash FROM models WHERE plan = ? ORDER BY version DESC LIMIT ?"
_BATCHES = """
SELECT batch, version, standing FROM batches WHERE plan = ? AND version IS NOT NULL
ORDER BY batch DESC LIMIT ?
"""


class AnalyzerView:
    """The parts of a running analyzer that its page is about."""

    def __init__(
        self,
        parts: AnalyzerParts,
        metrics: AnalyzerMetrics,
        age: ModelAge,
        draining: Callable[[], bool],
        rolled_back: Callable[[], str],
    ) -> None:
        self._parts = parts
        self._metrics = metrics
        self._age = age
        self._draining = draining
        self._rolled_back = rolled_back
        self._charged: Snapshot = {"entries": -1}

    def snapshot(self) -> Snapshot:
        """Everything that the page shows, as of now."""
        return self._fixed() | self._process() | self._stored()

    def _fixed(self) -> Snapshot:
        plan = self._parts.plan
        return {
            "role": "analyzer",
            "plan": plan.id,
            "transport": self._parts.settings.transport.name.lower(),
            "participation_limit": plan.participations,
            "batches_total": plan.schedule.batches,
            **certified_budget(plan),
        }

    def _process(self) -> Snapshot:
        rewards = self._parts.settings.rewards
        return {
            "draining": self._draining(),
            "rolled_back": self._rolled_back(),
            "refused": count_refused(self._metrics.batches),
            "keys": list_keys(self._parts.keyring),
            "rewards": None if rewards is None else read_rewards(rewards),
        }

    def _stored(self) -> Snapshot:
        plan = self._parts.plan
        with self._parts.database.reading() as transaction:
            done = rows.read_progress(transaction, plan.id)
            return {
                "learnt": done.batch,
                "repairs": done.repairs,
                "clipped": done.clipped,
                "newest_batches": _newest(transaction, plan),
                "quarantined": _quarantined(transaction, plan.id),
                **self._models(transaction),
                **self._ledger(transaction, done.batch),
            }

    def _models(self, transaction: Transaction) -> Snapshot:
        plan_id = self._parts.plan.id
        rows = transaction.all(_MODELS, plan_id, NEWEST)
        models = [{"model_version": version, "model_hash": name} for version, name in rows]
        return {
            **models[0],
            "model_seconds": self._age.see(models[0]["model_version"]),
            "model_seen_new": self._age.seen_new,
            "publications": _publications(transaction, plan_id),
            "newest_models": models,
        }

    def _ledger(self, transaction: Transaction, learnt: int) -> Snapshot:
        """Entries and reports counted; the chain is verified again whenever it has grown."""
        if self._charged["entries"] != learnt:
            entries = ledger.read_ledger(transaction, self._parts.plan.id)
            self._charged = {
                "entries": len(entries),
                "reports": sum(entry.users for entry in entries),
                "ledger_head": entries[-1].hash if entries else None,
            }
        return self._charged


def _publications(transaction: Transaction, plan_id: str) -> int:
    row = transaction.one("SELECT COUNT(*) FROM models WHERE plan = ?", plan_id)
    return int(row[0]) if row else 0


def _quarantined(transaction: Transaction, plan_id: str) -> int | None:
    """The first batch to decide about."""
    return next((one.batch for one in read_judged(transaction, plan_id) if one.waits), None)


def _newest(transaction: Transaction, plan: Plan) -> list[Snapshot]:
    rows = transaction.all(_BATCHES, plan.id, NEWEST)
    return [
        {"batch": batch, "size": plan.users(batch), "model_version": version, "standing": standing}
        for batch, version, standing in rows
    ]


@lru_cache(maxsize=8)
def certified_budget(plan: Plan) -> Snapshot:
    """What is proved for a user in all and in one of the batches; it takes long to compute."""
    asked = plan.budget
    if asked is None:
        return {"epsilon": None, "delta": None, "method": "nothing is promised"}
    return {
        "epsilon": plan.promise.epsilon(asked.delta),
        "epsilon_asked": asked.epsilon,
        "epsilon_batch": plan.promise_for(1).epsilon(asked.delta),
        "delta": asked.delta,
        "method": plan.promise.method,
    }


def analyzer_console(app: AnalyzerApp) -> list[Route]:
    """The operator's page of an application, unless it is turned off."""
    if not app.parts.settings.console:
        return []
    view = AnalyzerView(
        app.parts, app.metrics, app.model_age, lambda: app.draining, app.find_set_back
    )
    return console_routes(view.snapshot, app.read)
