"""The two HTTP interfaces as OpenAPI documents."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from croupier.service.http.media_types import BATCH_TYPE, RECORDS_TYPE, SHARE_TYPE, SIGNATURE
from croupier.service.http.problems import MEDIA_TYPE
from croupier.service.http.reasons import Reason

Document = dict[str, Any]

WHOLE = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
HEX_32 = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
BYTES = {"type": "string", "format": "binary"}

PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {"type": TEXT, "title": TEXT, "status": WHOLE, "detail": TEXT},
}


def table(required: dict[str, Any], **optional: Any) -> Document:
    """The schema of an object."""
    return {
        "type": "object",
        "required": list(required),
        "properties": required | optional,
    }


LEARNT = table(
    {
        "batch": WHOLE,
        "model_version": WHOLE,
        "model_hash": HEX_32,
        "next_batch": {"type": ["integer", "null"]},
    }
)
OPENED = table({"batch": WHOLE, "opened": TEXT})
SIGNED = table(
    {"kind": TEXT, "content": {"type": "object"}, "signatures": {"type": "object"}},
)
BATCH = table(
    {
        "plan": TEXT,
        "batch": WHOLE,
        "attempt": WHOLE,
        "state": TEXT,
        "size": WHOLE,
        "transport": {"enum": ["bits", "shares", "sealed"]},
        "model_version": WHOLE,
        "model_hash": HEX_32,
        "key": HEX_32,
        "inner_key": {"type": ["string", "null"]},
        "record_length": WHOLE,
    }
)
FAILURE = table({"index": WHOLE, "id": TEXT, "reason": TEXT})
TAKEN = table({"accepted": WHOLE, "failures": {"type": "array", "items": FAILURE}})
READY = table(
    {
        "ready": {"type": "boolean"},
        "waiting_for": {"type": "array", "items": TEXT},
        "trouble": TEXT,
    },
)


def shuffler_api() -> Document:
    """What the shuffler offers."""
    report_reasons = [
        Reason.ID_CONFLICT, Reason.WRONG_PLAN, Reason.STALE_BATCH, Reason.STALE_MODEL,
        Reason.WRONG_LENGTH, Reason.BAD_PADDING, Reason.UNDECRYPTABLE, Reason.UNKNOWN_KEY,
        Reason.DUPLICATE_USER, Reason.PARTICIPATION_LIMIT, Reason.PLAN_ENDED,
        Reason.BODY_TOO_LARGE, Reason.QUEUE_FULL, Reason.BATCH_CLOSED, Reason.BAD_TOKEN,
        Reason.ACCOUNT_TOKEN, Reason.MALFORMED, Reason.BAD_VERSION, Reason.DRAINING,
        Reason.TIMED_OUT,
    ]  # fmt: skip
    return _api(
        "croupier shuffler",
        {
            **_common(),
            "/v1/keys": {"get": _operation("keys", "Public keys, signed.", SIGNED)},
            **_mirror(),
            "/v1/plans/{plan}/batch": {
                "parameters": [_in_path("plan")],
                "get": _operation(
                    "batch",
                    "The open batch, and what a report must be bound to.",
                    BATCH,
                    (Reason.WRONG_PLAN, Reason.BATCH_CLOSED, Reason.PLAN_ENDED),
                ),
            },
            "/v1/plans/{plan}/reports": {
                "parameters": [_in_path("plan")],
                "post": _operation(
                    "report",
                    "One or more records. The failure of a single one is a problem document.",
                    TAKEN,
                    report_reasons,
                    status=201,
                    body=RECORDS_TYPE,
                ),
            },
        },
    )


def witness_api() -> Document:
    """What a witness offers."""
    common = {path: found for path, found in _common().items() if path != "/metrics"}
    unknown = (Reason.WRONG_PLAN, Reason.NOT_FOUND)
    head = _operation("head", "The newest head that was signed.", SIGNED, unknown)
    return _api(
        "croupier witness",
        {
            **common,
            "/v1/keys": {"get": _operation("keys", "Public keys, signed.", SIGNED)},
            "/v1/plans/{plan}/head": {"parameters": [_in_path("plan")], "get": head},
        },
    )


def analyzer_api() -> Document:
    """What the analyzer offers."""
    refusals = [
        Reason.WRONG_PLAN, Reason.BAD_TOKEN, Reason.BAD_SIGNATURE, Reason.MALFORMED,
        Reason.WRONG_LENGTH, Reason.BAD_VERSION, Reason.BAD_PADDING, Reason.STALE_BATCH,
        Reason.STALE_MODEL, Reason.ID_CONFLICT, Reason.PLAN_ENDED, Reason.BODY_TOO_LARGE,
        Reason.UNKNOWN_KEY, Reason.NOT_FOUND, Reason.GUARANTEE_NOT_MET, Reason.DRAINING,
        Reason.QUEUE_FULL, Reason.TIMED_OUT,
    ]  # fmt: skip
    return _api(
        "croupier analyzer",
        {
            **_common(),
            "/v1/keys": {"get": _operation("keys", "Public keys, signed.", SIGNED)},
            **_published((Reason.WRONG_PLAN,)),
            "/v1/plans/{plan}/batches": {
                "parameters": [_in_path("plan"), _signature()],
                "post": _operation(
                    "deliver",
                    "A released batch from the shuffler. Idempotent.",
                    {"anyOf": [LEARNT, OPENED]},
                    refusals,
                    body=BATCH_TYPE,
                ),
            },
            "/v1/plans/{plan}/batches/access": {
                "parameters": [_in_path("plan")],
                "get": _question(
                    "access",
                    "Whether the bearer token is right; nothing is counted.",
                    (Reason.WRONG_PLAN, Reason.BAD_TOKEN),
                ),
            },
            "/v1/plans/{plan}/batches/{batch}/share": {
                "parameters": [_in_path("plan"), _in_path("batch"), _signature()],
                "post": _operation(
                    "share",
                    "The shuffler's part of a sum of shares. Idempotent.",
                    LEARNT,
                    refusals,
                    body=SHARE_TYPE,
                ),
            },
        },
    )


_LEDGER = table({"plan": TEXT, "entries": {"type": "array", "items": {"type": "object"}}})


def _published(unknown: Iterable[Reason]) -> Document:
    """What the analyzer publishes, and the shuffler after it."""
    plan, by_hash = [_in_path("plan")], [_in_path("hash")]
    ledger = _operation("ledger", "What was released, in a chain of hashes.", _LEDGER, unknown)
    plain = _operation("plan", "The plan.", {"type": "object"}, (Reason.WRONG_PLAN,))
    newest = _operation("newest", "The newest model.", SIGNED, unknown)
    model = _operation("model", "A model by its hash.", SIGNED, (Reason.NOT_FOUND,))
    return {
        "/v1/plans/{plan}": {"parameters": plan, "get": _cached(plain)},
        "/v1/plans/{plan}/model": {"parameters": plan, "get": _cached(newest)},
        "/v1/plans/{plan}/ledger": {"parameters": plan, "get": _cached(ledger)},
        "/v1/models/{hash}": {"parameters": by_hash, "get": _cached(model)},
    }


def _mirror() -> Document:
    """What the shuffler shows of others."""
    unknown = (Reason.NOT_FOUND,)
    head = _operation("witness", "The newest head that the witness signed.", SIGNED, unknown)
    return {
        **_published(unknown),
        "/v1/analyzer/keys": {
            "get": _cached(_operation("analyzer-keys", "The analyzer's keys.", SIGNED, unknown))
        },
        "/v1/witness/keys": {
            "get": _cached(_operation("witness-keys", "The witness's keys.", SIGNED, unknown))
        },
        "/v1/plans/{plan}/witness": {"parameters": [_in_path("plan")], "get": _cached(head)},
    }


def _api(title: str, paths: Document) -> Document:
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version("croupier")},
        "paths": paths,
        "components": {"schemas": {"Problem": PROBLEM}},
    }


def _common() -> Document:
    ready = _operation("ready", "Whether to send traffic here.", READY)
    ready["responses"]["503"] = _json_answer("Not now.", READY)
    text = {"200": {"description": "Fine.", "content": {"text/plain": {"schema": TEXT}}}}
    return {
        "/healthz": {"get": {"operationId": "health", "responses": text}},
        "/readyz": {"get": ready},
        "/metrics": {"get": {"operationId": "metrics", "responses": text}},
    }


def _operation(
    name: str,
    summary: str,
    schema: Document,
    reasons: Iterable[Reason] = (),
    status: int = 200,
    body: str | None = None,
) -> Document:
    operation: Document = {
        "operationId": name,
        "summary": summary,
        "responses": {str(status): _json_answer("Done.", schema), **_problems(reasons)},
    }
    if body is not None:
        operation["requestBody"] = {"required": True, "content": {body: {"schema": BYTES}}}
    return operation


def _question(name: str, summary: str, reasons: Iterable[Reason]) -> Document:
    """An operation whose whole answer is its status."""
    responses = {"204": {"description": "Yes."}, **_problems(reasons)}
    return {"operationId": name, "summary": summary, "responses": responses}


def _json_answer(description: str, schema: Document) -> Document:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _problems(reasons: Iterable[Reason]) -> Document:
    """One entry per status, which names the reasons that have it."""
    by_status: dict[int, list[str]] = {}
    for reason in reasons:
        by_status.setdefault(reason.status, []).append(reason.code)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        str(status): {
            "description": ", ".join(codes),
            "content": {MEDIA_TYPE: {"schema": schema}},
        }
        for status, codes in sorted(by_status.items())
    }


def _cached(operation: Document) -> Document:
    operation["parameters"] = [{"name": "If-None-Match", "in": "header", "schema": TEXT}]
    operation["responses"]["304"] = {"description": "The caller has it."}
    return operation


def _in_path(name: str) -> Document:
    return {"name": name, "in": "path", "required": True, "schema": TEXT}


def _signature() -> Document:
    return {"name": SIGNATURE, "in": "header", "required": True, "schema": TEXT}
