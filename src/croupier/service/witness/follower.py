"""Looks at both services again and again, and signs a head when they agree on something new."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial

from croupier.errors import CroupierError, DocumentError
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.http import logs
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keylist import KeyList
from croupier.service.keys.published_reader import PublishedReader
from croupier.service.messages.public_ledger import read_public_ledger
from croupier.service.messages.signed_documents import (
    SignedModel,
    Signer,
    read_model,
    verify_model,
)
from croupier.service.messages.witnessed_heads import WitnessedHead
from croupier.service.witness.history import ForkedError, SeenHistory, witness_history
from croupier.service.witness.signed_heads import SignedHeads


class Follower:
    """One plan's witness. ``signer`` is asked for at each head, so that rotations are followed."""

    def __init__(
        self,
        plan: Plan,
        shuffler: PublishedReader,
        analyzer: PublishedReader,
        heads: SignedHeads,
        signer: Callable[[], Signer],
    ) -> None:
        self._plan = plan
        self._place = f"/v1/plans/{plan.id}"
        self._shuffler = shuffler
        self._analyzer = analyzer
        self._heads = heads
        self._signer = signer
        self._log = logs.logger("witness")
        self._stopping = asyncio.Event()
        self.trouble = ""

    async def run(self, every: float) -> None:
        """Look until told to stop, or until a fork was seen."""
        if self._heads.fork:
            self._log.error("FORK", reason=self._heads.fork[: logs.LONGEST])
        while not self._stopping.is_set() and not self._heads.fork:
            await self.try_look()
            try:
                await asyncio.wait_for(self._stopping.wait(), every)
            except TimeoutError:
                continue

    def stop(self) -> None:
        """End after the look that is being taken."""
        self._stopping.set()

    async def try_look(self) -> None:
        """A look, or a note of what went wrong; a fork is noted for good."""
        try:
            await self.look()
            self.trouble = ""
        except ForkedError as error:
            self._heads.note_fork(str(error))
            self._log.error("FORK", reason=str(error)[: logs.LONGEST])
        except CroupierError as error:
            self.trouble = f"{type(error).__name__}: {error}"
            self._log.warning("look failed", error=type(error).__name__)
        except Exception as error:  # the witness outlives whatever it is shown
            self.trouble = type(error).__name__
            self._log.error("look failed", error=self.trouble, where=logs.where(error))

    async def look(self) -> WitnessedHead | None:
        """The head that both services show now, signed if it is new; None if there is none yet."""
        if self._heads.fork:
            raise ForkedError(self._heads.fork)
        named = await self._find_named()
        if named is None:
            return None
        await self._require_same_plan()
        await self._follow_keys()
        seen = await self._read_history(named)
        if await self._find_named() != named:
            return None  # they moved on in between; what was read belongs to two moments
        head = witness_history(self._plan.id, seen, self._heads.last)
        if head != self._heads.last:
            self._heads.append(head, head.sign(self._signer()))
            self._log.info("head signed", model_version=head.version, count=head.entries)
        return head

    async def _find_named(self) -> str | None:
        """The hash that the shuffler names: of its newest batch, or the plan's last model."""
        try:
            told = json.loads(await self._shuffler.get(f"{self._place}/batch"))
            return str(told["model_hash"])
        except Refusal as refusal:
            if refusal.reason is Reason.BATCH_CLOSED:
                return None
            if refusal.reason is not Reason.PLAN_ENDED:
                raise
        except (ValueError, KeyError, TypeError) as error:
            raise DocumentError(f"the shuffler's batch makes no sense: {error!r}") from error
        return read_model(await self._shuffler.get(f"{self._place}/model")).model.hash

    async def _require_same_plan(self) -> None:
        for service in (self._shuffler, self._analyzer):
            text = await service.get(self._place)
            if Plan.from_json(text.decode(errors="replace")).id != self._plan.id:
                raise ForkedError(f"the {service.role} shows another plan")

    async def _follow_keys(self) -> None:
        """Both lists, and the analyzer's as the shuffler shows it."""
        await self._shuffler.follow_keys()
        await self._analyzer.follow_keys()
        mirrored = await self._shuffler.get("/v1/analyzer/keys")
        await self._analyzer.believe(partial(KeyList.verify, mirrored, "analyzer"))

    async def _read_history(self, named: str) -> SeenHistory:
        models = await self._read_models(named)
        mirrored = read_public_ledger(
            await self._shuffler.get(f"{self._place}/ledger"), self._plan.id
        )
        published = read_public_ledger(
            await self._analyzer.get(f"{self._place}/ledger"), self._plan.id
        )
        return SeenHistory(models, mirrored, published)

    async def _read_models(self, named: str) -> list[SignedModel]:
        """From the named model back to the one of the last head, as both services show them."""
        last = self._heads.last
        found = [await self._require_mirrored(await self._find_published(named))]
        while last is None or found[-1].model.hash != last.model:
            newest = found[-1].model
            if last is None and not newest.previous:
                break
            if not newest.previous or (last is not None and newest.version <= last.version):
                raise ForkedError(f"model {named} does not descend from {last and last.model}")
            found.append(await self._require_mirrored(await self._read_before(newest)))
        return found

    async def _find_published(self, named: str) -> SignedModel:
        """The named model, which is the analyzer's newest or one that this has learnt on from.

        The newest is signed, all others are named by the one after them: keys that have signed
        them may be retired.
        """
        text = await self._analyzer.get(f"{self._place}/model")
        found = await self._analyzer.believe(partial(verify_model, text))
        newest = found.model
        while found.model.hash != named:
            if not found.model.previous:
                raise ForkedError(f"model {newest.version} does not descend from {named}")
            found = await self._read_before(found.model)
        return found

    async def _read_before(self, model: Model) -> SignedModel:
        found = read_model(await self._read_published(model.previous))
        if found.model.hash != model.previous:
            raise ForkedError(f"model {found.model.hash} is shown as {model.previous}")
        if found.model.version >= model.version:
            raise ForkedError(f"version {model.version} follows version {found.model.version}")
        return found

    async def _read_published(self, model_hash: str) -> bytes:
        try:
            return await self._analyzer.get(f"/v1/models/{model_hash}")
        except Refusal as refusal:
            if refusal.reason is not Reason.NOT_FOUND:
                raise
            raise ForkedError(f"the analyzer has no model {model_hash}") from refusal

    async def _require_mirrored(self, found: SignedModel) -> SignedModel:
        """The shuffler shows the same; it may be signed by another key of the analyzer."""
        name = found.model.hash
        shown = read_model(await self._shuffler.get(f"/v1/models/{name}"))
        if (shown.model.hash, shown.ledger) != (name, found.ledger):
            raise ForkedError(f"the services show different models {name}")
        if found.model.plan_id != self._plan.id:
            raise ForkedError(f"model {name} is one of plan {found.model.plan_id}")
        return found
