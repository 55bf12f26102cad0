"""Sweeps: many trials of many algorithms, wherever they are computed with the same numbers."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole
from croupier.model import canonical
from croupier.plan import Plan
from croupier.simulation import engine
from croupier.simulation.executors import choose_executor
from croupier.simulation.jobs import SweepJob, problem_contents
from croupier.simulation.outcomes import SweepOutcome
from croupier.simulation.problem import Problem
from croupier.simulation.results import COLUMNS, PlayedPart, ResultPart, Results

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
"""Called with rounds done and rounds in all."""

TRIALS_PER_PART = 25
"""Trials that are computed together; fixed, so that the number of workers changes nothing."""

DEFAULT_POINTS = 200


def simulate(
    plan: Plan,
    problem: Problem,
    *,
    trials: int,
    seed: int = 0,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    points: int = DEFAULT_POINTS,
) -> SweepOutcome:
    """Play one plan; see ``sweep``."""
    job = SweepJob(plan.protocol, plan, problem)
    settings = {"trials": trials, "seed": seed, "workers": workers, "points": points}
    (outcome,) = sweep([job], scheduler=scheduler, out=out, progress=progress, **settings)
    return outcome


def sweep(
    jobs: Sequence[SweepJob],
    *,
    trials: int,
    seed: int = 0,
    workers: int = 1,
    scheduler: str | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
    points: int = DEFAULT_POINTS,
) -> list[SweepOutcome]:
    """Play every job on the same users and give the outcomes in the same order.

    With ``out`` every part is written as soon as it is done, and a run that was killed goes on
    where it stopped. The numbers follow from the jobs, ``trials``, ``seed`` and ``points``;
    ``workers``, or the Dask cluster at the address ``scheduler``, change only the time.
    """
    whole("trials", trials, 1)
    whole("seed", seed, 0)
    whole("points", points, 1)
    where = choose_executor(workers, scheduler)
    results = Results(Path(out), _manifest(jobs, trials, seed, points)) if out else None
    tasks = list(_tasks(jobs, trials, seed))
    known, left = _known(tasks, results)
    made = where.run(_player(points, scheduler), left)
    report = _Report(progress, sum(task.rounds for task in tasks))
    played: dict[tuple[int, int], PlayedPart] = {}
    for task, done in chain(known, _saved(made, results)):
        played[task.position, task.part.trials.start] = done
        report.add(task.rounds)
    return [_outcome(job, position, played) for position, job in enumerate(jobs)]


@dataclass(frozen=True)
class SweepTask:
    """One part of one job."""

    position: int
    job: SweepJob
    part: ResultPart

    @property
    def rounds(self) -> int:
        """Rounds over all trials."""
        return self.job.plan.schedule.rounds * len(self.part.trials)

    def __str__(self) -> str:
        part = self.part
        trials = f"trials {part.trials.start} to {part.trials.stop - 1}"
        return f"{part.algorithm} on {part.problem}, seed {part.seed}, {trials}"


class _Report:
    """Adds up rounds for a progress callback."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0
        self.add(0)

    def add(self, rounds: int) -> None:
        self._done += rounds
        if self._progress is not None:
            self._progress(self._done, self._total)


def _tasks(jobs: Sequence[SweepJob], trials: int, seed: int) -> Iterator[SweepTask]:
    for start in range(0, trials, TRIALS_PER_PART):
        group = range(start, min(start + TRIALS_PER_PART, trials))
        for position, job in enumerate(jobs):
            yield SweepTask(position, job, job.part(seed, group))


def _known(
    tasks: list[SweepTask], results: Results | None
) -> tuple[list[tuple[SweepTask, PlayedPart]], list[SweepTask]]:
    """Parts that are on disk, and the tasks that are left."""
    found = [(task, results.load(task.part) if results else None) for task in tasks]
    return (
        [(task, done) for task, done in found if done is not None],
        [task for task, done in found if done is None],
    )


def _saved(
    made: Iterator[tuple[SweepTask, PlayedPart]], results: Results | None
) -> Iterator[tuple[SweepTask, PlayedPart]]:
    for task, done in made:
        if results:
            results.save(task.part, done)
        yield task, done


def _player(points: int, scheduler: str | None) -> Callable[[SweepTask], PlayedPart]:
    """The function that every place calls; a worker of a cluster may do so in several threads."""
    clock = time.process_time if scheduler is None else time.thread_time
    return partial(_play, points=points, clock=clock)


def _play(task: SweepTask, points: int, clock: Callable[[], float]) -> PlayedPart:
    start = clock()
    curves = engine.run(task.job.plan, task.job.problem, task.part.seed, task.part.trials, points)
    return PlayedPart(curves, clock() - start)


def _outcome(
    job: SweepJob, position: int, played: dict[tuple[int, int], PlayedPart]
) -> SweepOutcome:
    parts = [played[key] for key in sorted(played) if key[0] == position]
    regret = np.concatenate([part.curves.regret for part in parts])
    repairs = sum(part.curves.repairs for part in parts)
    publications = np.concatenate([part.curves.publications for part in parts])
    seconds = sum(part.seconds for part in parts)
    return SweepOutcome(job, parts[0].curves.rounds, regret, repairs, publications, seconds)


def _manifest(jobs: Sequence[SweepJob], trials: int, seed: int, points: int) -> dict[str, Any]:
    """What the rows of a results directory were made from."""
    return {
        "kind": "results",
        "columns": list(COLUMNS),
        "seed": seed,
        "trials": trials,
        "points": points,
        "jobs": [_job_contents(job) for job in jobs],
    }


def _job_contents(job: SweepJob) -> dict[str, Any]:
    own = {} if job.seed is None else {"seed": job.seed}
    problem, plan = problem_contents(job.problem), job.plan
    return {"label": job.label, "plan_id": plan.id, "plan": plan.content, "problem": problem, **own}


def available_workers() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def fingerprint(
    jobs: Sequence[SweepJob], trials: int, seed: int, points: int = DEFAULT_POINTS
) -> str:
    """A short name for a sweep; the same question has the same name."""
    manifest = _manifest(jobs, trials, seed, points)
    return hashlib.sha256(canonical(manifest)).hexdigest()[:12]
