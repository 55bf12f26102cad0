"""What a request passes before it is read: its bearer token, and the cap on its body."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from croupier.service.http.reasons import Reason, Refusal

Scope = dict[str, Any]
_SCHEME = b"bearer "


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


async def read_body(scope: Any, receive: Any, most: int) -> bytes:
    """The body, refused as soon as it is known to be longer than ``most`` bytes."""
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared) > most:
        raise _too_large(most)
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        if len(body) > most:
            break
        message = await receive()
        body += message.get("body", b"")
    if len(body) > most:
        raise _too_large(most)
    return body


def _too_large(most: int) -> Refusal:
    return Refusal(Reason.BODY_TOO_LARGE, f"at most {most} bytes are taken at once")
