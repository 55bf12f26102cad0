"""Connections are bounded in number and in how long they may take, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any, cast

import httpx
import pytest
import uvicorn

from croupier.service.http import guards, server
from croupier.service.http.connections import BoundedProtocol, ConnectionLimits, SlowConnections
from croupier.service.http.reasons import Reason, Refusal

PLACES, SLOW = 50, 60
LIMITS = ConnectionLimits(PLACES, header_seconds=1.0, body_seconds=1.0)
LARGE = bytes(2**25)
PATIENCE = 20.0


async def answer(scope: Any, receive: Any, send: Any) -> None:
    """Echoes a body's length; what is late is answered like in the services."""
    if scope["type"] != "http":
        return
    status, body = 200, LARGE if scope["path"] == "/large" else b"ok"
    try:
        if scope["method"] == "POST":
            body = str(len(await guards.read_body(scope, receive, 2**20, 1.0))).encode()
    except Refusal as refusal:
        status, body = refusal.reason.status, refusal.reason.code.encode()
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def served() -> Iterator[tuple[int, server.Server]]:
    """Port and server: one of ours in a thread, with few places and short deadlines."""
    bound = server.listen("127.0.0.1", 0)
    config = uvicorn.Config(
        answer,
        log_config=None,
        lifespan="off",
        http=cast("type[asyncio.Protocol]", partial(BoundedProtocol, most=PLACES)),
        ws="none",
        timeout_graceful_shutdown=1,
    )
    running = server.Server(config, lambda: None, LIMITS)
    thread = threading.Thread(target=lambda: asyncio.run(running.serve([bound])))
    thread.start()
    yield bound.getsockname()[1], running
    running.should_exit = True
    thread.join()
    bound.close()


@pytest.fixture
def port(served: tuple[int, server.Server]) -> int:
    return served[0]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def connect(stack: ExitStack, port: int, said: bytes) -> socket.socket:
    made = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
    with suppress(ConnectionError):
        made.sendall(said)
    return made


def heard(one: socket.socket) -> bytes:
    """Everything until the other side closes."""
    parts = []
    with suppress(ConnectionError):
        while part := one.recv(2**16):
            parts.append(part)
    return b"".join(parts)


def honest(port: int) -> int:
    return httpx.get(f"http://127.0.0.1:{port}/", trust_env=False, timeout=PATIENCE).status_code


HEADERS = b"GET / HTTP/1.1\r\nhost: x\r\n"
BODY = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nA"


@pytest.mark.parametrize(
    ("said", "told"),
    [(b"", b"408"), (HEADERS, b"408"), (BODY, b"408")],
    ids=["silent", "half the headers", "half the body"],
)
def test_slow_connections_take_no_more_than_their_places_and_lose_them_in_time(
    port: int, stack: ExitStack, said: bytes, told: bytes
) -> None:
    slow = [connect(stack, port, said) for _ in range(SLOW)]
    answers = [heard(one) for one in slow]
    statuses = [one.split(b" ", 2)[1] if one else b"" for one in answers]
    # Who is turned away may be reset before they read why.
    assert statuses.count(told) == PLACES
    assert len([one for one in statuses if one in (b"503", b"")]) == SLOW - PLACES
    assert honest(port) == 200


def test_idle_connections_count_and_lose_their_places(port: int, stack: ExitStack) -> None:
    idle = [connect(stack, port, HEADERS + b"\r\n") for _ in range(PLACES)]
    assert all(one.recv(12) == b"HTTP/1.1 200" for one in idle)
    late = connect(stack, port, b"")
    assert heard(late)[:12] in (b"HTTP/1.1 503", b"")
    for one in idle:
        heard(one)
    assert honest(port) == 200


def test_dripping_bytes_buy_no_time(port: int, stack: ExitStack) -> None:
    one = connect(stack, port, HEADERS)
    one.settimeout(0.1)
    for _ in range(100):
        try:
            one.sendall(b"a: b\r\n")
            found = one.recv(2**16)
        except TimeoutError:
            continue
        except ConnectionError:
            break
        assert not found or found.startswith(b"HTTP/1.1 408")
        break
    else:
        pytest.fail("the connection is still open")


def test_who_does_not_read_an_answer_loses_their_place(
    served: tuple[int, server.Server], stack: ExitStack
) -> None:
    port, running = served
    one = connect(stack, port, b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
    assert one.recv(12) == b"HTTP/1.1 200"
    end = time.monotonic() + PATIENCE
    while running.server_state.connections and time.monotonic() < end:
        time.sleep(0.05)
    assert not running.server_state.connections
    assert len(heard(one)) < len(LARGE)


class Still:
    """A connection as far as deadlines look at it."""

    def __init__(self, stage: str) -> None:
        self.stage: tuple[str, object] = (stage, None)
        self.ended = ""

    def end(self, stage: str) -> None:
        self.ended = stage


@pytest.mark.parametrize(
    ("stage", "seconds"), [("headers", 2.0), ("answer", 5.0), ("close", 5.0), ("work", None)]
)
def test_a_stage_has_its_own_time(stage: str, seconds: float | None) -> None:
    now = 0.0
    slow = SlowConnections(ConnectionLimits(9, 2.0, 5.0), lambda: now)
    one = Still(stage)
    looks = [cast("BoundedProtocol", one)]
    assert slow.look(looks) == 0
    now = (seconds or 1000.0) - 0.1
    assert slow.look(looks) == 0
    now += 0.1
    assert slow.look(looks) == (seconds is not None)
    assert one.ended == (stage if seconds else "")


def test_whoever_goes_on_has_time_again() -> None:
    now = 0.0
    slow = SlowConnections(ConnectionLimits(9, 2.0, 5.0), lambda: now)
    one = Still("headers")
    looks = [cast("BoundedProtocol", one)]
    for request in range(10):
        one.stage = ("headers", request)
        assert slow.look(looks) == 0
        now += 1.9


# Bodies


def reading(*messages: dict[str, Any], **more: Any) -> bytes:
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if left:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def read() -> bytes:
        return await guards.read_body({"headers": []}, receive, 2**20, **more)

    return asyncio.run(read())


def part(size: int, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": bytes(size), "more_body": more}


def test_a_body_that_is_late_or_breaks_off_is_refused() -> None:
    with pytest.raises(Refusal) as late:
        reading(part(10), seconds=0.01)
    assert late.value.reason is Reason.TIMED_OUT
    with pytest.raises(Refusal) as broken:
        reading(part(10), {"type": "http.disconnect"})
    assert broken.value.reason is Reason.MALFORMED


def test_large_bodies_are_bounded_together_and_small_ones_always_fit() -> None:
    budget = guards.BodyBudget(2**19)
    with guards.HeldBody(budget) as first, guards.HeldBody(budget) as second:
        assert len(reading(part(2**18), part(2**17, False), held=first)) == 2**18 + 2**17
        with pytest.raises(Refusal) as full:
            reading(part(2**17), part(2**17), held=second)
        assert full.value.reason is Reason.QUEUE_FULL
        with guards.HeldBody(budget) as third:
            assert len(reading(part(guards.SMALL, False), held=third)) == guards.SMALL
    assert budget.held == 0
    with guards.HeldBody(budget) as again:
        reading(part(2**19, False), held=again)
