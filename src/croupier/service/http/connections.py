"""Connections: so many at once, and none that keeps others out by being slow.

uvicorn takes whoever comes and waits for whatever they promise. Here a connection above the limit
is turned away at once, and one that keeps us waiting is closed, in any of these stages: before a
request is complete in its headers, while an answer is not read, while it should have been closed.
Bodies are read by the application, which counts and answers those that are late.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

TURNED_AWAY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)
TOO_LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True)
class ConnectionLimits:
    """How many connections there may be, and how long each may take over headers and bodies."""

    connections: int
    header_seconds: float
    body_seconds: float


class BoundedProtocol(H11Protocol):
    """One connection, or none: ``most`` are let in."""

    def __init__(self, *arguments: Any, most: int, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._most = most
        self._turned_away = False

    def connection_made(self, transport: Any) -> None:
        """Turn away who comes when all places are taken, without reading or remembering them."""
        if len(self.connections) >= self._most:
            self._turned_away = True
            transport.write(TURNED_AWAY)
            transport.close()
            return
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """What comes from one that was turned away is not looked at."""
        if not self._turned_away:
            super().data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        """One that was turned away was never there."""
        if not self._turned_away:
            super().connection_lost(error)

    @property
    def stage(self) -> tuple[str, Any]:
        """What is being waited for, and in which request of the connection."""
        cycle: Any = self.cycle
        if self.transport.is_closing():
            return "close", cycle
        if cycle is None or cycle.response_complete:
            return "headers", cycle
        return ("answer" if self.flow.write_paused else "work"), cycle

    def end(self, stage: str) -> None:
        """Close it; who has not sent their headers is told, as far as they listen."""
        if stage == "headers":
            if self.cycle is None:
                self.transport.write(TOO_LATE)
            self.transport.close()
        else:
            self.transport.abort()


class SlowConnections:
    """Looks at all connections from time to time and ends those that stay in a stage too long.

    Looking costs requests nothing, and a deadline is kept to within the time between two looks.
    """

    def __init__(
        self, limits: ConnectionLimits, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = {
            "headers": limits.header_seconds,
            "answer": limits.body_seconds,
            "close": limits.body_seconds,
        }
        self._clock = clock
        self._seen: dict[BoundedProtocol, tuple[tuple[str, Any], float]] = {}

    def look(self, connections: list[BoundedProtocol]) -> int:
        """End those whose time is over; how many."""
        now, before, ended = self._clock(), self._seen, 0
        self._seen = {}
        for one in connections:
            stage = one.stage
            known, since = before.get(one, (None, now))
            since = since if known == stage else now
            if now - since < self._seconds.get(stage[0], float("inf")):
                self._seen[one] = stage, since
            else:
                one.end(stage[0])
                ended += 1
        return ended
