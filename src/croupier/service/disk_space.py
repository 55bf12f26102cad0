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

FULL = "the disk of the database is full"

_SQLITE, _POSTGRESQL = "SQLITE_FULL", "53100"


def free_bytes(database: str) -> int | None:
    """What is free beside a database that is a file; None where it is elsewhere."""
    if "://" in database:
        return None
    return shutil.disk_usage(Path(database).resolve().parent).free


class DiskWatch:
    """Whether there is room for more, by what is free and by how the last writes went."""

    def __init__(self, database: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._failed: float | None = None

    def note(self, error: BaseException) -> None:
        """Hear of an error; that of a full disk is remembered for a while."""
        if is_disk_full(error):
            self._failed = self._clock()

    def blockers(self) -> list[str]:
        """Why no traffic should come, in words."""
        failed = self._failed is not None and self._clock() - self._failed < PAUSE
        free = free_bytes(self._database)
        return [FULL] if failed or (free is not None and free < LEAST_FREE) else []


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
