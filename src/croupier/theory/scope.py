"""The numbers that every regret bound depends on besides batch size and budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from croupier.arguments import fraction, whole


@dataclass(frozen=True)
class Scope:
    """Horizon T, dimension d and alpha in (0, 1]; two failures of alpha each add up to 2 alpha."""

    horizon: int
    dim: int
    confidence: float

    def __post_init__(self) -> None:
        """Refuse what no theorem speaks of."""
        whole("horizon", self.horizon, 1)
        whole("dim", self.dim, 1)
        fraction("confidence", self.confidence)

    def batches(self, batch_size: float) -> float:
        """M = T/B, a real number where B does not divide T."""
        return self.horizon / fitting(batch_size, self.horizon)

    @property
    def log_horizon(self) -> float:
        """log T."""
        return math.log(self.horizon)

    @property
    def log_failure(self) -> float:
        """log(T/alpha)."""
        return math.log(self.horizon / self.confidence)


def fitting(batch_size: float, horizon: int) -> float:
    """A batch size in [1, T], or an error."""
    if not 1 <= batch_size <= horizon:
        raise ValueError(f"batch_size must be between 1 and {horizon}, got {batch_size!r}")
    return batch_size
