"""A role's database: transactions, migrations, and seams at every commit for fault injection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from croupier.errors import CroupierError
from croupier.service.storage.dialects import Dialect, dialect

Row = tuple[Any, ...]

ASKED_AT_ONCE = 500
"""Values in one IN list."""


class DatabaseError(CroupierError):
    """The database cannot be used: out of reach, of another role, or newer than this code."""


class EmptyDatabaseError(DatabaseError):
    """No role has used the database yet."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Hooks:
    """Called around every commit; tests crash here."""

    before_commit: Callable[[], None] = _nothing
    after_commit: Callable[[], None] = _nothing


class Transaction:
    """Statements of one transaction: written once, for both kinds of database."""

    def __init__(self, connection: Any, spoken: Dialect) -> None:
        self._connection = connection
        self._spoken = spoken

    def execute(self, sql: str, *values: Any) -> int:
        """Rows that the statement changed."""
        return int(self._run(sql, values).rowcount)

    def one(self, sql: str, *values: Any) -> Row | None:
        """The first row, if any."""
        row: Row | None = self._run(sql, values).fetchone()
        return row

    def all(self, sql: str, *values: Any) -> list[Row]:
        """Every row."""
        return list(self._run(sql, values).fetchall())

    def many(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """The statement once for every row of values."""
        waiting = list(rows)
        if waiting:
            self._connection.cursor().executemany(self._spoken.translate(sql), waiting)

    def among(self, sql: str, *values: Any, found: Sequence[Any]) -> list[Row]:
        """Every row for a statement that ends in ``IN (...)``, the list being ``found``."""
        rows: list[Row] = []
        for start in range(0, len(found), ASKED_AT_ONCE):
            part = found[start : start + ASKED_AT_ONCE]
            marks = ", ".join("?" * len(part))
            rows += self.all(sql.replace("(...)", f"({marks})"), *values, *part)
        return rows

    def _run(self, sql: str, values: Sequence[Any]) -> Any:
        return self._connection.execute(self._spoken.translate(sql), values)


class Database:
    """Connections of one role to its database, one for every thread that asks."""

    def __init__(self, spoken: Dialect, hooks: Hooks, read_only: bool = False) -> None:
        self._spoken = spoken
        self._hooks = hooks
        self._read_only = read_only
        self._thread = threading.local()
        self._lock = threading.Lock()
        self._connections: set[Any] = set()

    @classmethod
    def open(cls, url: str, role: str, hooks: Hooks | None = None) -> Database:
        """The database at ``url``, brought up to date for ``role``."""
        database = cls(dialect(url), hooks or Hooks())
        database._guard(database._create)
        database._guard(lambda: database._migrate(role))
        return database

    @classmethod
    def open_read_only(cls, url: str, role: str) -> Database:
        """The database at ``url`` to look at while ``role`` runs: nothing is made or changed."""
        database = cls(dialect(url), Hooks(), read_only=True)
        if not database._spoken.exists():
            raise EmptyDatabaseError(f"{database} is not there; it is made when the {role} starts")
        database._guard(lambda: database._require_current(role))
        return database

    def __str__(self) -> str:
        return str(self._spoken)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of it or nothing; durable on the way out."""
        with self._within(self._spoken.write) as transaction:
            yield transaction
            self._hooks.before_commit()
        self._hooks.after_commit()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """One state of the database, without waiting for writers."""
        with self._within(self._spoken.read) as transaction:
            yield transaction

    def forget(self, *tables: str) -> bool:
        """Overwrite what was deleted from the tables; False if that is to be done again later."""
        connection = self._connected()
        try:
            return self._spoken.overwrite(connection, tables)
        except self._spoken.error as error:
            self._discard(connection)
            raise DatabaseError(f"{self._spoken}: {error}") from error

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
        self._thread = threading.local()

    @contextmanager
    def _within(self, begin: str) -> Iterator[Transaction]:
        connection = self._connected()
        try:
            connection.execute(begin)
            yield Transaction(connection, self._spoken)
            connection.execute("COMMIT")
        except self._spoken.error as error:
            self._roll_back(connection)
            raise DatabaseError(f"{self._spoken}: {error}") from error
        except BaseException:
            self._roll_back(connection)
            raise

    def _connected(self) -> Any:
        connection = getattr(self._thread, "connection", None)
        return self._connect() if connection is None else connection

    def _guard(self, work: Callable[[], None]) -> None:
        """The first work on a database: if it fails, nothing of it stays open."""
        try:
            work()
        except BaseException:
            self.close()
            raise

    def _create(self) -> None:
        try:
            self._spoken.create()
        except OSError as error:
            raise DatabaseError(f"{self._spoken}: {error}") from error

    def _connect(self) -> Any:
        try:
            connection = self._spoken.connect(self._read_only)
        except (self._spoken.error, OSError) as error:
            raise DatabaseError(f"{self._spoken}: {error}") from error
        with self._lock:
            self._connections.add(connection)
        self._thread.connection = connection
        return connection

    def _roll_back(self, connection: Any) -> None:
        try:
            connection.execute("ROLLBACK")
        except self._spoken.error:
            self._discard(connection)

    def _discard(self, connection: Any) -> None:
        """A connection that failed is not used again."""
        with self._lock:
            self._connections.discard(connection)
        self._thread.connection = None
        connection.close()

    def _require_current(self, role: str) -> None:
        """A look changes nothing, so that what is missing is an error."""
        with self.reading() as transaction:
            if transaction.one(self._spoken.recorded) is None:
                raise EmptyDatabaseError(f"{self} is empty; it is filled when the {role} starts")
            done = _count_migrations(transaction, role, str(self))
        if done < len(migrations(role)):
            raise DatabaseError(f"{self} is older than this version; start the {role} once")

    def _migrate(self, role: str) -> None:
        with self._within(self._spoken.write) as transaction:
            transaction.execute(self._spoken.alone)
            transaction.execute(_RECORD)
            done = _count_migrations(transaction, role, str(self._spoken))
            for number, statements in enumerate(migrations(role)[done:], start=done + 1):
                for statement in statements:
                    transaction.execute(statement)
                transaction.execute("INSERT INTO migrations VALUES (?, ?)", number, role)


_RECORD = """
CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY NOT NULL, role TEXT NOT NULL)
"""


def _count_migrations(transaction: Transaction, role: str, place: str) -> int:
    """Migrations applied so far; another role's database is refused, and one from the future."""
    rows = transaction.all("SELECT number, role FROM migrations ORDER BY number")
    others = {owner for _, owner in rows} - {role}
    if others:
        raise DatabaseError(f"{place} is the {others.pop()}'s; the {role} needs its own database")
    known = len(migrations(role))
    if len(rows) > known:
        raise DatabaseError(f"{place} has {len(rows)} migrations, this version knows {known}")
    return len(rows)


@cache
def migrations(role: str) -> list[list[str]]:
    """The statements of every migration of a role, in order."""
    folder = files("croupier.service").joinpath("migrations", role)
    texts = sorted((file.name, file.read_text(encoding="utf-8")) for file in folder.iterdir())
    return [_split_statements(text) for name, text in texts if name.endswith(".sql")]


def _split_statements(text: str) -> list[str]:
    return [part for part in map(str.strip, text.split(";\n")) if part]
