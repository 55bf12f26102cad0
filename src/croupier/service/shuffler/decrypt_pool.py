"""Helper processes that open seals, so that the event loop does not have to.

Opening keeps the interpreter to itself, so that threads would not help. What no helper can do, for
want of one or because it ended, is done here: no report is refused for a helper's sake.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from croupier.service.http import logs
from croupier.service.messages import unsealing
from croupier.service.messages.unsealing import (
    LONGEST,
    READY,
    DecryptJob,
    FrameError,
    cut_frame,
    encode_frame,
)

Payloads = list[bytes | None]
"""Of the reports of a job, None for one that does not open."""

MOST_IN_FLIGHT = 16
"""Jobs that one helper may have; beyond that we take part, which also slows down what comes in."""

PAUSE = 5.0
"""Seconds until a helper that ended is replaced, so that one which cannot run costs little."""

PATIENCE = 10.0
"""Seconds after which a helper that does not answer counts as lost; a job takes milliseconds."""

END_SECONDS = 2.0
"""How long a helper may take to end by itself."""


class DecryptProcess(asyncio.SubprocessProtocol):
    """One child process; it answers jobs in their order, or is lost once and for all."""

    def __init__(self) -> None:
        self.ready = False
        self.lost = asyncio.Event()
        self._ended = asyncio.Event()
        self._data = bytearray()
        self._waiting: deque[tuple[DecryptJob, asyncio.Future[Payloads | None]]] = deque()

    @property
    def in_flight(self) -> int:
        """Jobs that are not answered yet."""
        return len(self._waiting)

    @property
    def pid(self) -> int:
        """Its process."""
        found: int = self._transport.get_pid()
        return found

    async def ask(self, job: DecryptJob, patience: float) -> Payloads | None:
        """The job's payloads, None if the helper cannot do it or is lost before it has."""
        body = job.encode()
        if len(body) > LONGEST:
            return None
        answered: asyncio.Future[Payloads | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, answered))
        self._input.write(encode_frame(body))
        try:
            async with asyncio.timeout(patience):
                return await answered
        except TimeoutError:
            self._give_up()
            return None

    async def end(self) -> int | None:
        """Close its input and wait for it, but not for long; the exit code."""
        self._give_up()
        self._input.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self._ended.wait()
        self._transport.close()  # which kills what still runs
        await self._ended.wait()
        found: int | None = self._transport.get_returncode()
        return found

    # What the event loop tells

    def connection_made(self, transport: Any) -> None:
        """It runs, but cannot answer yet."""
        self._transport = transport
        self._input = transport.get_pipe_transport(0)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Answers, or pieces of them; a helper that writes anything else is lost."""
        self._data += data
        try:
            while not self.lost.is_set() and (body := cut_frame(self._data)) is not None:
                self._take_answer(body)
        except FrameError:
            self._give_up()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """It has closed a pipe, which it does when it ends."""
        self._give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, and its pipes are closed."""
        self._give_up()
        self._ended.set()

    def _take_answer(self, body: bytes) -> None:
        if not self.ready and body == READY:
            self.ready = True
            return
        if not self._waiting:
            raise FrameError(f"an answer of {len(body)} bytes to no job")
        job, answered = self._waiting[0]
        _set_answer(answered, job.read_answer(body))
        self._waiting.popleft()

    def _give_up(self) -> None:
        """Whoever waits hears that there is no answer."""
        self.ready = False
        self.lost.set()
        for _, answered in self._waiting:
            _set_answer(answered, None)
        self._waiting.clear()


class DecryptPool:
    """A number of helpers, each replaced when it ends; they run from ``start`` to ``close``."""

    def __init__(
        self, count: int, role: str, *, pause: float = PAUSE, patience: float = PATIENCE
    ) -> None:
        self._count = count
        self._pause = pause
        self._patience = patience
        self._log = logs.logger(role)
        self._helpers: list[DecryptProcess] = []
        self._keepers: list[asyncio.Task[None]] = []

    @property
    def ready(self) -> list[DecryptProcess]:
        """The helpers that can be asked."""
        return [one for one in self._helpers if one.ready]

    def start(self) -> None:
        """Have the helpers started; until they are ready, seals are opened here."""
        self._keepers = [asyncio.create_task(self._keep_running()) for _ in range(self._count)]

    async def close(self) -> None:
        """End the helpers, if there are any."""
        keepers, self._keepers = self._keepers, []
        for one in keepers:
            one.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        helpers, self._helpers = self._helpers, []
        await asyncio.gather(*(one.end() for one in helpers))

    async def open(self, jobs: Sequence[DecryptJob]) -> list[Payloads]:
        """The payloads of every job's reports."""
        answers = await asyncio.gather(*(self._ask(job) for job in jobs))
        return [
            await _open_here(job) if found is None else found
            for job, found in zip(jobs, answers, strict=True)
        ]

    async def _ask(self, job: DecryptJob) -> Payloads | None:
        """The helper with the least to do."""
        free = [one for one in self.ready if one.in_flight < MOST_IN_FLIGHT]
        helper = min(free, key=lambda one: one.in_flight, default=None)
        return None if helper is None else await helper.ask(job, self._patience)

    async def _keep_running(self) -> None:
        """Run one helper after the other."""
        while True:
            try:
                self._log.warning("opener ended", status=await self._run_helper())
            except Exception as error:  # without it everything is opened here
                told = {"error": type(error).__name__, "where": logs.where(error)}
                self._log.warning("opener failed", **told)
            await asyncio.sleep(self._pause)

    async def _run_helper(self) -> int | None:
        """One helper's life; its exit code."""
        helper = await start_helper()
        self._helpers.append(helper)
        await helper.lost.wait()
        status = await helper.end()
        self._helpers.remove(helper)
        return status


async def start_helper() -> DecryptProcess:
    """A new helper, in a session of its own: a terminal's Ctrl-C is for us."""
    command = (sys.executable, "-P", unsealing.__file__)
    _, helper = await asyncio.get_running_loop().subprocess_exec(
        DecryptProcess,
        *command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return helper


async def _open_here(job: DecryptJob) -> Payloads:
    """In a turn of the event loop of its own, so that a large upload does not keep all others."""
    await asyncio.sleep(0)
    return job.open_reports()


def _set_answer(answered: asyncio.Future[Payloads | None], found: Payloads | None) -> None:
    """Set the answer, unless its request was given up."""
    if not answered.done():
        answered.set_result(found)
