"""Where the tasks of a sweep are computed: in this process, in others beside it, on a cluster.

A place is handed a function and tasks and gives every task back once with its result, in any
order. Tasks are pure, so a task whose worker died is simply computed again.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Protocol, TypeVar

from croupier.arguments import whole
from croupier.errors import CroupierError

Task = TypeVar("Task")
Result = TypeVar("Result")

ATTEMPTS = 3
"""Processes that a task may end before it is given up."""

THREADS = (
    "BLIS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""Read by numerical libraries when they are loaded."""


class WorkerError(CroupierError):
    """Workers cannot be reached, do not fit, or end again and again at the same task."""


class Executor(Protocol):
    """Somewhere to compute."""

    def run(
        self, play: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Result]]:
        """Every task once, with its result."""


@dataclass(frozen=True)
class InProcess:
    """The process that asks, one task after the other."""

    def run(
        self, play: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Result]]:
        """In the order given."""
        for task in tasks:
            yield task, play(task)


@dataclass(frozen=True)
class Processes:
    """``workers`` fresh processes of one thread each."""

    workers: int

    def run(
        self, play: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Result]]:
        """As they are done; what a dying process took with it is played again, each alone."""
        if len(tasks) <= 1:
            yield from InProcess().run(play, tasks)
            return
        waiting = deque(tasks)
        while waiting:
            for task in (yield from self._until_broken(play, waiting)):
                yield task, _alone(play, task)

    def _until_broken(
        self, play: Callable[[Task], Result], waiting: deque[Task]
    ) -> Generator[tuple[Task, Result], None, list[Task]]:
        """Take tasks until none is left or a process dies; give back those it may have had."""
        size = min(self.workers, len(waiting))
        with _pool(size) as pool:
            running: dict[Future[Result], Task] = {}
            try:
                while waiting or running:
                    # As few as keep everybody busy: all of these are suspects when a process dies.
                    while waiting and len(running) <= size:
                        task = waiting[0]
                        running[_submit(pool, play, task)] = task
                        waiting.popleft()  # a pool that is broken already has not taken it
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        made = future.result()
                        yield running.pop(future), made
            except BrokenProcessPool:
                return list(running.values())
        return []


def _alone(play: Callable[[Task], Result], task: Task) -> Result:
    """The task in a process of its own, which tells a task that ends processes from the others."""
    for _ in range(ATTEMPTS):
        with _pool(1) as pool:
            try:
                return _submit(pool, play, task).result()
            except BrokenProcessPool:
                continue
    raise WorkerError(
        f"{task} ended its process {ATTEMPTS} times, also alone; what was written before stays"
    )


@contextmanager
def _pool(size: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes: a fork would copy the threads of a progress bar.

    Whoever leaves early, by Ctrl-C above all, wants no more results: workers are not waited for.
    """
    pool = ProcessPoolExecutor(
        size, mp_context=get_context("spawn"), initializer=_ignore_interrupts
    )
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _submit(
    pool: ProcessPoolExecutor, play: Callable[[Task], Result], task: Task
) -> Future[Result]:
    """Hand over a task; a process that is started for it has one thread."""
    with one_thread(), _interrupts_held():
        return pool.submit(play, task)


def _ignore_interrupts() -> None:
    """In a worker: a terminal's Ctrl-C is for the process that asked, and that one ends us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process that is started here is not interrupted before it can say that it will not be."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def one_thread() -> Iterator[None]:
    """An environment in which a process that is started here computes with one thread."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def choose_executor(workers: int, scheduler: str | None) -> Executor:
    """One process, several, or the cluster whose scheduler is named."""
    whole("workers", workers, 1)
    if scheduler is None:
        return InProcess() if workers == 1 else Processes(workers)
    if workers != 1:
        raise ValueError(f"workers must be left out with a scheduler, got {workers}")
    # A module of its own, which sweeps on one machine do not pay for.
    from croupier.simulation.dask_executor import DaskCluster

    return DaskCluster(scheduler)
