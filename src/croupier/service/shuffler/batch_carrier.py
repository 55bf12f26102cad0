"""One complete batch on its way to the analyzer and the next model back, step by step."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from croupier.service.http import logs
from croupier.service.http.metrics import INTERNAL
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import signed_documents
from croupier.service.messages.sealing import NO_PUBLIC_KEY
from croupier.service.messages.signed_documents import signed_share
from croupier.service.shuffler.agreement import first_entry_to_compare
from croupier.service.shuffler.analyzer_client import (
    AnalyzerClient,
    LearntModel,
    OpenedReports,
    UndeliveredError,
)
from croupier.service.shuffler.metrics import ShufflerMetrics
from croupier.service.shuffler.mirror import AnalyzerMirror
from croupier.service.shuffler.parts import ShufflerParts
from croupier.service.shuffler.rows import Basis, BatchState, ReleasedBatch
from croupier.service.storage.leases import Lease
from croupier.wire import Transport


class BatchCarrier:
    """Seals, releases, hands on and scrubs. Each step finds it done if it was done before.

    ``compared`` is whether the analyzer was ever asked how far it is; ``disagreement`` what did
    not fit then, in words.
    """

    def __init__(
        self,
        parts: ShufflerParts,
        analyzer: AnalyzerClient,
        mirror: AnalyzerMirror,
        metrics: ShufflerMetrics,
        run_in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._plan_id = parts.plan.id
        self._store = parts.store
        self._keyring = parts.keyring
        self._kind = parts.transport.kind
        self._analyzer = analyzer
        self._mirror = mirror
        self._metrics = metrics
        self._run_in_thread = run_in_thread
        self._log = logs.logger("shuffler")
        self.compared = False
        self.disagreement = ""

    async def carry(self, lease: Lease) -> None:
        """One batch as far as it goes."""
        await self._run_in_thread(self._keyring.tidy)
        await self.try_compare()
        await self._run_in_thread(partial(self._store.seal, lease.plan_id))
        await self._hand_on(lease)
        await self._run_in_thread(partial(self._store.scrub, lease.plan_id))

    async def _hand_on(self, lease: Lease) -> None:
        """Release the leased batch and have it acknowledged, unless that was done before."""
        batch = await self._run_in_thread(partial(self._store.current, lease.plan_id))
        if batch.index != lease.batch or batch.state not in (
            BatchState.SEALED,
            BatchState.RELEASED,
        ):
            return
        started = time.monotonic()
        await self._compare()
        released = await self._run_in_thread(partial(self._store.release, lease.plan_id))
        if released is None:
            return
        learnt = await self._deliver(released)
        key = await self.inner_key()
        await self._mirror.follow(learnt)
        basis = Basis(learnt.model_version, learnt.model_hash, key)
        await self._run_in_thread(
            partial(self._store.acknowledge, lease.plan_id, lease.batch, basis)
        )
        self._metrics.deliveries.add(None)
        self._log.info(
            "batch acknowledged",
            batch=lease.batch,
            model_version=learnt.model_version,
            seconds=round(time.monotonic() - started, 3),
        )

    async def try_compare(self) -> None:
        """Compare, if the analyzer can be asked: what was noted here is enough for a seal."""
        with suppress(UndeliveredError):
            await self._compare()

    async def _compare(self) -> None:
        """Refuse to go on where the analyzer's signed history does not fit ours."""
        plan_id = self._plan_id
        released = await self._run_in_thread(partial(self._store.released, plan_id))
        head = await self._analyzer.head(plan_id, first_entry_to_compare(released))
        found = await self._run_in_thread(partial(self._store.compare, plan_id, head))
        self.compared, self.disagreement = True, "" if found is None else found.words
        if found is not None:
            self._metrics.deliveries.add(Reason.ROLLED_BACK)
            self._log.error("rolled back", found=found.words)
            raise Refusal(Reason.ROLLED_BACK, found.words)

    async def _deliver(self, released: ReleasedBatch) -> LearntModel:
        """What the analyzer learnt from the batch.

        The bytes are the released ones, signed again: the key of then may be retired by now.
        """
        signature = signed_documents.sign_batch(released.body, self._keyring.signer)
        try:
            outcome = await self._analyzer.send(replace(released, signature=signature))
            if isinstance(outcome, LearntModel):
                return outcome
            return await self._send_share(released, outcome)
        except UndeliveredError as error:
            known = {reason.code for reason in Reason if reason.status}
            self._metrics.deliveries.add(error.reason if error.reason in known else INTERNAL)
            raise

    async def _send_share(self, released: ReleasedBatch, opened: OpenedReports) -> LearntModel:
        """Our part of the sum, over the set that the analyzer has settled on."""
        plan_id, index = released.plan_id, released.batch
        added = partial(self._store.share, plan_id, index, opened.flags, released.attempt)
        try:
            share = await self._run_in_thread(added)
        except Refusal as refusal:
            self._metrics.deliveries.add(refusal.reason)
            raise
        body = signed_share(plan_id, index, share)
        signature = signed_documents.sign_batch(body, self._keyring.signer)
        return await self._analyzer.send_share(plan_id, index, share, signature)

    async def inner_key(self) -> bytes:
        """The key that devices seal for the analyzer with, where they do.

        The list is asked for either way: models may be signed by a key that it announces.
        """
        key = await self._analyzer.sealing_key()
        return NO_PUBLIC_KEY if self._kind is Transport.BITS else key
