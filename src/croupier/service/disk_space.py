"""A full disk: known before it is hit, and recognised in the error of whoever hit it."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from pathlib import Path

LEAST_FREE = 2**26
"""Bytes below which a service wants no traffic: a database's log grows before it shrinks."""

PAUSE = 30.0
"""Seconds for which a write that failed is believed to say something of the disk."""

FULL = "a disk that the service writes to is full"

_SQLITE, _POSTGRESQL = "SQLITE_FULL", "53100"


def free_bytes(database: str, beside: Path) -> int:
    """The least that is free where we write: beside a database that is a file, and ``beside``.

    What is noted outside of the database may be on a disk of its own, and nothing is acknowledged
    without it.
    """
    places = [beside] if is_elsewhere(database) else [beside, Path(database).parent]
    return min(shutil.disk_usage(_existing(place.resolve())).free for place in places)


def is_elsewhere(database: str) -> bool:
    """Whether the database is no file of this machine's."""
    return "://" in database


def _existing(directory: Path) -> Path:
    """The directory, or the nearest one above it that is there."""
    return next(one for one in (directory, *directory.parents) if one.exists())


class DiskWatch:
    """Whether there is room for more, by what is free and by how the last writes went."""

    def __init__(
        self, database: str, beside: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = database, beside
        self._clock = clock
        self._failed: float | None = None

    def note(self, error: BaseException) -> None:
        """Hear of an error; that of a full disk is remembered for a while."""
        if is_disk_full(error):
            self._failed = self._clock()

    def blockers(self) -> list[str]:
        """Why no traffic should come, in words."""
        failed = self._failed is not None and self._clock() - self._failed < PAUSE
        return [FULL] if failed or free_bytes(*self._places) < LEAST_FREE else []


def is_disk_full(error: BaseException | None) -> bool:
    """Whether an error, or one that led to it, is a database's or the system's for a full disk."""
    while error is not None:
        if getattr(error, "sqlite_errorname", "") == _SQLITE:
            return True
        if getattr(error, "sqlstate", "") == _POSTGRESQL:
            return True
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return True
        error = error.__cause__
    return False
