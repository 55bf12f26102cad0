"""What both services answer alike: errors as problem documents, health, metrics, their API."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from croupier.errors import WireError
from croupier.service.http import problems
from croupier.service.http.reasons import Reason, Refusal

Blockers = Callable[[], Awaitable[list[str]]]
Endpoint = Callable[[Request], Awaitable[Response]]

KEPT = ("content-type", "cache-control", "retry-after", "etag")
"""Headers of an answer that whoever passes it on keeps."""

IMMUTABLE = "public, max-age=31536000, immutable"
REVALIDATED = "no-cache"
SIGNED = "public, max-age=300"
"""Of a model: its content never changes, but a key that retires has its signature replaced."""


async def answer_refusal(_request: Request, error: Exception) -> Response:
    """A refusal as a problem document."""
    if not isinstance(error, Refusal):
        raise error
    return problems.problem(error)


async def answer_unreadable(_request: Request, error: Exception) -> Response:
    """Bytes that do not follow the format."""
    if not isinstance(error, WireError):
        raise error
    return problems.problem(Refusal(Reason.of(error.reason), str(error)))


async def answer_unrouted(_request: Request, error: Exception) -> Response:
    """What the router refuses: nothing there, or not by this method."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        return problems.plain_problem(405, "That method is not offered here", error.headers)
    return problems.problem(Refusal(Reason.NOT_FOUND))


async def answer_error(_request: Request, _error: Exception) -> Response:
    """An error of ours; its text stays in the process."""
    return problems.internal_problem()


EXCEPTION_HANDLERS: dict[Any, Any] = {
    Refusal: answer_refusal,
    WireError: answer_unreadable,
    HTTPException: answer_unrouted,
    Exception: answer_error,
}


async def answer_healthy(_request: Request) -> Response:
    """The process answers."""
    return PlainTextResponse("ok\n")


def readiness_endpoint(blockers: Blockers, trouble: Callable[[], str]) -> Endpoint:
    """200 if nothing stands in the way, else 503 with what does, in words."""

    async def endpoint(_request: Request) -> Response:
        found = await blockers()
        told = {"ready": not found, "waiting_for": found, "trouble": trouble()}
        return JSONResponse(told, 503 if found else 200, {"cache-control": "no-store"})

    return endpoint


def document_endpoint(content: dict[str, Any]) -> Endpoint:
    """A JSON document that does not change while the process runs."""
    body = json.dumps(content).encode()

    async def endpoint(_request: Request) -> Response:
        return Response(body, media_type="application/json")

    return endpoint


def tagged_response(request: Request, text: str | bytes, tag: str, caching: str) -> Response:
    """A JSON text with its hash as the ETag; 304 where the caller has it."""
    headers = {"etag": f'"{tag}"', "cache-control": caching}
    if _is_known(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(text, 200, headers, "application/json")


def tag_of(text: str | bytes) -> str:
    """The SHA-256 of a document, its signatures included."""
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


def _is_known(request: Request, tag: str) -> bool:
    given = request.headers.get("if-none-match", "")
    names = [name.strip().removeprefix("W/").strip('"') for name in given.split(",")]
    return tag in names or names == ["*"]


def no_trouble() -> str:
    """Nothing went wrong lately."""
    return ""


def common_routes(
    blockers: Blockers,
    metrics: Endpoint,
    api: dict[str, Any],
    trouble: Callable[[], str] = no_trouble,
) -> list[Route]:
    """Health, readiness, metrics and the API's own description."""
    return [
        Route("/healthz", answer_healthy),
        Route("/readyz", readiness_endpoint(blockers, trouble)),
        Route("/metrics", metrics),
        Route("/openapi.json", document_endpoint(api)),
    ]
