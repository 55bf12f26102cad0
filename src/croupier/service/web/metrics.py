"""Prometheus metrics: counts of refusals by reason, and public facts about plans and batches."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from croupier.service.shuffler.states import BatchState, State
from croupier.service.web.reasons import Reason

ACCEPTED, INTERNAL = "accepted", "internal"
MEDIA_TYPE = CONTENT_TYPE_LATEST


class Tally:
    """A counter by outcome; every outcome is there from the start, at zero."""

    def __init__(self, registry: CollectorRegistry, name: str, text: str) -> None:
        self._counter = Counter(name, text, ["reason"], registry=registry)
        codes = [ACCEPTED, INTERNAL, *(reason.code for reason in Reason if reason.status)]
        self._children = {code: self._counter.labels(code) for code in codes}

    def add(self, reason: Reason | str | None, count: int = 1) -> None:
        """Count an outcome; None is acceptance."""
        code = reason.code if isinstance(reason, Reason) else reason or ACCEPTED
        self._children[code].inc(count)

    @property
    def counts(self) -> dict[str, int]:
        """How often each outcome has happened, of those that have."""
        (found,) = self._counter.collect()
        totals = [one for one in found.samples if one.name.endswith("_total") and one.value]
        return {one.labels["reason"]: int(one.value) for one in totals}


class Gauges:
    """Numbers that are set when they are asked for."""

    def __init__(self, registry: CollectorRegistry, texts: Mapping[str, str]) -> None:
        self._gauges = {
            name: Gauge(f"croupier_{name}", text, registry=registry) for name, text in texts.items()
        }

    def set(self, **values: float) -> None:
        """Set some of them."""
        for name, value in values.items():
            self._gauges[name].set(value)


_SHUFFLER = {
    "batch_index": "Index of the newest batch.",
    "batch_size": "Reports that the newest batch waits for.",
    "batch_filled": "Reports in the newest batch.",
    "batch_open": "1 while the newest batch takes reports.",
    "batch_padded": "Zero-input reports in the newest batch.",
    "batch_dropped": "Reports of the newest batch that were dropped with an earlier try of it.",
    "batch_attempt": "How often the newest batch was emptied and begun again.",
    "oldest_open_report_seconds": "How long the open batch has had reports.",
    "ledger_batches": "Batches that were released and charged.",
    "ledger_batches_left": "Batches that the plan still has.",
    "model_version": "Version of the model of the newest batch.",
    "queue_length": "Reports that wait for their commit.",
    "openers": "Helper processes that are ready to open seals.",
}

_ANALYZER = {
    "next_batch": "Index of the batch that is learnt from next.",
    "ledger_batches": "Batches that were charged.",
    "ledger_batches_left": "Batches that the plan still has.",
    "model_version": "Version of the newest model.",
    "model_repairs": "Eigenvalues that had to be raised so far.",
    "dropped_attempts": "Batches of shares that came and of which too few reports opened.",
    "clipped_counts": "Counts of shared batches that no honest reports could have added up to.",
}


class ShufflerMetrics:
    """What the shuffler shows."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.reports = Tally(self._registry, "croupier_reports", "Reports by outcome.")
        self.deliveries = Tally(self._registry, "croupier_deliveries", "Tries to hand on a batch.")
        self.gauges = Gauges(self._registry, _SHUFFLER)

    def show_batch(self, batch: BatchState | None, waiting_seconds: float) -> None:
        """Set the gauges of the newest batch."""
        if batch is None:
            return
        self.gauges.set(
            batch_index=batch.index,
            batch_size=batch.size,
            batch_filled=batch.filled,
            batch_open=batch.state is State.OPEN,
            batch_padded=batch.padded,
            batch_dropped=batch.dropped,
            batch_attempt=batch.attempt,
            model_version=batch.model_version,
            oldest_open_report_seconds=waiting_seconds,
        )

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self._registry)


class AnalyzerMetrics:
    """What the analyzer shows."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.batches = Tally(self._registry, "croupier_batches", "Batches received by outcome.")
        self.gauges = Gauges(self._registry, _ANALYZER)

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self._registry)
