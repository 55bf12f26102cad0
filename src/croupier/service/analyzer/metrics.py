"""What the analyzer counts and shows: public facts about its plan and models."""

from __future__ import annotations

from croupier.service.http.metrics import Metrics

_TEXTS = {
    "next_batch": "Index of the batch that is learnt from next.",
    "ledger_batches": "Batches that were charged.",
    "ledger_batches_left": "Batches that the plan still has.",
    "model_version": "Version of the newest model.",
    "model_repairs": "Eigenvalues that had to be raised so far.",
    "dropped_attempts": "Batches of shares that came and of which too few reports opened.",
    "quarantined_batches": "Batches that are not learnt from before the operator has decided.",
    "clipped_counts": "Counts of shared batches that no honest reports could have added up to.",
}


class AnalyzerMetrics(Metrics):
    """What the analyzer shows."""

    def __init__(self) -> None:
        super().__init__(_TEXTS)
        self.batches = self.tally("croupier_batches", "Batches received by outcome.")
