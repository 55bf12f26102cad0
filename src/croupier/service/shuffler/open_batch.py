"""What a process of the shuffler knows of the newest batch without asking the database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, Protocol, TypeVar

from croupier.service.http.reasons import Reason, Refusal
from croupier.service.shuffler.rows import BatchRow, BatchState, PlanRow

Answer = TypeVar("Answer")

FRESH = 0.1
"""Seconds for which an answer of the database is believed when a report contradicts it."""


class BatchReader(Protocol):
    """The part of the store that is read here."""

    def current(self, plan_id: str) -> BatchRow:
        """The newest batch of a plan."""

    def plans(self) -> list[PlanRow]:
        """Every plan."""

    def set_back(self, plan_id: str) -> str:
        """How the database contradicts what was noted outside of it, in words."""


class OpenBatch:
    """The newest batch of one plan, and for how long its first report has been waiting.

    Front ends share a database, so this is a belief: the database decides about every report.
    """

    def __init__(
        self, store: BatchReader, plan_id: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._plan_id = plan_id
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "reads")
        self._seen = -FRESH
        self._waiting: tuple[int, int, float] | None = None
        self.batch: BatchRow | None = None
        self.ended = False
        self.set_back = ""
        self.ended_plans: frozenset[str] = frozenset()

    async def read(self, work: Callable[[], Answer]) -> Answer:
        """Ask the database something, without holding up other requests."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def refresh(self) -> BatchRow | None:
        """The newest batch as the database has it; None while the plan has not begun."""
        self.see(*await self.read(self._read))
        return self.batch

    async def confirm(self) -> None:
        """Look again, unless that was just done: reports that contradict us may be many."""
        if self._clock() - self._seen >= FRESH:
            await self.refresh()

    async def refuse_other_plan(self, plan_id: str) -> NoReturn:
        """What is asked of a plan that is not served: it may be one that has ended here."""
        await self.confirm()
        ended = plan_id in self.ended_plans
        raise Refusal(Reason.PLAN_ENDED if ended else Reason.WRONG_PLAN)

    async def require(self) -> BatchRow:
        """The newest batch, or the reason why there is none."""
        batch = self.batch or await self.refresh()
        if self.set_back:
            raise Refusal(Reason.ROLLED_BACK, self.set_back)
        if batch is None:
            raise Refusal(Reason.BATCH_CLOSED, "the plan has not begun")
        return batch

    def see(self, batch: BatchRow | None, ended: bool, set_back: str = "") -> None:
        """Take note of what the database said."""
        self.batch, self.ended, self._seen = batch, ended, self._clock()
        self.set_back = "" if ended else set_back
        if batch is None or batch.state is not BatchState.OPEN or batch.filled == 0:
            self._waiting = None
        elif self._waiting is None or self._waiting[:2] != (batch.index, batch.dropped):
            self._waiting = (batch.index, batch.dropped, self._seen)

    @property
    def waiting_seconds(self) -> float:
        """How long the open batch has had reports, as far as this process has seen."""
        return 0.0 if self._waiting is None else self._clock() - self._waiting[2]

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    def _read(self) -> tuple[BatchRow | None, bool, str]:
        set_back = self._store.set_back(self._plan_id)
        plans = {plan.id: plan for plan in self._store.plans()}
        self.ended_plans = frozenset(plan.id for plan in plans.values() if plan.ended)
        if self._plan_id not in plans:
            return None, False, set_back
        return self._store.current(self._plan_id), plans[self._plan_id].ended, set_back
