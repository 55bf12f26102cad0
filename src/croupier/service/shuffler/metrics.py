"""What the shuffler counts and shows: public facts about its newest batch."""

from __future__ import annotations

from croupier.service.http.metrics import Metrics
from croupier.service.shuffler.rows import BatchRow, BatchState

_TEXTS = {
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


class ShufflerMetrics(Metrics):
    """What the shuffler shows."""

    def __init__(self) -> None:
        super().__init__(_TEXTS)
        self.reports = self.tally("croupier_reports", "Reports by outcome.")
        self.deliveries = self.tally("croupier_deliveries", "Tries to hand on a batch.")

    def show_batch(self, batch: BatchRow | None, waiting_seconds: float) -> None:
        """Set the gauges of the newest batch."""
        if batch is None:
            return
        self.gauges.set(
            batch_index=batch.index,
            batch_size=batch.size,
            batch_filled=batch.filled,
            batch_open=batch.state is BatchState.OPEN,
            batch_padded=batch.padded,
            batch_dropped=batch.dropped,
            batch_attempt=batch.attempt,
            model_version=batch.model_version,
            oldest_open_report_seconds=waiting_seconds,
        )
