"""The analyzer over HTTP: plans and models for devices, batches from the shuffler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from croupier.service.analyzer.agreement import Agreement
from croupier.service.analyzer.ledger_texts import LedgerTexts
from croupier.service.analyzer.metrics import AnalyzerMetrics
from croupier.service.analyzer.model_age import ModelAge
from croupier.service.analyzer.parts import AnalyzerParts
from croupier.service.analyzer.quarantine import JudgedBatch
from croupier.service.analyzer.receiving import Answer, BatchReceiver
from croupier.service.disk_space import DiskWatch
from croupier.service.http import guards, logs, metrics, responses
from croupier.service.http.media_types import SIGNATURE
from croupier.service.http.openapi import analyzer_api
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.peer_keys import PeerKeys
from croupier.service.messages import signed_documents

Found = TypeVar("Found")

QUARANTINED = "quarantined"
"""The word for batches that are not learnt from until the operator has decided."""

MOST_WAITING = 4
"""Batches in memory at once; one is learnt from, the others wait."""


class AnalyzerApp:
    """An ASGI application over the analyzer's parts.

    ``transport`` is the way to the shuffler, which is asked for its keys only after a rotation.
    ``pages`` makes further routes, such as the console's.
    """

    def __init__(
        self,
        parts: AnalyzerParts,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        pages: Callable[[AnalyzerApp], Sequence[BaseRoute]] = lambda _: (),
    ) -> None:
        self.parts = parts
        self.metrics = AnalyzerMetrics()
        self._peer_keys = PeerKeys("shuffler", parts.trusted, parts.settings.peer.url, transport)
        self._receiver = BatchReceiver(parts, self._peer_keys)
        self._reads = ThreadPoolExecutor(1, "reads")
        self._lessons = ThreadPoolExecutor(1, "lessons")
        self._log = logs.logger("analyzer")
        self._waiting = 0
        self.agreement = Agreement(
            parts.settings.peer.url, parts.plan, self._read_learnt, transport
        )
        self._draining = False
        self._signs_with = b""
        self._disk = DiskWatch(parts.settings.database, parts.settings.keys.beside)
        self._ledgers = LedgerTexts(parts.store)
        self._trouble = ""
        self.model_age = ModelAge()
        self._routed = Starlette(
            routes=[*self._routes(), *pages(self)],
            exception_handlers=responses.EXCEPTION_HANDLERS,
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Everything is routed."""
        await self._routed(scope, receive, send)

    def drain(self) -> None:
        """Take nothing new; a batch that was taken is still learnt from."""
        self._draining = True

    async def close(self) -> None:
        """Finish what was taken, then end the threads."""
        self.drain()
        for thread in (self._lessons, self._reads):
            await asyncio.to_thread(thread.shutdown)

    def _routes(self) -> list[Route]:
        return [
            *responses.common_routes(
                self._blockers, self._metrics, analyzer_api(), lambda: self._trouble
            ),
            Route("/v1/keys", self._keys),
            Route("/v1/models/{hash}", self._model),
            Route("/v1/plans/{plan}", self._plan),
            Route("/v1/plans/{plan}/model", self._newest_model),
            Route("/v1/plans/{plan}/ledger", self._ledger),
            Route("/v1/plans/{plan}/batches", self._batches, methods=["POST"]),
            Route("/v1/plans/{plan}/batches/access", self._access),
            Route("/v1/plans/{plan}/batches/{batch}/share", self._share, methods=["POST"]),
        ]

    @property
    def draining(self) -> bool:
        """Whether nothing new is taken any more."""
        return self._draining

    # What devices read

    async def _keys(self, _request: Request) -> Response:
        self.parts.keyring.tidy()
        await self._sign_again()
        return Response(
            self.parts.keyring.document(),
            headers={"cache-control": responses.REVALIDATED},
            media_type="application/json",
        )

    async def _plan(self, request: Request) -> Response:
        plan_id = request.path_params["plan"]
        text = await self.read(partial(self.parts.store.plan_document, plan_id))
        return responses.tagged_response(request, text, plan_id, responses.IMMUTABLE)

    async def _newest_model(self, request: Request) -> Response:
        await self._sign_again()
        plan_id = request.path_params["plan"]
        text = (await self.read(partial(self.parts.store.newest_model, plan_id))).document
        tag = responses.tag_of(text)
        return responses.tagged_response(request, text, tag, responses.REVALIDATED)

    async def _model(self, request: Request) -> Response:
        await self._sign_again()
        text = await self.read(partial(self.parts.store.document, request.path_params["hash"]))
        return responses.tagged_response(request, text, responses.tag_of(text), responses.SIGNED)

    async def _sign_again(self) -> None:
        """Newest models are signed by the active key: nobody may trust that of their day by now.

        This is done before a new list of keys is shown, once for each key that becomes active.
        """
        signer = self.parts.keyring.signer
        if signer.id != self._signs_with:
            sign = partial(signed_documents.sign_model_again, signer=signer)
            await self.read(partial(self.parts.store.sign_newest_again, sign))
            self._signs_with = signer.id

    async def _ledger(self, request: Request) -> Response:
        plan_id = request.path_params["plan"]
        start = _read_index(request.query_params.get("from", "0"))
        text = await self.read(partial(self._ledgers.text, plan_id, start))
        return Response(text, media_type="application/json")

    # What the shuffler sends

    async def _batches(self, request: Request) -> Response:
        return await self._answer_counted(request, self._take_batch)

    async def _share(self, request: Request) -> Response:
        return await self._answer_counted(request, self._take_share)

    async def _access(self, request: Request) -> Response:
        """Whether the caller may send batches. It is a question, so nothing is counted."""
        guards.require_token(request.scope, self.parts.settings.access.token_hash)
        self._require_plan(request)
        return Response(status_code=204)

    async def _take_batch(self, request: Request) -> Answer:
        most = await self.read(self._receiver.most_bytes)
        seconds = self.parts.settings.limits.body_seconds
        body = await guards.read_body(request.scope, request.receive, most, seconds)
        signature = await self._signature(request)
        return await self._learn(partial(self._receiver.take, body, signature))

    async def _take_share(self, request: Request) -> Answer:
        limits = self.parts.settings.limits
        most, seconds = 4 * limits.body_bytes, limits.body_seconds
        body = await guards.read_body(request.scope, request.receive, most, seconds)
        signature = await self._signature(request)
        index = _read_index(request.path_params["batch"])
        return await self._learn(partial(self._receiver.share, index, body, signature))

    async def _signature(self, request: Request) -> str:
        """The signature's text; if it is by a new key, that is looked for."""
        signature = request.headers.get(SIGNATURE, "")
        await self._peer_keys.meet(signature)
        return signature

    async def _answer_counted(self, request: Request, work: Callable[[Request], Any]) -> Response:
        """The answer of ``work``, counted by its outcome."""
        try:
            self._require_admission(request)
            answer = await work(request)
        except Refusal as refusal:
            self.metrics.batches.add(refusal.reason)
            self._log.warning("batch refused", reason=refusal.reason.code)
            raise
        except Exception as error:  # counted, and then left to whoever handles it
            self._disk.note(error)
            self.metrics.batches.add(metrics.INTERNAL)
            self._log.error("batch failed", error=type(error).__name__, where=logs.where(error))
            raise
        self.metrics.batches.add(None)
        self.agreement.disagreement = ""
        facts = {name: answer[name] for name in ("batch", "model_version") if name in answer}
        self._log.info("batch taken", **facts)
        if "model_version" in facts:
            self.model_age.see(facts["model_version"])
            await self._alert(answer["batch"])
        return JSONResponse(answer)

    async def _alert(self, batch: int) -> None:
        """Say loudly if the batch was not learnt from."""
        for one in await self._look_at_quarantine():
            if one.batch == batch:
                self._log.error("batch quarantined", batch=batch, chance=one.chance, part=one.part)

    async def _look_at_quarantine(self) -> list[JudgedBatch]:
        """Batches that wait for the operator's word; it is trouble as long as there are any."""
        found = await self.read(partial(self.parts.store.quarantined, self.parts.plan.id))
        self._trouble = QUARANTINED if found else ""
        return found

    def _require_admission(self, request: Request) -> None:
        if self._draining:
            raise Refusal(Reason.DRAINING)
        guards.require_token(request.scope, self.parts.settings.access.token_hash)
        self._require_plan(request)
        if self._waiting >= MOST_WAITING:
            raise Refusal(Reason.QUEUE_FULL)

    async def _learn(self, work: Callable[[], Answer]) -> Answer:
        """Batches are learnt from one at a time."""
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._lessons, work)
        finally:
            self._waiting -= 1

    # Both

    def _require_plan(self, request: Request) -> str:
        """The plan in the path, which must be ours."""
        if request.path_params["plan"] != self.parts.plan.id:
            raise Refusal(Reason.WRONG_PLAN)
        return self.parts.plan.id

    async def read(self, work: Callable[[], Found]) -> Found:
        """Ask the database something, without holding up other requests."""
        return await asyncio.get_running_loop().run_in_executor(self._reads, work)

    async def _metrics(self, _request: Request) -> Response:
        plan, store = self.parts.plan, self.parts.store
        published = await self.read(partial(store.newest_model, plan.id))
        repairs = await self.read(partial(store.repairs, plan.id))
        clipped = await self.read(partial(store.clipped, plan.id))
        dropped = await self.read(partial(store.dropped, plan.id))
        batches = plan.schedule.batches
        done = batches if published.next_batch is None else published.next_batch
        self.metrics.gauges.set(
            next_batch=done,
            ledger_batches=done,
            ledger_batches_left=batches - done,
            model_version=published.model.version,
            model_repairs=repairs,
            clipped_counts=clipped,
            dropped_attempts=dropped,
            quarantined_batches=len(await self._look_at_quarantine()),
        )
        return Response(self.metrics.text(), media_type=metrics.MEDIA_TYPE)

    async def _blockers(self) -> list[str]:
        if self._draining:
            return ["the service is shutting down"]
        found = await self.read(self.find_set_back)
        if found:
            return [f"{Reason.ROLLED_BACK.code}: {found}"]
        await self._look_at_quarantine()
        return self._disk.blockers()

    def find_set_back(self) -> str:
        """How our database, or the shuffler, is behind; in words, empty if neither is."""
        return self.parts.store.set_back(self.parts.plan.id) or self.agreement.disagreement

    async def _read_learnt(self) -> int:
        """From how many batches we have learnt."""
        plan = self.parts.plan
        found = (await self.read(partial(self.parts.store.newest_model, plan.id))).next_batch
        return plan.schedule.batches if found is None else found

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        first = await self.read(partial(self.parts.store.newest_model, self.parts.plan.id))
        self.model_age.see(first.model.version)
        comparing = asyncio.create_task(self.agreement.run())
        yield
        comparing.cancel()
        await asyncio.gather(comparing, return_exceptions=True)
        await self.close()


def _read_index(text: str) -> int:
    """A batch's index in a path."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise Refusal(Reason.NOT_FOUND)
    return int(text)
