"""By which power of the x axis regret grows, as measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.figures.data import Series
from croupier.simulation.jobs import SweepJob
from croupier.simulation.outcomes import SweepOutcome


@dataclass(frozen=True)
class FittedSlope:
    """A fitted power; the error is NaN for a single trial."""

    power: float
    standard_error: float

    def __str__(self) -> str:
        """The power, with its error where there is one."""
        error = "" if math.isnan(self.standard_error) else f" +- {self.standard_error:.3f}"
        return f"{self.power:.3f}{error}"

    def document(self) -> dict[str, float | None]:
        """Plain values for JSON."""
        error = None if math.isnan(self.standard_error) else self.standard_error
        return {"power": self.power, "standard_error": error}


def fitted_slope(series: Series, outcomes: Mapping[SweepJob, SweepOutcome]) -> FittedSlope:
    """Least squares on logarithms of the means; the error by leaving out a trial at a time.

    Trials are left out at all positions at once, because they share their users.
    """
    last = np.array([outcomes[job].regret[:, -1] for job in series.jobs])
    positions = np.log(series.at)
    trials = last.shape[1]
    if trials == 1:
        return FittedSlope(_power(positions, last[:, 0]), math.nan)
    total = last.sum(axis=1, keepdims=True)
    without = [_power(positions, mean) for mean in ((total - last) / (trials - 1)).T]
    error = math.sqrt((trials - 1) * float(np.var(without)))
    return FittedSlope(_power(positions, total[:, 0] / trials), error)


def _power(positions: NDArray[np.float64], means: NDArray[np.float64]) -> float:
    centred = positions - positions.mean()
    return float(centred @ np.log(means) / (centred @ centred))
