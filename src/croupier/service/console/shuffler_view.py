"""What the shuffler's operator may see, read from the database and the counters of a process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.routing import Route

from croupier.service.console.common_view import NEWEST, Snapshot, count_refused, list_keys
from croupier.service.console.routes import console_routes
from croupier.service.http.metrics import ACCEPTED
from croupier.service.shuffler import rows
from croupier.service.shuffler.app import ShufflerApp
from croupier.service.shuffler.batch_status import describe_batch, explain_end, explain_wait
from croupier.service.shuffler.metrics import ShufflerMetrics
from croupier.service.shuffler.open_batch import OpenBatch
from croupier.service.shuffler.parts import ShufflerParts
from croupier.service.shuffler.rows import BatchRow
from croupier.service.storage.database import Transaction

_BATCHES = """
SELECT batch, state, filled, size, model_version FROM batches
WHERE plan = ? ORDER BY batch DESC LIMIT ?
"""


@dataclass(frozen=True)
class ShufflerView:
    """The parts of a running shuffler that its page is about."""

    parts: ShufflerParts
    open_batch: OpenBatch
    metrics: ShufflerMetrics
    trouble: Callable[[], str]
    draining: Callable[[], bool]
    rolled_back: Callable[[], str]

    def snapshot(self) -> Snapshot:
        """Everything that the page shows, as of now."""
        return self._fixed() | self._process() | self._stored()

    def _fixed(self) -> Snapshot:
        plan, settings = self.parts.plan, self.parts.settings
        return {
            "role": "shuffler",
            "plan": plan.id,
            "transport": settings.transport.name.lower(),
            "short_policy": settings.batches.short.value,
            "participation_limit": plan.participations,
            "batches_total": plan.schedule.batches,
        }

    def _process(self) -> Snapshot:
        return {
            "draining": self.draining(),
            "rolled_back": self.rolled_back(),
            "trouble": self.trouble(),
            "oldest_seconds": self.open_batch.waiting_seconds,
            "accepted": self.metrics.reports.counts.get(ACCEPTED, 0),
            "refused": count_refused(self.metrics.reports),
            "keys": list_keys(self.parts.keyring),
        }

    def _stored(self) -> Snapshot:
        plan_id = self.parts.plan.id
        with self.parts.database.reading() as transaction:
            if not rows.is_known(transaction, plan_id):
                return {"begun": False, "ended": False, "released": 0, "newest_batches": []}
            ended = rows.read_plan_row(transaction, plan_id).ended
            return {
                "begun": True,
                "ended": ended,
                "released": _released(transaction, plan_id),
                "newest_batches": _newest(transaction, plan_id),
                **_batch(rows.read_newest_batch(transaction, plan_id), ended),
            }


def _released(transaction: Transaction, plan_id: str) -> int:
    row = transaction.one("SELECT COUNT(*) FROM ledger WHERE plan = ?", plan_id)
    return int(row[0]) if row else 0


def _newest(transaction: Transaction, plan_id: str) -> list[Snapshot]:
    names = ("batch", "state", "filled", "size", "model_version")
    rows = transaction.all(_BATCHES, plan_id, NEWEST)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _batch(batch: BatchRow, ended: bool) -> dict[str, Any]:
    """What is public of a batch, and what it waits for, or how the plan has ended with it."""
    return {**describe_batch(batch), "why": explain_end(batch) if ended else explain_wait(batch)}


def shuffler_console(app: ShufflerApp) -> list[Route]:
    """The operator's page of an application, unless it is turned off."""
    if not app.parts.settings.console:
        return []
    view = ShufflerView(
        app.parts,
        app.open_batch,
        app.metrics,
        lambda: app.trouble,
        lambda: app.draining,
        lambda: app.rolled_back,
    )
    return console_routes(view.snapshot, app.open_batch.read)
