"""What SQLite and PostgreSQL do differently: connecting, beginning, locking, overwriting.

Statements are written once, with SQLite's question marks and PostgreSQL's locking clauses.
"""

from __future__ import annotations

import os
import re
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from croupier.errors import MissingExtraError

PATIENCE = 30.0
"""Seconds to wait for another process's write."""

PAGES_KEPT = 16_384
"""Pages of SQLite in memory, and in its log before it is emptied into the file; 64 MiB of each.

Ids and marks are random, so that every report changes pages all over the indexes. With room for
them they are read once, and many changes of a page are written to the file as one.
"""

START_UP_LOCK = 7_046_029_254_386_353
"""Names the lock under which one process at a time brings a PostgreSQL database up to date."""


class Dialect(ABC):
    """One kind of database at one place; connections are of its DB-API module."""

    write: ClassVar[str]
    """Begins a transaction that may write."""
    read: ClassVar[str]
    """Begins a transaction that sees one state throughout."""
    alone: ClassVar[str]
    """Waits until no other process brings the database up to date."""
    error: type[Exception]

    @abstractmethod
    def connect(self) -> Any:
        """A connection that leaves transactions to us."""

    @abstractmethod
    def translate(self, sql: str) -> str:
        """The statement as this database reads it."""

    @abstractmethod
    def overwrite(self, connection: Any, tables: Sequence[str]) -> None:
        """Remove the traces that deleted rows of the tables have left, as far as it can."""


_SETTINGS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    f"cache_size={PAGES_KEPT}",
    f"wal_autocheckpoint={PAGES_KEPT}",
)


class Sqlite(Dialect):
    """A file: one writer, write-ahead log, every commit synchronised to disk."""

    write = "BEGIN IMMEDIATE"
    read = "BEGIN"
    alone = "SELECT 1"  # a transaction that may write is alone already
    error = sqlite3.Error

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __str__(self) -> str:
        return str(self._path)

    def connect(self) -> sqlite3.Connection:
        """The file is made readable to its owner only; SQLite gives its log the same mode."""
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        connection = sqlite3.connect(
            self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
        )
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        return connection

    def translate(self, sql: str) -> str:
        """One writer needs no row locks."""
        return _without_locks(sql)

    def overwrite(self, connection: sqlite3.Connection, tables: Sequence[str]) -> None:
        """``secure_delete`` zeroes pages; the log keeps old ones until it is cut.

        While somebody reads it cannot be cut. The next call does it.
        """
        connection.execute("PRAGMA busy_timeout = 0")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE:.0f}")


class Postgres(Dialect):
    """A server that many processes share."""

    write = "BEGIN"
    read = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    alone = f"SELECT pg_advisory_xact_lock({START_UP_LOCK})"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as missing:
            raise MissingExtraError("psycopg", "service") from missing
        self._url = url
        self._connect = psycopg.connect
        self.error = psycopg.Error

    def __str__(self) -> str:
        return re.sub(r"//[^@/]*@", "//", self._url)

    def connect(self) -> Any:
        """Durable commits, whatever the server's default."""
        connection = self._connect(self._url, autocommit=True)
        connection.execute("SET synchronous_commit = on")
        return connection

    def translate(self, sql: str) -> str:
        """psycopg's parameters."""
        return _percent_parameters(sql)

    def overwrite(self, connection: Any, tables: Sequence[str]) -> None:
        """Dead rows are given back to their tables; only the disk's encryption hides the rest."""
        connection.execute(f"VACUUM (SKIP_LOCKED, TRUNCATE off) {', '.join(tables)}")


@lru_cache(maxsize=256)
def _without_locks(sql: str) -> str:
    return re.sub(r"\s+FOR UPDATE( SKIP LOCKED)?", "", sql)


@lru_cache(maxsize=256)
def _percent_parameters(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s")


def dialect(url: str) -> Dialect:
    """The dialect for a file's path, ``sqlite:///path`` or ``postgresql://...``."""
    if url.startswith(("postgresql://", "postgres://")):
        return Postgres(url)
    path = url.removeprefix("sqlite:///")
    if "://" in path or path in {"", ":memory:"}:
        raise ValueError(f"url must be a file's path, sqlite:/// or postgresql://, got {url!r}")
    return Sqlite(path)
