"""The courier: carries complete batches from the shuffler to the analyzer, one step at a time.

Every step can be repeated: what was done before is found done. Several processes may run one
over the same database; a lease keeps them from doing the same work twice.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import httpx

from croupier.errors import CroupierError
from croupier.service.http import logs
from croupier.service.http.metrics import INTERNAL
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.peer_keys import PeerKeys
from croupier.service.keys.published_reader import PublishedReader
from croupier.service.settings import PeerSettings, ShortBatchPolicy
from croupier.service.shuffler.analyzer_client import (
    AnalyzerClient,
    reason_of,
)
from croupier.service.shuffler.batch_carrier import BatchCarrier
from croupier.service.shuffler.metrics import ShufflerMetrics
from croupier.service.shuffler.mirror import AnalyzerMirror, WitnessMirror
from croupier.service.shuffler.mirrored_documents import MirroredDocuments
from croupier.service.shuffler.open_batch import OpenBatch
from croupier.service.shuffler.parts import ShufflerParts
from croupier.service.shuffler.rows import Basis, BatchRow, BatchState
from croupier.service.startup import read_peer_keys

Answer = TypeVar("Answer")

MIRROR_EVERY, WITNESS_EVERY = 10.0, 1.0
"""Seconds between two looks at what the analyzer announces, and at what a witness has signed."""


class Courier:
    """Seals, releases, hands on and scrubs the batches of one plan."""

    def __init__(
        self,
        parts: ShufflerParts,
        open_batch: OpenBatch,
        metrics: ShufflerMetrics,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        note: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """``note`` hears of every error: one may be that of a full disk."""
        self._note = note
        self._plan = parts.plan
        self._parts = parts
        self._store = parts.store
        self._settings = parts.settings.courier
        self._open_batch = open_batch
        self._metrics = metrics
        trust, patience = PeerKeys("analyzer", parts.trusted), self._settings.timeout
        self._analyzer = AnalyzerClient(
            parts.peer_url, parts.peer_token, trust, patience, transport
        )
        documents = MirroredDocuments(parts.database)
        self._mirror = AnalyzerMirror(parts.plan, self._analyzer, documents, self._run_in_thread)
        self._witness = self._make_witness_mirror(documents, transport)
        self._owner = secrets.token_hex(8)
        self._thread = ThreadPoolExecutor(1, "courier")
        self._carrier = BatchCarrier(
            parts, self._analyzer, self._mirror, metrics, self._run_in_thread
        )
        self._stopping = asyncio.Event()
        self._log = logs.logger("shuffler")
        self._failures = 0
        self._refreshed = -MIRROR_EVERY
        self.mirror_trouble = ""
        self.trouble = ""

    async def run(self) -> None:
        """Carry until told to stop; trouble is waited out, longer each time."""
        while not self._stopping.is_set():
            moved = await self._try_step()
            if not moved:
                await self._refresh_mirror()
                await self._wait()

    @property
    def disagreement(self) -> str:
        """What of the analyzer's signed history does not fit ours, in words."""
        return self._carrier.disagreement

    def stop(self) -> None:
        """End after the step that is being taken."""
        self._stopping.set()

    async def close(self) -> None:
        """Let go of connections and the thread."""
        await self._analyzer.close()
        if self._witness is not None:
            await self._witness.close()
        self._thread.shutdown()

    async def step(self) -> bool:
        """Take the next step of the plan; False if there is none to take."""
        batch = await self._open_batch.refresh()
        if self._open_batch.set_back:
            raise Refusal(Reason.ROLLED_BACK, self._open_batch.set_back)
        if batch is None:
            return await self._begin_plan()
        if not self._carrier.compared or self._carrier.disagreement:
            await self._carrier.try_compare()
        await self._run_in_thread(self._store.forget_again)
        if batch.state is BatchState.OPEN and batch.room:
            await self._mend_short_batch(batch)
        lease = await self._run_in_thread(
            partial(self._store.lease, self._owner, self._settings.lease)
        )
        if lease is None:
            return False
        try:
            await self._carrier.carry(lease)
        finally:
            await self._run_in_thread(partial(self._store.give_back, lease))
            await self._open_batch.refresh()
        return True

    async def settle(self) -> None:
        """Take all steps that can be taken now."""
        while await self.step():
            pass
        await self.refresh_mirror()

    async def refresh_mirror(self) -> None:
        """What is announced between two batches; trouble is noted and comes to nothing else.

        Our own keys are looked at too: one that is over is deleted only after several looks.
        """
        self._refreshed = time.monotonic()
        await self._run_in_thread(self._parts.keyring.tidy)
        found = await _try_refresh(self._mirror.refresh)
        if self._witness is not None:
            found = found or await _try_refresh(self._witness.refresh)
        if found and found != self.mirror_trouble:
            self._log.warning("mirror waits", reason=found)
        self.mirror_trouble = found

    async def _refresh_mirror(self) -> None:
        """The same, now and then: a witness is waited for by every device."""
        every = MIRROR_EVERY if self._witness is None else WITNESS_EVERY
        if time.monotonic() - self._refreshed >= every:
            await self.refresh_mirror()

    def _make_witness_mirror(
        self, documents: MirroredDocuments, transport: httpx.AsyncBaseTransport | None
    ) -> WitnessMirror | None:
        told = self._parts.settings.witness
        if told is None:
            return None
        pinned = read_peer_keys(PeerSettings(signing_key_file=told.signing_key_file))
        reader = PublishedReader("witness", told.url, pinned, transport)
        return WitnessMirror(self._plan.id, reader, documents, self._run_in_thread)

    async def _try_step(self) -> bool:
        """A step, or a note of what went wrong."""
        try:
            moved = await self.step()
        except CroupierError as error:
            self._note(error)
            self._note_trouble(error)
            return False
        except Exception as error:  # the courier outlives whatever happens to one batch
            self._note(error)
            self._metrics.deliveries.add(INTERNAL)
            self._log.error("courier failed", error=type(error).__name__, where=logs.where(error))
            self._failures, self.trouble = self._failures + 1, INTERNAL
            return False
        self._failures, self.trouble = 0, ""
        return moved

    def _note_trouble(self, error: CroupierError) -> None:
        reason = reason_of(error)
        self._failures += 1
        self._log.warning("batch waits", reason=reason, attempt=self._failures)
        self.trouble = reason

    async def _wait(self) -> None:
        """Until the next look: soon, or after failures up to the longest wait, spread out."""
        seconds = self._settings.every
        if self._failures:
            doubled = self._settings.first_wait * 2.0 ** min(self._failures - 1, 30)
            seconds = min(doubled, self._settings.longest_wait) * _random_factor()
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def _begin_plan(self) -> bool:
        """Open the plan with the model that the analyzer has published."""
        key = await self._carrier.inner_key()
        model = await self._mirror.begin()
        basis = Basis(model.version, model.hash, key)
        before = self._parts.settings.succeeds
        if before is None:
            await self._run_in_thread(partial(self._store.open_plan, self._plan, basis))
        else:
            await self._run_in_thread(partial(self._store.succeed, before, self._plan, basis))
        self._log.info("plan begun", plan=self._plan.id, model_version=model.version)
        return True

    async def _mend_short_batch(self, batch: BatchRow) -> None:
        """Pad or drop a batch that has stayed short for long, where that is the policy."""
        rules = self._parts.settings.batches
        if (
            rules.short is ShortBatchPolicy.WAIT
            or self._open_batch.waiting_seconds < rules.after_seconds
        ):
            return
        if rules.short is ShortBatchPolicy.PAD:
            floor = math.ceil(rules.floor * batch.size)
            count = await self._run_in_thread(partial(self._store.pad, self._plan.id, floor))
        else:
            count = await self._run_in_thread(partial(self._store.drop, self._plan.id))
        if count:
            self._log.warning(
                "batch was short", batch=batch.index, policy=rules.short.value, count=count
            )

    async def _run_in_thread(self, work: Callable[[], Answer]) -> Answer:
        """Work of the store, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


async def _try_refresh(refresh: Callable[[], Awaitable[None]]) -> str:
    """What went wrong, in a word."""
    try:
        await refresh()
    except CroupierError as error:
        return reason_of(error)
    return ""


def _random_factor() -> float:
    """A factor between 1/2 and 1, so that processes do not all come back at once."""
    return 0.5 + secrets.randbelow(1000) / 2000
