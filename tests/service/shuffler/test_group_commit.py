"""Group commit: durable before it is answered, grouped while the last commit runs, bounded."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from croupier.service.http.reasons import Reason, Refusal
from croupier.service.shuffler.group_commit import MOST_AT_ONCE, GroupCommit


class Ledger:
    """Commits that can be held up; answers every item with its double."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.entered, self.go = threading.Event(), threading.Event()

    def commit(self, items: Sequence[int]) -> list[int]:
        self.entered.set()
        assert self.go.wait(10)
        if 13 in items:
            raise OSError("disk full")
        self.groups.append(list(items))
        return [2 * item for item in items]


async def entered(ledger: Ledger) -> None:
    while not ledger.entered.is_set():
        await asyncio.sleep(0.001)


def test_what_comes_during_a_commit_goes_into_the_next() -> None:
    async def scene() -> None:
        ledger = Ledger()
        commits = GroupCommit(ledger.commit, 100)
        first = asyncio.create_task(commits.submit([1]))
        await entered(ledger)
        others = [asyncio.create_task(commits.submit([n, n + 1])) for n in (2, 4)]
        await asyncio.sleep(0)
        assert commits.length == 5
        assert not first.done()
        ledger.go.set()
        assert [await one for one in (first, *others)] == [[2], [4, 6], [8, 10]]
        assert ledger.groups == [[1], [2, 3, 4, 5]]
        assert commits.length == 0
        await commits.drain()

    asyncio.run(scene())


def test_a_full_queue_refuses_and_keeps_what_it_has() -> None:
    async def scene() -> None:
        ledger = Ledger()
        commits = GroupCommit(ledger.commit, 3)
        first = asyncio.create_task(commits.submit([1, 2]))
        await entered(ledger)
        with pytest.raises(Refusal) as refusal:
            await commits.submit([3, 4])
        assert refusal.value.reason is Reason.QUEUE_FULL
        second = asyncio.create_task(commits.submit([3]))
        ledger.go.set()
        assert [await first, await second] == [[2, 4], [6]]
        await commits.drain()

    asyncio.run(scene())


def test_a_failed_commit_is_told_to_its_group_and_to_nobody_else() -> None:
    async def scene() -> None:
        ledger = Ledger()
        commits = GroupCommit(ledger.commit, 100)
        ledger.go.set()
        with pytest.raises(OSError, match="disk full"):
            await commits.submit([13])
        assert await commits.submit([4]) == [8]
        assert commits.length == 0
        await commits.drain()

    asyncio.run(scene())


def test_a_request_that_is_given_up_is_committed_all_the_same() -> None:
    async def scene() -> None:
        ledger = Ledger()
        commits = GroupCommit(ledger.commit, 100)
        first = asyncio.create_task(commits.submit([1]))
        await entered(ledger)
        first.cancel()
        second = asyncio.create_task(commits.submit([2]))
        ledger.go.set()
        assert await second == [4]
        assert ledger.groups == [[1], [2]]
        await commits.drain()

    asyncio.run(scene())


def test_draining_waits_for_what_was_taken() -> None:
    async def scene() -> None:
        ledger = Ledger()
        commits = GroupCommit(ledger.commit, 100)
        taken = asyncio.create_task(commits.submit([1]))
        await entered(ledger)
        draining = asyncio.create_task(commits.drain())
        await asyncio.sleep(0.01)
        assert not draining.done()
        ledger.go.set()
        await draining
        assert ledger.groups == [[1]]
        assert await taken == [2]

    asyncio.run(scene())


def test_groups_stay_small_enough() -> None:
    async def scene() -> None:
        ledger = Ledger()
        commits = GroupCommit(ledger.commit, 10 * MOST_AT_ONCE)
        half = list(range(100, 100 + MOST_AT_ONCE // 2 + 1))
        tasks = [asyncio.create_task(commits.submit(half)) for _ in range(4)]
        ledger.go.set()
        await asyncio.gather(*tasks)
        assert [len(group) for group in ledger.groups] == [len(half)] * 4
        await commits.drain()

    asyncio.run(scene())
