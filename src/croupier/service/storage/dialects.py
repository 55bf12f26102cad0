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
from croupier.service.storage.disk import flush_directory

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
    recorded: ClassVar[str]
    """Finds the table of migrations, if a role has begun."""
    error: type[Exception]

    @abstractmethod
    def exists(self) -> bool:
        """Whether there is something to look at, as far as that is known without looking."""

    @abstractmethod
    def create(self) -> None:
        """Make the place, if it is ours to make and not there."""

    @abstractmethod
    def connect(self, read_only: bool = False) -> Any:
        """A connection that leaves transactions to us; one to look on can change nothing."""

    @abstractmethod
    def translate(self, sql: str) -> str:
        """The statement as this database reads it."""

    @abstractmethod
    def overwrite(self, connection: Any, tables: Sequence[str]) -> bool:
        """Remove the traces of rows that were deleted; False if a reader stands in the way."""


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
    recorded = "SELECT 1 FROM sqlite_master WHERE name = 'migrations'"
    error = sqlite3.Error

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def __str__(self) -> str:
        return str(self._path)

    def exists(self) -> bool:
        """The file is there; it is not opened."""
        return self._path.exists()

    def create(self) -> None:
        """A file that only its owner can read; SQLite gives its log the same mode.

        A file that is there is never opened but by SQLite: closing any descriptor of it drops all
        locks that this process holds, and the next process to look would delete a live log.
        """
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return
        flush_directory(self._path.parent)

    def connect(self, read_only: bool = False) -> sqlite3.Connection:
        """Of a file that is there; a place without one is an error."""
        place = f"{self._path.absolute().as_uri()}?mode={'ro' if read_only else 'rw'}"
        connection = sqlite3.connect(
            place, timeout=PATIENCE, isolation_level=None, check_same_thread=False, uri=True
        )
        for setting in ("query_only=ON",) if read_only else _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
        return connection

    def translate(self, sql: str) -> str:
        """One writer needs no row locks."""
        return _without_locks(sql)

    def overwrite(self, connection: sqlite3.Connection, tables: Sequence[str]) -> bool:
        """``secure_delete`` zeroes pages; the log keeps old ones until it is cut.

        While somebody reads it cannot be cut.
        """
        connection.execute("PRAGMA busy_timeout = 0")
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.execute(f"PRAGMA busy_timeout = {1000 * PATIENCE:.0f}")
        return not busy


class Postgres(Dialect):
    """A server that many processes share."""

    write = "BEGIN"
    read = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    alone = f"SELECT pg_advisory_xact_lock({START_UP_LOCK})"
    recorded = (
        "SELECT 1 FROM pg_tables WHERE tablename = 'migrations' AND schemaname = current_schema()"
    )

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

    def exists(self) -> bool:
        """Connecting will tell."""
        return True

    def create(self) -> None:
        """A database is made by whoever runs the server."""

    def connect(self, read_only: bool = False) -> Any:
        """Durable commits, whatever the server's default."""
        connection = self._connect(self._url, autocommit=True)
        connection.execute("SET synchronous_commit = on")
        if read_only:
            connection.execute("SET default_transaction_read_only = on")
        return connection

    def translate(self, sql: str) -> str:
        """psycopg's parameters."""
        return _percent_parameters(sql)

    def overwrite(self, connection: Any, tables: Sequence[str]) -> bool:
        """Dead rows are given back to their tables; what they held was ciphertext."""
        connection.execute(f"VACUUM (SKIP_LOCKED, TRUNCATE off) {', '.join(tables)}")
        return True


@lru_cache(maxsize=256)
def _without_locks(sql: str) -> str:
    return re.sub(r"\s+FOR UPDATE( SKIP LOCKED)?", "", sql)


@lru_cache(maxsize=256)
def _percent_parameters(sql: str) -> str:
    return sql.replace("%", "%%").replace("?", "%s").replace(") WITHOUT ROWID", ")")


def dialect(url: str) -> Dialect:
    """The dialect for a file's path, ``sqlite:///path`` or ``postgresql://...``."""
    if url.startswith(("postgresql://", "postgres://")):
        return Postgres(url)
    path = url.removeprefix("sqlite:///")
    if "://" in path or path in {"", ":memory:"}:
        raise ValueError(f"url must be a file's path, sqlite:/// or postgresql://, got {url!r}")
    return Sqlite(path)
