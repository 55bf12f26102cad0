"""What commands print: one JSON document or words on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from croupier.errors import DocumentError
from croupier.plan import Plan
from croupier.simulation.sweep import Progress as Callback

COMPILES = "(the very first run compiles, half a minute)"
"""What a bar of simulations says as long as nothing is done."""


def emit(document: dict[str, Any], words: str | Table, as_json: bool) -> None:
    """The answer, in the form that was asked for."""
    if as_json:
        print(json.dumps(document, allow_nan=False))
    elif isinstance(words, Table):
        Console(width=None if Console().is_terminal else 120).print(words)
    else:
        print(words)


def warn(text: str) -> None:
    """A line on stderr."""
    Console(stderr=True).print(f"warning: {text}", style="yellow", highlight=False, soft_wrap=True)


def note(text: str) -> None:
    """A line on stderr that people may want to read while they wait."""
    Console(stderr=True).print(text, highlight=False, soft_wrap=True)


@contextmanager
def progress_bar(title: str, before: str = "") -> Iterator[Callback]:
    """A bar on stderr that counts rounds; ``before`` is shown until there are some."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed:,.0f} rounds"),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task(title, total=None)

    def advance(done: int, total: int) -> None:
        bar.start()  # only once there is something to count, so that a refusal stays one line
        words = title if done else f"{title} {before}".strip()
        bar.update(task, description=words, completed=done, total=total)

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """A sign of life on stderr while something takes long."""
    with Console(stderr=True).status(title):
        yield


def read_text(path: Path) -> str:
    """A file's text, or one clear line on why not."""
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise DocumentError(f"cannot read {path}: {reason}") from error


def read_plan(path: Path) -> Plan:
    """The plan in a file."""
    try:
        return Plan.from_json(read_text(path))
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from error
