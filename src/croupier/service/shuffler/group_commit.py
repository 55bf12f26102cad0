"""Group commit without linger: whatever came in during the last commit goes into the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from croupier.service.http.reasons import Reason, Refusal

Item = TypeVar("Item")
Answer = TypeVar("Answer")

MOST_AT_ONCE = 1024
"""Items in one transaction, so that a commit stays short however long the queue is."""


class GroupCommit(Generic[Item, Answer]):
    """One thread commits groups of items; an item is answered when its group is durable.

    ``capacity`` bounds the items that wait, those of the running commit included.
    """

    def __init__(self, commit: Callable[[Sequence[Item]], Sequence[Answer]], capacity: int) -> None:
        self._commit = commit
        self._capacity = capacity
        self._thread = ThreadPoolExecutor(1, "commits")
        self._waiting: list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]] = []
        self._length = 0
        self._running: asyncio.Task[None] | None = None

    @property
    def length(self) -> int:
        """Items that are not durable yet."""
        return self._length

    async def submit(self, items: Sequence[Item]) -> Sequence[Answer]:
        """Answers for these items, after they are durable; refused where the queue is full."""
        if self._length + len(items) > self._capacity:
            raise Refusal(Reason.QUEUE_FULL)
        answered: asyncio.Future[Sequence[Answer]] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, answered))
        self._length += len(items)
        if self._running is None:
            self._running = asyncio.create_task(self._work())
        return await answered

    async def drain(self) -> None:
        """Wait for the items that were taken, then end the thread."""
        if self._running is not None:
            await self._running
        self._thread.shutdown()

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._commit_group()
        finally:
            self._running = None

    async def _commit_group(self) -> None:
        group = self._next_group()
        items = [item for items, _ in group for item in items]
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._thread, self._commit, items)
        except Exception as error:  # every waiting request must hear of it
            _hand_out_error(group, error)
        else:
            _hand_out_answers(group, answers)
        self._length -= len(items)

    def _next_group(self) -> list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]]:
        count, size = 0, 0
        for items, _ in self._waiting:
            if count and size + len(items) > MOST_AT_ONCE:
                break
            count, size = count + 1, size + len(items)
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group


def _hand_out_answers(
    group: list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]], answers: Sequence[Answer]
) -> None:
    """Hand out the answers; a request that was given up has no one to tell."""
    start = 0
    for items, answered in group:
        if not answered.done():
            answered.set_result(answers[start : start + len(items)])
        start += len(items)


def _hand_out_error(
    group: list[tuple[Sequence[Item], asyncio.Future[Sequence[Answer]]]], error: Exception
) -> None:
    for _, answered in group:
        if not answered.done():
            answered.set_exception(error)
