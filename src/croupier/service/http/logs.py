"""Structured logs on stderr. Only fields on a list get in, so that nothing about users can."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, MutableMapping
from typing import Any, TextIO

import structlog

FIELDS = frozenset({
    "event", "level", "timestamp", "role", "plan", "batch", "size", "state", "count", "reason",
    "status", "seconds", "attempt", "model_version", "model_hash", "transport", "error", "where",
    "policy", "port", "check",
})  # fmt: skip
"""Everything that may be logged: public facts about plans, batches, models and this process."""

LONGEST = 200

PAUSE = 1.0
"""Seconds between two of the same warnings or errors."""

REPEATED = frozenset({"warning", "error", "critical"})
SAME = ("event", "level", "role", "reason", "error", "where", "batch")
MOST_KINDS = 256
LEVELS = ("debug", "info", "warning", "error")


def set_up(level: str, stream: TextIO | None = None) -> None:
    """JSON lines on stderr from here on, for our own events and those of libraries."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_listed,
            Repetitions(),
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=structlog.WriteLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )
    library = logging.getLogger()
    library.handlers = [_Library()]
    library.setLevel(max(_number(level), logging.WARNING))


class Repetitions:
    """A processor that lets the same warning or error through once a second at most.

    Of those that it held back the next one tells the ``count``.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[tuple[Any, ...], tuple[float, int]] = {}

    def __call__(
        self, _logger: Any, _method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """The event, unless its like was just let through."""
        if event.get("level") not in REPEATED:
            return event
        now, name = self._clock(), tuple(event.get(field) for field in SAME)
        last, held = self._last.get(name, (now - PAUSE, 0))
        if now - last < PAUSE:
            self._last[name] = last, held + 1
            raise structlog.DropEvent
        if len(self._last) >= MOST_KINDS:
            self._last.clear()
        self._last[name] = now, 0
        return {**event, "count": held} if held else event


def logger(role: str) -> Any:
    """The log of one role."""
    return structlog.get_logger().bind(role=role)


def only_listed(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Drop every field that is not on the list, and every value that could carry a payload."""
    return {name: value for name, value in event.items() if name in FIELDS and _plain(value)}


def _plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST
    return value is None or isinstance(value, bool | int | float)


def where(error: BaseException) -> str:
    """File and line at which an error rose; its text may quote what users sent, so it stays out."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}"


class _Library(logging.Handler):
    """What libraries log: the sentence without its values, which may be addresses."""

    def emit(self, record: logging.LogRecord) -> None:
        found = record.exc_info[1] if record.exc_info else None
        extra = {"error": type(found).__name__, "where": where(found)} if found else {}
        told = record.msg.strip().partition("\n")[0] if isinstance(record.msg, str) else ""
        structlog.get_logger().log(record.levelno, told[:LONGEST] or "library error", **extra)


def _number(level: str) -> int:
    return int(logging.getLevelNamesMapping()[level.upper()])
