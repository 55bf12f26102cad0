"""Mean rewards of a run on data, beside those of chance and of who knows everything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from croupier.simulation.data.base import DataProblem, Floats
from croupier.simulation.outcomes import SweepOutcome

LAST = 0.1
"""The share of rounds at the end that shows what was learnt."""


@dataclass(frozen=True)
class Mean:
    """A mean over trials and its standard error, NaN for a single trial."""

    value: float
    error: float

    def document(self) -> dict[str, float | None]:
        """Plain values for JSON."""
        return {
            "mean": self.value,
            "standard_error": None if math.isnan(self.error) else self.error,
        }

    def __str__(self) -> str:
        return f"{self.value:.3f}" + ("" if math.isnan(self.error) else f" +- {self.error:.3f}")


@dataclass(frozen=True)
class Rewards:
    """Mean reward of a round: of all rounds, of the last tenth, and what to hold them against.

    ``constant`` is the best single arm, None where arms are not the same twice.
    """

    overall: Mean
    last: Mean
    uniform: float
    constant: float | None
    best: float

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "mean_reward": self.overall.document(),
            "last_tenth_reward": self.last.document(),
            "uniform_reward": self.uniform,
            "constant_arm_reward": self.constant,
            "best_reward": self.best,
        }


def rewards(outcome: SweepOutcome) -> Rewards:
    """What a run on a data problem earned: the best possible less its regret."""
    problem = outcome.job.problem
    if not isinstance(problem, DataProblem):
        raise ValueError(f"problem must be one of data, got {problem.name!r}")
    best, rounds, regret = problem.best_reward, outcome.rounds, outcome.regret
    start = int(np.searchsorted(rounds, (1 - LAST) * rounds[-1]))
    start = min(start, rounds.size - 2) if rounds.size > 1 else 0
    before = (rounds[start], regret[:, start]) if rounds.size > 1 else (0, 0.0)
    late = (regret[:, -1] - before[1]) / (rounds[-1] - before[0])
    return Rewards(
        overall=_mean(best - regret[:, -1] / rounds[-1]),
        last=_mean(best - late),
        uniform=problem.uniform_reward,
        constant=problem.constant_reward,
        best=best,
    )


def _mean(values: Floats) -> Mean:
    if values.size == 1:
        return Mean(float(values[0]), math.nan)
    return Mean(float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size)))
