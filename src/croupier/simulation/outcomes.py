"""What a sweep found: regret over trials, its mean and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from croupier.simulation.jobs import SweepJob

Floats = NDArray[np.float64]

BAND = 0.95
"""Confidence of the intervals around means."""


@dataclass(frozen=True, eq=False)
class SweepOutcome:
    """Regret ``(trials, points)`` of one job after ``rounds (points,)``.

    ``publications (trials,)``: models that followed the first one.
    """

    job: SweepJob
    rounds: NDArray[np.int64]
    regret: Floats
    repairs: int
    publications: NDArray[np.int64]
    seconds: float

    @property
    def mean(self) -> Floats:
        """Mean regret over trials at every recorded round."""
        return np.asarray(self.regret.mean(axis=0))

    @property
    def standard_error(self) -> Floats:
        """Standard error of the mean; NaN for a single trial."""
        trials = len(self.regret)
        if trials == 1:
            return np.full(self.rounds.size, math.nan)
        return np.asarray(self.regret.std(axis=0, ddof=1) / math.sqrt(trials))

    @property
    def half_width(self) -> Floats:
        """Of the interval for the mean at every round (Student's t); NaN for a single trial."""
        return student_half_width(self.standard_error, len(self.regret))

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        errors = [None if math.isnan(error) else error for error in self.standard_error.tolist()]
        mean = self.mean.tolist()
        plan = self.job.plan
        return {
            "algorithm": self.job.label,
            "plan": plan.id,
            "protocol": plan.protocol,
            "calibration": plan.calibration,
            "problem": self.job.problem.name,
            "epsilon": self.job.epsilon,
            "refused": self.job.refused,
            "final_regret": {"mean": mean[-1], "standard_error": errors[-1]},
            "trials": len(self.regret),
            "horizon": int(self.rounds[-1]),
            "unreleased_rounds": plan.schedule.unreleased,
            "curve": {"round": self.rounds.tolist(), "mean": mean, "standard_error": errors},
            "repairs": self.repairs,
            "publications": float(self.publications.mean()),
            "seconds": self.seconds,
        }


def student_half_width(error: Floats, trials: int) -> Floats:
    """Standard errors of a mean of ``trials`` as half a 95 % interval: few trials widen it.

    The spread is measured, too, so that the mean is as Student's t with trials - 1 degrees says.
    """
    return np.asarray(stdtrit(max(trials - 1, 1), (1 + BAND) / 2) * error)
