"""What repeats is logged once a second, with how often it was held back."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from croupier.service.http import logs


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers = before
    root.setLevel(level)


def event(**changes: Any) -> dict[str, Any]:
    return {"event": "upload failed", "level": "error", "role": "shuffler", **changes}


def test_the_same_error_comes_once_a_second_and_says_how_often() -> None:
    now = 0.0
    held = logs.Repetitions(lambda: now)
    assert held(None, "error", event()) == event()
    for _ in range(3):
        with pytest.raises(structlog.DropEvent):
            held(None, "error", event())
    assert held(None, "error", event(where="app.py:1")) == event(where="app.py:1")
    now = 1.0
    assert held(None, "error", event()) == event(count=3)
    now = 2.0
    assert held(None, "error", event()) == event()


def test_what_is_no_error_always_comes() -> None:
    held = logs.Repetitions(lambda: 0.0)
    for _ in range(3):
        assert held(None, "info", event(level="info")) == event(level="info")


def test_kinds_of_errors_are_not_remembered_without_end() -> None:
    now = 0.0
    held = logs.Repetitions(lambda: now)
    for kind in range(5 * logs.MOST_KINDS):
        held(None, "error", event(where=str(kind)))
    assert len(held._last) <= logs.MOST_KINDS


def test_a_librarys_errors_are_held_back_too_and_without_what_follows_their_first_line() -> None:
    said = io.StringIO()
    logs.set_up("info", said)
    for number in range(100):
        logging.getLogger("asyncio").error(
            f"socket.accept() out of system resource\nsocket: 192.0.2.{number}"
        )
    (line,) = said.getvalue().splitlines()
    assert json.loads(line)["event"] == "socket.accept() out of system resource"
