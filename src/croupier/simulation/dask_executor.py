"""Sweeps on a Dask cluster that is named by the address of its scheduler."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from croupier.errors import MissingExtraError
from croupier.simulation.executors import Result, Task, WorkerError

SECONDS = 5
"""How long a scheduler may take to answer, and to have a worker."""

PACKAGES = ("croupier", "numba", "numpy", "scipy")
"""Numbers are the same where these are."""

ABOVE = {"cli", "figures", "service"}
"""Rooms that a simulation does not enter."""


@dataclass(frozen=True)
class DaskCluster:
    """The workers of the Dask scheduler at ``address``, as tcp://host:port or tls://host:port."""

    address: str

    def __post_init__(self) -> None:
        """One scheduler and no guessing."""
        if not _complete(self.address):
            raise ValueError(
                f"scheduler must be tcp://host:port or tls://host:port, got {self.address!r}"
            )

    def run(
        self, play: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Result]]:
        """As they are done; the cluster is reached and checked before anything is computed."""
        if not tasks:
            return iter(())
        with ExitStack() as stack:
            client = stack.enter_context(connected(self.address))
            check_workers(client, self.address)
            return self._gathered(client, stack.pop_all(), play, tasks)

    def _gathered(
        self, client: Any, stack: ExitStack, play: Callable[[Task], Result], tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, Result]]:
        """Dask gives the tasks of a worker that dies to another one."""
        with stack:  # closing the client forgets its tasks, also when the sweep is stopped
            futures = {client.submit(play, task, pure=False): task for task in tasks}
            for future in dask().as_completed(futures, loop=client.loop):
                yield futures[future], self._result(future, futures[future])

    def _result(self, future: Any, task: object) -> Any:
        try:
            return future.result()
        except dask().KilledWorker as error:
            raise WorkerError(
                f"{task} ended its worker at {self.address} again and again; "
                "what was written before stays"
            ) from error
        except (dask().CancelledError, OSError) as error:
            if future.status == "error":  # the task's own, as of a file that is not there
                raise
            raise WorkerError(
                f"the scheduler at {self.address} went away; what was written before stays"
            ) from error


def dask() -> Any:
    """The library, which croupier can do without."""
    try:
        return import_module("distributed")
    except ImportError as error:
        raise MissingExtraError("distributed", "sweep") from error


def _complete(address: str) -> bool:
    """A scheme, a host and a port, and nothing else."""
    parts = re.fullmatch(r"(?:tcp|tls)://(?:[\w.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})", address)
    return parts is not None and 0 < int(parts[1]) < 65_536


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler, or one line on why there is none."""
    make = dask().Client
    try:
        _greet(address)
        client = make(address, timeout=SECONDS, set_as_default=False)
    except Exception as error:  # a stranger's answer may be anything
        reason = " ".join(str(error).split()) or f"silence for {SECONDS} s"
        raise WorkerError(f"no Dask scheduler answers at {address}: {reason}") from error
    with _quiet("distributed.client"), client:
        yield client


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Dask tells of a lost scheduler in a traceback; the error says it in a line."""
    log = logging.getLogger(name)
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _greet(address: str) -> None:
    """Shake hands in bounded time, which a client does not: it waits for a silent port forever."""
    with ThreadPoolExecutor(1) as thread:  # the caller may have an event loop of its own
        thread.submit(asyncio.run, _greeted(address)).result()


async def _greeted(address: str) -> None:
    credentials = dask().Security().get_connection_args("client")
    greeting = dask().comm.connect(address, SECONDS, **credentials)
    comm = await asyncio.wait_for(greeting, SECONDS + 1)
    await comm.close()


def check_workers(client: Any, address: str) -> None:
    """Refuse a cluster that is empty, or that would compute something else."""
    try:
        client.wait_for_workers(1, timeout=SECONDS)
    except TimeoutError as error:
        raise WorkerError(
            f"the scheduler at {address} has no workers; start one with: dask worker {address}"
        ) from error
    for package in PACKAGES:
        refuse_strangers(package, _own_version(package), _asked(client, version, package))
    refuse_strangers("croupier's source", source(), _asked(client, source))


def _own_version(package: str) -> str:
    """What is installed here; numba alone may not be."""
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise MissingExtraError(package, "simulate") from error


def _asked(client: Any, question: Callable[..., str], *words: str) -> dict[str, Any]:
    """What every worker answers; an exception where it raises one."""
    answers: dict[str, Any] = client.run(question, *words, on_error="return")
    return answers


def refuse_strangers(subject: str, here: str, there: dict[str, Any]) -> None:
    """Insist that every worker has what this process has; the first that has not is named."""
    for worker, answer in sorted(there.items()):
        if isinstance(answer, PackageNotFoundError):
            raise WorkerError(f"worker {worker} has no {subject}; here it is {here}")
        if isinstance(answer, Exception):
            raise WorkerError(f"worker {worker} cannot tell {subject}: {answer}")
        if answer != here:
            raise WorkerError(f"worker {worker} has {subject} {answer}; here it is {here}")


@cache
def source() -> str:
    """A short hash of the files that a simulation runs; one version may have many contents."""
    content = hashlib.sha256()
    for name, path in sorted(_files(Path(__file__).parent.parent)):
        content.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return content.hexdigest()[:12]


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for path in root.rglob("*.py"):
        name = path.relative_to(root)
        if name.parts[0] not in ABOVE:
            yield name.as_posix(), path
