"""What a request passes: its bearer token, and the caps on size and time of its body."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from dataclasses import dataclass
from typing import Any, Self

from croupier.service.http.reasons import Reason, Refusal

Scope = dict[str, Any]
_SCHEME = b"bearer "

SMALL = 2**16
"""Bytes that uvicorn holds of a body before anybody asks for it."""


def header(scope: Any, name: bytes) -> bytes | None:
    """The first header of that name, which is in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


def require_token(scope: Any, wanted: str | None) -> None:
    """Refuse a request whose bearer token does not have the hash ``wanted``; None wants none."""
    if wanted is None:
        return
    given = header(scope, b"authorization") or b""
    token = given[len(_SCHEME) :] if given[: len(_SCHEME)].lower() == _SCHEME else b""
    if not hmac.compare_digest(hashlib.sha256(token).hexdigest(), wanted):
        raise Refusal(Reason.BAD_TOKEN)


@dataclass
class BodyBudget:
    """Bytes of large bodies that may be held at once, so that many of them fit into memory.

    Bodies up to ``SMALL`` do not count: their number is that of the connections, and so whoever
    sends large ones keeps no single report out.
    """

    most: int
    held: int = 0

    def take(self, count: int) -> None:
        """Hold so many more, or refuse the body that they are of."""
        if self.held + count > self.most:
            raise Refusal(Reason.QUEUE_FULL, "too many large bodies at once")
        self.held += count


class HeldBody:
    """What one request holds of the budget, until it is answered."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.held -= self._bytes

    def grow(self, length: int) -> None:
        """The body has ``length`` bytes by now."""
        if length > SMALL and length > self._bytes:
            self._budget.take(length - self._bytes)
            self._bytes = length


async def read_body(
    scope: Any,
    receive: Any,
    most: int,
    seconds: float | None = None,
    held: HeldBody | None = None,
) -> bytes:
    """The body, refused as soon as it is known to be longer than ``most`` bytes.

    All of it must be there within ``seconds``, and fit into what is ``held``.
    """
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(seconds):
            return await _read_parts(receive, most, held)
    except TimeoutError as error:
        raise Refusal(Reason.TIMED_OUT, f"a body must come within {seconds:g} seconds") from error


async def _read_parts(receive: Any, most: int, held: HeldBody | None) -> bytes:
    parts: list[bytes] = []
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(Reason.MALFORMED, "the connection ended before the body")
        part: bytes = message.get("body", b"")
        parts.append(part)
        length += len(part)
        if length > most:
            raise _too_large(most)
        if held is not None:
            held.grow(length)
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(most: int) -> Refusal:
    return Refusal(Reason.BODY_TOO_LARGE, f"at most {most} bytes are taken at once")
