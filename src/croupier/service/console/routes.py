"""The routes of a console, for either role."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from croupier.service.console.analyzer_page import analyzer_page
from croupier.service.console.common_view import Snapshot
from croupier.service.console.events import EVERY, MOST_LISTENERS, Events, Recent
from croupier.service.console.listed_fields import keep_listed
from croupier.service.console.markup import read_static, render_page
from croupier.service.console.page_parts import Page
from croupier.service.console.shuffler_page import shuffler_page
from croupier.service.http import responses

PAGES: dict[str, Callable[[Snapshot], Page]] = {
    "shuffler": shuffler_page,
    "analyzer": analyzer_page,
}
STATIC = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "console.svg": "image/svg+xml",
}
SAFETY = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}

Read = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs what waits for a database, off the event loop."""


def console_routes(
    snapshot: Callable[[], Snapshot],
    read: Read = asyncio.to_thread,
    *,
    every: float = EVERY,
    most_listeners: int = MOST_LISTENERS,
) -> list[Route]:
    """The page at ``/``, its files, and its changes at ``/events``.

    The snapshot names its role; what it has besides the listed fields is not shown.
    """

    async def make() -> Page:
        return page_of(await read(snapshot))

    recent = Recent(make, every)
    return [
        Route("/", _page(recent)),
        Route("/events", Events(recent.page, every, most_listeners), methods=["GET"]),
        *(Route(f"/{name}", _file(name, kind)) for name, kind in STATIC.items()),
    ]


def page_of(snapshot: Snapshot) -> Page:
    """The page of a role's snapshot."""
    seen = keep_listed(snapshot)
    return PAGES[seen["role"]](seen)


def _page(recent: Recent) -> responses.Endpoint:
    async def endpoint(_request: Request) -> Response:
        text = render_page(await recent.page())
        return HTMLResponse(text, headers=SAFETY | {"cache-control": "no-store"})

    return endpoint


def _file(name: str, kind: str) -> responses.Endpoint:
    body = read_static(name)
    tag = hashlib.sha256(body).hexdigest()[:16]

    async def endpoint(request: Request) -> Response:
        found = responses.tagged_response(request, body, tag, responses.REVALIDATED)
        found.headers.update(SAFETY | ({"content-type": kind} if found.body else {}))
        return found

    return endpoint
