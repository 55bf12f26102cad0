"""What a sweep plays: plans on problems, under the names they have in tables and pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from croupier.arguments import whole
from croupier.model import canonical
from croupier.plan import Plan
from croupier.simulation.problem import Problem
from croupier.simulation.results import ResultPart


@dataclass(frozen=True)
class SweepJob:
    """A plan on a problem, under the name it has in tables and pictures.

    ``refused`` says why the calibration's theorem does not cover the plan, where it does not.
    ``seed`` is the sweep's unless the job has its own.
    """

    label: str
    plan: Plan
    problem: Problem
    refused: str = ""
    seed: int | None = None

    @property
    def epsilon(self) -> float | None:
        """The nominal epsilon."""
        return self.plan.budget.epsilon if self.plan.budget else None

    def part(self, seed: int, trials: range) -> ResultPart:
        """Some trials of it, under ``seed`` unless it has its own."""
        own = seed if self.seed is None else self.seed
        problem = problem_id(self.problem)
        return ResultPart(self.label, self.plan.id, problem, self.epsilon, own, trials)


def over_seeds(jobs: Sequence[SweepJob], seeds: Sequence[int]) -> list[SweepJob]:
    """Every job under every seed, the seeds of a job next to each other."""
    return [replace(job, seed=whole("seed", seed, 0)) for job in jobs for seed in seeds]


def problem_id(problem: Problem) -> str:
    """A problem's name with a short hash of its parameters."""
    return f"{problem.name}-{hashlib.sha256(canonical(problem_contents(problem))).hexdigest()[:8]}"


def problem_contents(problem: Problem) -> dict[str, Any]:
    """What sets a problem apart."""
    return {"name": problem.name, **asdict(problem)}
