"""The witness over HTTP: its newest head, signed, and its keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from croupier.plan import Plan
from croupier.service.http import responses
from croupier.service.http.openapi import witness_api
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keyring import Keyring
from croupier.service.keys.published_reader import PublishedReader
from croupier.service.settings import PeerSettings
from croupier.service.startup import (
    check_machine,
    read_deployable_plan,
    read_peer_keys,
    unlock_keyring,
)
from croupier.service.witness.follower import Follower
from croupier.service.witness.settings import WitnessConfiguration
from croupier.service.witness.signed_heads import SignedHeads

ROLE = "witness"


@dataclass(frozen=True)
class WitnessParts:
    """What the witness's application is made of."""

    settings: WitnessConfiguration
    plan: Plan
    keyring: Keyring
    heads: SignedHeads


def assemble_witness(settings: WitnessConfiguration) -> WitnessParts:
    """Everything that a witness needs, checked; the plan's guarantee is computed again."""
    check_machine()
    plan = read_deployable_plan(settings.plan, settings.transport)
    ring = unlock_keyring(settings.keys, ROLE)
    return WitnessParts(settings, plan, ring, SignedHeads(settings.directory, plan.id))


class WitnessApp:
    """An ASGI application. It follows the services while its lifespan lasts.

    ``transport`` is the way to both services; tests run the looks themselves.
    """

    def __init__(
        self, parts: WitnessParts, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.parts = parts
        settings = parts.settings
        shuffler = _make_reader("shuffler", settings.shuffler, transport)
        analyzer = _make_reader("analyzer", settings.analyzer, transport)
        self._readers = (shuffler, analyzer)
        self.follower = Follower(
            parts.plan, shuffler, analyzer, parts.heads, lambda: parts.keyring.signer
        )
        self._routed = Starlette(
            routes=self._routes(),
            exception_handlers=responses.EXCEPTION_HANDLERS,
            lifespan=self._lifespan,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Everything is routed."""
        await self._routed(scope, receive, send)

    def drain(self) -> None:
        """Look no more."""
        self.follower.stop()

    async def close(self) -> None:
        """Let go of the connections and the directory."""
        for reader in self._readers:
            await reader.close()
        self.parts.heads.close()

    def _routes(self) -> list[Route]:
        ready = responses.readiness_endpoint(self._blockers, lambda: self.follower.trouble)
        return [
            Route("/healthz", responses.answer_healthy),
            Route("/readyz", ready),
            Route("/openapi.json", responses.document_endpoint(witness_api())),
            Route("/v1/keys", self._keys),
            Route("/v1/plans/{plan}/head", self._head),
        ]

    async def _keys(self, _request: Request) -> Response:
        self.parts.keyring.tidy()
        return _signed(self.parts.keyring.document())

    async def _head(self, request: Request) -> Response:
        """Signed now, so that a rotated key is one that is still announced."""
        if request.path_params["plan"] != self.parts.plan.id:
            raise Refusal(Reason.WRONG_PLAN)
        last = self.parts.heads.last
        if last is None:
            raise Refusal(Reason.NOT_FOUND, "no head has been signed yet")
        self.parts.keyring.refresh()
        return _signed(last.sign(self.parts.keyring.signer))

    async def _blockers(self) -> list[str]:
        heads = self.parts.heads
        if heads.fork:
            return [f"FORK: {heads.fork}; nothing is signed any more"]
        return [] if heads.last else ["no head has been signed yet"]

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        following = asyncio.create_task(self.follower.run(self.parts.settings.every))
        try:
            yield
        finally:
            self.follower.stop()
            await following
            await self.close()


def _make_reader(
    role: str, peer: PeerSettings, transport: httpx.AsyncBaseTransport | None
) -> PublishedReader:
    return PublishedReader(role, peer.url or "", read_peer_keys(peer), transport)


def _signed(text: str) -> Response:
    headers = {"cache-control": responses.REVALIDATED}
    return Response(text, headers=headers, media_type="application/json")
