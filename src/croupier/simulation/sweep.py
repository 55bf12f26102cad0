"""Sweeps: many trials of many algorithms, on one process or several, with the same numbers."""

from __future__ import annotations

import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole
from croupier.model import canonical
from croupier.plan import Plan
from croupier.simulation import engine
from croupier.simulation.problems import Problem
from croupier.simulation.results import Part, Played, Results

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Called with rounds done and rounds in all."""

TRIALS_PER_PART = 25
"""Trials that are computed together; fixed, so that the number of workers changes nothing."""

DEFAULT_POINTS = 200


@dataclass(frozen=True)
class Job:
    """A plan on a problem, under the name it has in tables and pictures.

    ``refused`` says why the calibration's theorem does not cover the plan, where it does not.
    """

    label: str
    plan: Plan
    problem: Problem
    refused: str = ""

    @property
    def epsilon(self) -> float | None:
        """The nominal epsilon."""
        return self.plan.budget.epsilon if self.plan.budget else None


@dataclass(frozen=True, eq=False)
class Outcome:
    """Regret ``(trials, points)`` of one job after ``rounds (points,)``.

    ``publications (trials,)``: models that followed the first one.
    """

    job: Job
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


def simulate(
    plan: Plan,
    problem: Problem,
    *,
    trials: int,
    seed: int = 0,
    workers: int = 1,
    out: str | Path | None = None,
    progress: Progress | None = None,
    points: int = DEFAULT_POINTS,
) -> Outcome:
    """Play one plan; see ``sweep``."""
    job = Job(plan.protocol, plan, problem)
    settings = {"trials": trials, "seed": seed, "workers": workers, "points": points}
    (outcome,) = sweep([job], out=out, progress=progress, **settings)
    return outcome


def sweep(
    jobs: Sequence[Job],
    *,
    trials: int,
    seed: int = 0,
    workers: int = 1,
    out: str | Path | None = None,
    progress: Progress | None = None,
    points: int = DEFAULT_POINTS,
) -> list[Outcome]:
    """Play every job on the same users and give the outcomes in the same order.

    With ``out`` every part is written as soon as it is done, and a run that was killed goes on
    where it stopped. The numbers follow from the jobs, ``trials``, ``seed`` and ``points``;
    ``workers`` changes only the time.
    """
    whole("trials", trials, 1)
    whole("seed", seed, 0)
    whole("workers", workers, 1)
    whole("points", points, 1)
    results = Results(Path(out), _manifest(jobs, trials, seed, points)) if out else None
    tasks = list(_tasks(jobs, trials, seed))
    played: dict[tuple[int, int], Played] = {}
    report = _Report(progress, sum(task.rounds for task in tasks))
    for task, done in _played(tasks, workers, points, results):
        played[task.position, task.part.trials.start] = done
        report.add(task.rounds)
    return [_outcome(job, position, played) for position, job in enumerate(jobs)]


@dataclass(frozen=True)
class Task:
    """One part of one job."""

    position: int
    job: Job
    part: Part

    @property
    def rounds(self) -> int:
        """Rounds over all trials."""
        return self.job.plan.schedule.rounds * len(self.part.trials)


class _Report:
    """Adds up rounds for a progress callback."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0
        self.add(0)

    def add(self, rounds: int) -> None:
        self._done += rounds
        if self._progress is not None:
            self._progress(self._done, self._total)


def _tasks(jobs: Sequence[Job], trials: int, seed: int) -> Iterator[Task]:
    for start in range(0, trials, TRIALS_PER_PART):
        group = range(start, min(start + TRIALS_PER_PART, trials))
        for position, job in enumerate(jobs):
            yield Task(position, job, Part(job.label, job.plan.id, job.epsilon, seed, group))


def _played(
    tasks: list[Task], workers: int, points: int, results: Results | None
) -> Iterator[tuple[Task, Played]]:
    """Parts that are on disk first, then the others as they are made."""
    left = []
    for task in tasks:
        done = results.load(task.part) if results else None
        if done is None:
            left.append(task)
        else:
            yield task, done
    for task, made in _computed(left, workers, points):
        if results:
            results.save(task.part, made)
        yield task, made


def _computed(tasks: list[Task], workers: int, points: int) -> Iterator[tuple[Task, Played]]:
    if workers == 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, _play(task, points)
        return
    with ExitStack() as stack:
        # Fresh processes: a fork would copy the threads of a progress bar.
        pool = ProcessPoolExecutor(min(workers, len(tasks)), mp_context=get_context("spawn"))
        stack.callback(pool.shutdown, wait=True, cancel_futures=True)
        futures = {pool.submit(_play, task, points): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _play(task: Task, points: int) -> Played:
    start = time.process_time()
    curves = engine.run(task.job.plan, task.job.problem, task.part.seed, task.part.trials, points)
    return Played(curves, time.process_time() - start)


def _outcome(job: Job, position: int, played: dict[tuple[int, int], Played]) -> Outcome:
    parts = [played[key] for key in sorted(played) if key[0] == position]
    regret = np.concatenate([part.curves.regret for part in parts])
    repairs = sum(part.curves.repairs for part in parts)
    publications = np.concatenate([part.curves.publications for part in parts])
    seconds = sum(part.seconds for part in parts)
    return Outcome(job, parts[0].curves.rounds, regret, repairs, publications, seconds)


def _manifest(jobs: Sequence[Job], trials: int, seed: int, points: int) -> dict[str, Any]:
    """What the rows of a results directory were made from."""
    return {
        "kind": "results",
        "seed": seed,
        "trials": trials,
        "points": points,
        "jobs": [
            {
                "label": job.label,
                "plan_id": job.plan.id,
                "plan": job.plan.content,
                "problem": {"name": job.problem.name, **asdict(job.problem)},
            }
            for job in jobs
        ],
    }


def available_workers() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fingerprint(jobs: Sequence[Job], trials: int, seed: int, points: int = DEFAULT_POINTS) -> str:
    """A short name for a sweep; the same question has the same name."""
    manifest = _manifest(jobs, trials, seed, points)
    return hashlib.sha256(canonical(manifest)).hexdigest()[:12]
