"""Refusals as RFC 9457 problem documents."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from croupier.service.http.reasons import Reason, Refusal

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = 1
"""Seconds after which trying again makes sense; devices add their own backoff."""


def problem_document(refusal: Refusal) -> dict[str, Any]:
    """Type, title, status, and what was found where there is something to say."""
    reason = refusal.reason
    document: dict[str, Any] = {
        "type": reason.type,
        "title": reason.title,
        "status": reason.status,
    }
    return document | ({"detail": refusal.detail} if refusal.detail else {})


def read_reason(body: bytes) -> Reason | None:
    """The reason in a problem document, None if it is none of ours."""
    try:
        return Reason.of(str(json.loads(body)["type"]).rpartition(":")[2])
    except (ValueError, KeyError, TypeError):
        return None


def problem_headers(reason: Reason) -> dict[str, str]:
    """What the status calls for besides the document."""
    headers = {"cache-control": "no-store"}
    if reason.retry:
        headers["retry-after"] = str(RETRY_AFTER)
    if reason is Reason.BAD_TOKEN:
        headers["www-authenticate"] = "Bearer"
    return headers


def problem(refusal: Refusal) -> Response:
    """The answer to a request that is refused."""
    body = json.dumps(problem_document(refusal)).encode()
    reason = refusal.reason
    return Response(body, reason.status, problem_headers(reason), MEDIA_TYPE)


def plain_problem(status: int, title: str, headers: Mapping[str, str] | None = None) -> Response:
    """A problem that is HTTP's own and has no name of ours."""
    body = json.dumps({"type": "about:blank", "title": title, "status": status}).encode()
    return Response(body, status, {"cache-control": "no-store", **(headers or {})}, MEDIA_TYPE)


def internal_problem() -> Response:
    """An error of ours. Trying again may help, and is safe."""
    return plain_problem(500, "An error inside the service", {"retry-after": str(RETRY_AFTER)})
