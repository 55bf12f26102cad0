"""What tests let worker processes do."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def double(number: int) -> int:
    return 2 * number


def die_once(task: tuple[Path, int]) -> int:
    """The task of number 3 ends its first process and leaves a mark."""
    directory, number = task
    mark = directory / "died"
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die_always(task: tuple[Path, int]) -> int:
    directory, number = task
    if number == 3:
        with (directory / "deaths").open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def reciprocal(number: int) -> float:
    return 1 / number


def thread_settings(name: str) -> str | None:
    return os.environ.get(name)
