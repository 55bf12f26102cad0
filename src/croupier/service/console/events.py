"""Server-sent events: what a page shows, whenever that has changed, until the service drains."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.responses import Response, StreamingResponse

from croupier.errors import CroupierError
from croupier.service.console.page_parts import Page
from croupier.service.http.problems import plain_problem

EVERY = 1.0
MOST_LISTENERS = 16
QUIET = 15.0
"""Seconds after which a comment is sent, so that a listener that has gone is noticed."""

HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
MEDIA_TYPE = "text/event-stream"
WAIT = {"retry-after": "10"}

Pages = Callable[[], Awaitable[Page]]


class Recent:
    """One page for all who look: it is read at most once in so many seconds."""

    def __init__(self, read: Pages, every: float) -> None:
        self._read = read
        self._every = every
        self._lock = asyncio.Lock()
        self._page: Page | None = None
        self._read_at = 0.0

    async def page(self) -> Page:
        """The page as it is, or was a moment ago."""
        async with self._lock:
            if self._page is None or time.monotonic() - self._read_at >= self._every:
                self._page = await self._read()
                self._read_at = time.monotonic()
            return self._page


class Events:
    """The stream of changes, as an ASGI application with a bounded number of listeners."""

    def __init__(self, pages: Pages, every: float = EVERY, most: int = MOST_LISTENERS) -> None:
        self._pages = pages
        self._every = every
        self._most = most
        self.listeners = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one listener for as long as it listens."""
        if self.listeners >= self._most:
            await plain_problem(503, "Too many are listening", WAIT)(scope, receive, send)
            return
        self.listeners += 1
        try:
            await self._answer(scope["method"])(scope, receive, send)
        finally:
            self.listeners -= 1

    def _answer(self, method: str) -> Response:
        if method == "HEAD":
            return Response(headers=HEADERS, media_type=MEDIA_TYPE)
        return StreamingResponse(self._frames(), headers=HEADERS, media_type=MEDIA_TYPE)

    async def _frames(self) -> AsyncIterator[bytes]:
        """A frame for every change; a listener comes back by itself when the stream ends."""
        last, spoke = b"", time.monotonic()
        while (page := await self._found()) is not None:
            now = frame(page)
            if now != last or time.monotonic() - spoke >= QUIET:
                yield b":\n\n" if now == last else now
                last, spoke = now, time.monotonic()
            if page.draining:
                return
            await asyncio.sleep(self._every)

    async def _found(self) -> Page | None:
        """The page, unless it cannot be read now."""
        try:
            return await self._pages()
        except CroupierError:
            return None


def frame(page: Page) -> bytes:
    """One event, on one line."""
    text = json.dumps(page.shown, ensure_ascii=False, separators=(",", ":"))
    return f"retry: 2000\ndata: {text}\n\n".encode()
