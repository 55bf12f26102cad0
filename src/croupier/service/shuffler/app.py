"""The shuffler over HTTP. Reports take a short way of their own, everything else is routed."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from croupier.service.disk_space import DiskWatch
from croupier.service.http import guards, logs, metrics, problems, responses
from croupier.service.http.openapi import shuffler_api
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.shuffler.account_gate import AccountGate
from croupier.service.shuffler.courier import Courier
from croupier.service.shuffler.decrypt_pool import DecryptPool
from croupier.service.shuffler.group_commit import GroupCommit
from croupier.service.shuffler.metrics import ShufflerMetrics
from croupier.service.shuffler.mirrored_documents import MirroredDocuments, mirror_routes
from croupier.service.shuffler.open_batch import OpenBatch
from croupier.service.shuffler.parts import ShufflerParts
from croupier.service.shuffler.rows import BatchState
from croupier.service.shuffler.upload import ReportReceiver, ReportVerdict

PREFIX, SUFFIX = "/v1/plans/", "/reports"
JSON = b"application/json"
ONE_ACCEPTED = b'{"accepted": 1, "failures": []}'


class ShufflerApp:
    """An ASGI application over the shuffler's parts.

    ``courier`` carries complete batches to the analyzer while the application's lifespan lasts;
    tests run its steps themselves. ``pages`` makes further routes, such as the console's.
    """

    def __init__(
        self,
        parts: ShufflerParts,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        pages: Callable[[ShufflerApp], Sequence[BaseRoute]] = lambda _: (),
    ) -> None:
        self.parts = parts
        self.metrics = ShufflerMetrics()
        self.open_batch = OpenBatch(parts.store, parts.plan.id)
        limits = parts.settings.limits
        self._commits = GroupCommit(parts.store.take, limits.queue_length)
        self.decrypt_pool = DecryptPool(limits.openers, "shuffler")
        self._receiver = ReportReceiver(
            parts.transport,
            parts.keyring,
            self.open_batch,
            self._commits,
            limits,
            self.decrypt_pool,
        )
        self._bodies = guards.BodyBudget(limits.held_bytes)
        self._gate = AccountGate(parts.plan.id, parts.issuers)
        self._disk = DiskWatch(parts.settings.database, parts.settings.keys.beside)
        self.courier = Courier(
            parts, self.open_batch, self.metrics, transport, note=self._disk.note
        )
        self._log = logs.logger("shuffler")
        self._draining = False
        self._reports_path = f"{PREFIX}{parts.plan.id}{SUFFIX}"
        self._routed = Starlette(
            routes=[*self._routes(), *pages(self)],
            exception_handlers=responses.EXCEPTION_HANDLERS,
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Reports are most of the traffic, so that they skip the router."""
        is_upload = scope["type"] == "http" and scope["method"] == "POST"
        if is_upload and scope["path"].endswith(SUFFIX) and scope["path"].startswith(PREFIX):
            status, headers, body = await self._take_upload(scope, receive)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        else:
            await self._routed(scope, receive, send)

    @property
    def rolled_back(self) -> str:
        """How our database, or the analyzer's, is behind; in words, empty if neither is.

        Of a plan that has ended nothing is asked any more, and its end is all there is to say.
        """
        return (
            "" if self.open_batch.ended else self.open_batch.set_back or self.courier.disagreement
        )

    @property
    def trouble(self) -> str:
        """A word for what keeps batches from being carried on; empty if nothing does."""
        if self.open_batch.set_back:
            return Reason.ROLLED_BACK.code
        return self.courier.trouble or self.courier.mirror_trouble

    def drain(self) -> None:
        """Take nothing new; what was taken is still committed and answered."""
        self._draining = True

    async def close(self) -> None:
        """Finish what was taken, then let go of processes, threads and connections."""
        self.drain()
        await self.courier.close()
        await self._commits.drain()
        await self.decrypt_pool.close()
        self.open_batch.close()

    # Reports

    async def _take_upload(self, scope: Any, receive: Any) -> tuple[int, list[Any], bytes]:
        """Status, headers and body of the answer to an upload."""
        try:
            with guards.HeldBody(self._bodies) as held:
                account, body = await self._read_admitted(scope, receive, held)
                verdicts = await self._receiver.take(body, account)
        except Refusal as refusal:
            self.metrics.reports.add(refusal.reason)
            return _raw_response(problems.problem(refusal))
        except Exception as error:  # whatever it is, this request must be answered
            self._disk.note(error)
            self.metrics.reports.add(metrics.INTERNAL)
            self._log.error("upload failed", error=type(error).__name__, where=logs.where(error))
            return _raw_response(problems.internal_problem())
        return self._answer_upload(verdicts)

    async def _read_admitted(
        self, scope: Any, receive: Any, held: guards.HeldBody
    ) -> tuple[bytes | None, bytes]:
        """The account that a request may report for, if only one, and its body."""
        if self._draining:
            raise Refusal(Reason.DRAINING)
        guards.require_token(scope, self.parts.settings.access.token_hash)
        if scope["path"] != self._reports_path:
            named = scope["path"].removeprefix(PREFIX).removesuffix(SUFFIX)
            await self.open_batch.refuse_other_plan(named)
        account = self._gate.read_account(scope)
        limits = self.parts.settings.limits
        return account, await guards.read_body(
            scope, receive, limits.body_bytes, limits.body_seconds, held
        )

    def _answer_upload(self, verdicts: list[ReportVerdict]) -> tuple[int, list[Any], bytes]:
        """201 with the failures; one record alone has its failure as the whole answer."""
        for reason, count in Counter(verdict.reason for verdict in verdicts).items():
            self.metrics.reports.add(reason, count)
        if len(verdicts) > 1:
            return _created_response(json.dumps(_list_failures(verdicts)).encode())
        alone = verdicts[0].reason
        return (
            _created_response(ONE_ACCEPTED)
            if alone is None
            else _raw_response(problems.problem(Refusal(alone)))
        )

    # Everything else

    def _routes(self) -> list[Route]:
        documents = MirroredDocuments(self.parts.database)
        return [
            *responses.common_routes(
                self._blockers, self._metrics, shuffler_api(), lambda: self.trouble
            ),
            Route("/v1/keys", self._keys),
            *mirror_routes(documents, self.parts.plan.id, self.open_batch.read),
            Route("/v1/plans/{plan}/batch", self._batch),
            # Uploads never come here; the router says which method is offered.
            Route("/v1/plans/{plan}/reports", responses.answer_healthy, methods=["POST"]),
        ]

    @property
    def draining(self) -> bool:
        """Whether nothing new is taken any more."""
        return self._draining

    async def _keys(self, _request: Request) -> Response:
        self.parts.keyring.refresh()
        return Response(
            self.parts.keyring.document(),
            headers={"cache-control": responses.REVALIDATED},
            media_type="application/json",
        )

    async def _batch(self, request: Request) -> Response:
        """What a device must know to report now."""
        if request.path_params["plan"] != self.parts.plan.id:
            await self.open_batch.refuse_other_plan(request.path_params["plan"])
        await self.open_batch.confirm()
        batch = await self.open_batch.require()
        if self.open_batch.ended:
            raise Refusal(Reason.PLAN_ENDED)
        self.parts.keyring.refresh()
        document = {
            "plan": batch.plan_id,
            "batch": batch.index,
            "attempt": batch.attempt,
            "state": str(batch.state),
            "size": batch.size,
            "transport": self.parts.transport.kind.name.lower(),
            "model_version": batch.model_version,
            "model_hash": batch.model_hash,
            "key": self.parts.keyring.sealing_key.public_bytes_raw().hex(),
            "inner_key": batch.inner_key.hex() if any(batch.inner_key) else None,
            "record_length": self._receiver.record_length(batch.index),
        }
        return JSONResponse(document, headers={"cache-control": "no-store"})

    async def _metrics(self, _request: Request) -> Response:
        batch = await self.open_batch.refresh()
        self.metrics.show_batch(batch, self.open_batch.waiting_seconds)
        self.metrics.gauges.set(
            queue_length=self._commits.length, openers=len(self.decrypt_pool.ready)
        )
        if batch is not None:
            charged = batch.index + (batch.state not in (BatchState.OPEN, BatchState.SEALED))
            left = self.parts.plan.schedule.batches - charged
            self.metrics.gauges.set(ledger_batches=charged, ledger_batches_left=left)
        return Response(self.metrics.text(), media_type=metrics.MEDIA_TYPE)

    async def _blockers(self) -> list[str]:
        """Why this process should not get traffic."""
        if self._draining:
            return ["the service is shutting down"]
        batch = await self.open_batch.refresh()
        if self.rolled_back:
            return [f"{Reason.ROLLED_BACK.code}: {self.rolled_back}"]
        if batch is None:
            return ["the analyzer's first model has not been fetched yet"]
        return self._disk.blockers()

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self.decrypt_pool.start()
        carrying = asyncio.create_task(self.courier.run())
        try:
            yield
        finally:
            self.courier.stop()
            await carrying
            await self.close()


def _list_failures(verdicts: Sequence[ReportVerdict]) -> dict[str, Any]:
    failures = [
        {"index": index, "id": verdict.report_id.hex(), "reason": verdict.reason.code}
        for index, verdict in enumerate(verdicts)
        if verdict.reason is not None
    ]
    return {"accepted": len(verdicts) - len(failures), "failures": failures}


def _created_response(body: bytes) -> tuple[int, list[Any], bytes]:
    length = str(len(body)).encode()
    return 201, [(b"content-type", JSON), (b"content-length", length)], body


def _raw_response(response: Response) -> tuple[int, list[Any], bytes]:
    return response.status_code, response.raw_headers, bytes(response.body)
