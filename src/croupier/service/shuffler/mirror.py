"""The mirror: fetches what others publish and checks it, so that devices need not go there.

Nothing is kept that is not signed and in one chain with what was kept before, and no batch opens
before the model that its reports are made with is here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from croupier.errors import CroupierError, DocumentError
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.published_reader import PublishedReader
from croupier.service.messages import signed_documents
from croupier.service.messages.public_ledger import extends, read_public_ledger
from croupier.service.messages.witnessed_heads import WitnessedHead
from croupier.service.shuffler.analyzer_client import AnalyzerClient, LearntModel, PublishedDocument
from croupier.service.shuffler.mirrored_documents import (
    KEYS,
    LEDGER,
    MODEL,
    PLAN,
    WITNESS,
    WITNESS_KEYS,
    MirroredDocuments,
    model_name,
)

InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs what waits for a database, off the event loop."""

Documents = dict[str, bytes]


class AnalyzerMirror:
    """One plan's documents. ``run`` does the work of the database."""

    def __init__(
        self, plan: Plan, analyzer: AnalyzerClient, documents: MirroredDocuments, run: InThread
    ) -> None:
        self._plan = plan
        self._analyzer = analyzer
        self._documents = documents
        self._run = run

    async def begin(self) -> Model:
        """The model that the plan begins with, kept with all that devices fetch besides."""
        text = await self._analyzer.get(f"/v1/plans/{self._plan.id}")
        _require_same_plan(text, self._plan)
        newest = await self._analyzer.fetch_newest(self._plan.id)
        await self._keep({PLAN: text, **await self._collect(newest)})
        return newest.signed.model

    async def follow(self, learnt: LearntModel) -> None:
        """Keep the model that the analyzer says it has learnt, if it is published and signed."""
        newest = await self._analyzer.require_published(self._plan.id, learnt)
        await self._keep(await self._collect(newest))

    async def refresh(self) -> None:
        """The list of keys as it is now: rotations are announced at any time.

        With it come the newest models as they are signed now, so that devices which trust the keys
        of the list and no others can take them.
        """
        await self._analyzer.sealing_key()
        for ended in await self._run(partial(self._documents.plans_beside, self._plan.id)):
            # The analyzer may know nothing of it any more, and then it stays as it was.
            with suppress(CroupierError):
                await self._refresh_plan(ended)
        await self._refresh_plan(self._plan.id)

    async def _refresh_plan(self, plan_id: str) -> None:
        if await self._find(KEYS, plan_id) != self._analyzer.key_list:
            models = await self._fetch_again(plan_id)
            await self._keep({**models, KEYS: self._analyzer.key_list}, plan_id)

    async def _fetch_again(self, plan_id: str) -> Documents:
        """The newest model that is here, as the analyzer signs it now."""
        kept = await self._find(MODEL, plan_id)
        if kept is None:
            return {}
        name = signed_documents.read_model(kept).model.hash
        found = await self._analyzer.fetch_model(plan_id, name)
        return {MODEL: found.document, model_name(name): found.document}

    async def _collect(self, newest: PublishedDocument) -> Documents:
        models = await self._collect_models(newest)
        ledger = await self._fetch_ledger(newest)
        return {
            **models,
            MODEL: newest.document,
            LEDGER: ledger,
            KEYS: self._analyzer.key_list,
        }

    async def _collect_models(self, newest: PublishedDocument) -> Documents:
        """The newest and all before it that are not here, back to the one that was the newest."""
        text = await self._find(MODEL)
        known = None if text is None else signed_documents.read_model(text).model
        step, found = newest, {}
        while known is None or step.model.hash != known.hash:
            found[model_name(step.model.hash)] = step.document
            if known is None and not step.model.previous:
                break
            if not step.model.previous or (known and step.model.version <= known.version):
                raise Refusal(Reason.FORK, f"the analyzer's model {newest.model.version}")
            step = await self._fetch_predecessor(step.model)
        return found

    async def _fetch_predecessor(self, model: Model) -> PublishedDocument:
        before = await self._analyzer.fetch_predecessor(model)
        if before.model.version >= model.version:
            raise Refusal(Reason.FORK, f"version {model.version} has no predecessor")
        return before

    async def _fetch_ledger(self, newest: PublishedDocument) -> bytes:
        """The ledger, which the model rests on and which goes on where the one before ended."""
        text = await self._analyzer.get(f"/v1/plans/{self._plan.id}/ledger")
        entries = await self._run(partial(read_public_ledger, text, self._plan.id))
        if newest.signed.ledger not in {"", *(entry.hash for entry in entries)}:
            raise DocumentError(f"model {newest.model.version} rests on another ledger")
        kept = await self._find(LEDGER)
        read_kept = partial(read_public_ledger, kept or b"", self._plan.id)
        before = [] if kept is None else await self._run(read_kept)
        if not extends(entries, before):
            raise Refusal(Reason.FORK, f"the analyzer's ledger of {len(entries)} entries")
        return text

    async def _find(self, name: str, plan_id: str = "") -> bytes | None:
        find = partial(self._documents.find, plan_id or self._plan.id, name)
        found: bytes | None = await self._run(find)
        return found

    async def _keep(self, documents: Documents, plan_id: str = "") -> None:
        await self._run(partial(self._documents.keep, plan_id or self._plan.id, documents))


class WitnessMirror:
    """What one witness has signed of the plan."""

    def __init__(
        self, plan_id: str, reader: PublishedReader, documents: MirroredDocuments, run: InThread
    ) -> None:
        self._plan_id = plan_id
        self._reader = reader
        self._documents = documents
        self._run = run

    async def refresh(self) -> None:
        """Keep the newest head, and the keys that it was signed with, if it is of a model here."""
        text = await self._reader.get(f"/v1/plans/{self._plan_id}/head")
        if text == await self._run(partial(self._documents.find, self._plan_id, WITNESS)):
            return
        keys = await self._reader.follow_keys()
        head = await self._reader.believe(partial(WitnessedHead.verify, text))
        if head.plan != self._plan_id:
            raise Refusal(Reason.WRONG_PLAN, f"the witness has signed plan {head.plan}")
        await self._run(partial(self._documents.require_model, head.model))
        kept = {WITNESS: text, WITNESS_KEYS: keys}
        await self._run(partial(self._documents.keep, self._plan_id, kept))

    async def close(self) -> None:
        """Close the connections."""
        await self._reader.close()


def _require_same_plan(text: bytes, plan: Plan) -> None:
    try:
        found = Plan.from_json(text.decode())
    except UnicodeDecodeError as error:
        raise DocumentError("the analyzer's plan is not text") from error
    if found.id != plan.id:
        raise Refusal(Reason.WRONG_PLAN, f"the analyzer serves {found.id}")
