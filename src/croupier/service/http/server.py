"""uvicorn in this process: bounded, without addresses, and with a drain that ends with code 0."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, cast

import uvicorn

from croupier.service.http.connections import (
    BoundedProtocol,
    ConnectionLimits,
    SlowConnections,
)

DRAIN_SECONDS = 30

QUEUE = 2048
"""Connections that may wait to be taken, as many as uvicorn allows."""

SWITCH_SECONDS = 0.0002
"""How long a thread may keep the interpreter while another wants it.

Opening seals and committing reports take turns; with Python's own 5 ms a commit waits long, at the
same processor time, for every statement that it comes back from.
"""


SPARE_FILES = 128
"""Open files besides connections: databases, logs, helpers, ways to the peer."""

TICKS = 2
"""uvicorn ticks ten times a second; slow connections are looked for at every second tick."""


class Server(uvicorn.Server):
    """Ends on SIGTERM or SIGINT: takes nothing new, answers what it has, exits 0."""

    def __init__(
        self, config: uvicorn.Config, on_drain: Callable[[], None], limits: ConnectionLimits
    ) -> None:
        super().__init__(config)
        self._on_drain = on_drain
        self._slow = SlowConnections(limits)

    async def on_tick(self, counter: int) -> bool:
        """Besides what uvicorn does, end connections that keep us waiting."""
        if counter % TICKS == 0:
            self._slow.look(
                [one for one in self.server_state.connections if isinstance(one, BoundedProtocol)]
            )
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The signal is not raised again afterwards, unlike uvicorn's: a drain is a success."""
        self._on_drain()
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens before anything is announced; port 0 takes a free one.

    Whoever connects before the server runs waits in the queue instead of being refused.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named, so that asyncio knows it for TCP and sends small answers at once.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(QUEUE)
    except OSError as error:
        bound.close()
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}") from error
    return bound


def file_limit() -> int:
    """How many files this process may have open, once it asks for all."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if most == resource.RLIM_INFINITY else most


def raise_file_limit() -> None:
    """Ask for as many open files as this process may have."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run(
    app: Any, bound: socket.socket, on_drain: Callable[[], None], limits: ConnectionLimits
) -> None:
    """Serve until a signal ends it."""
    sys.setswitchinterval(SWITCH_SECONDS)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, most=limits.connections)),
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    asyncio.run(Server(config, on_drain, limits).serve([bound]))
