"""One interface over two databases: every test here runs on both, unless it says why not."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from croupier.service.storage import database as databases_module
from croupier.service.storage.database import (
    ASKED_AT_ONCE,
    Database,
    DatabaseError,
    Hooks,
    migrations,
)
from croupier.service.storage.dialects import Postgres, dialect

Places = Callable[[str], str]


class CrashError(Exception):
    """What a test raises around a commit."""


def crash() -> None:
    raise CrashError


@pytest.fixture
def url(kind: str, places: Places) -> str:
    return places(kind)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database.open(url, "shuffler")
    with opened.transaction() as transaction:
        transaction.execute("CREATE TABLE things (name TEXT PRIMARY KEY, bytes BYTEA)")
    yield opened
    opened.close()


def names(database: Database) -> list[str]:
    with database.reading() as transaction:
        return [name for (name,) in transaction.all("SELECT name FROM things ORDER BY name")]


def add(database: Database, *found: str) -> None:
    with database.transaction() as transaction:
        transaction.many("INSERT INTO things VALUES (?, ?)", [(name, b"\0\xff") for name in found])


def test_a_transaction_is_kept_whole(database: Database) -> None:
    add(database, "a", "b")
    assert names(database) == ["a", "b"]


def test_an_error_undoes_all_of_a_transaction(database: Database) -> None:
    def fail() -> None:
        with database.transaction() as transaction:
            transaction.execute("INSERT INTO things (name) VALUES (?)", "a")
            raise CrashError

    with pytest.raises(CrashError):
        fail()
    assert names(database) == []


def test_a_failing_statement_undoes_all_and_is_told_as_ours(database: Database) -> None:
    add(database, "a")
    with pytest.raises(DatabaseError):
        add(database, "b", "a")
    assert names(database) == ["a"]


def test_bytes_come_back_as_they_were(database: Database) -> None:
    content = bytes(range(256))
    with database.transaction() as transaction:
        assert transaction.execute("INSERT INTO things VALUES (?, ?)", "%", content) == 1
    with database.reading() as transaction:
        row = transaction.one("SELECT name, bytes FROM things WHERE name = '%'")
        assert row is not None
        assert (row[0], bytes(row[1])) == ("%", content)
        assert transaction.one("SELECT name FROM things WHERE name = ?", "no") is None


def test_rows_are_found_among_more_values_than_one_statement_takes(database: Database) -> None:
    many = [f"{number:05}" for number in range(2 * ASKED_AT_ONCE + 7)]
    add(database, *many[::2])
    with database.reading() as transaction:
        rows = transaction.among("SELECT name FROM things WHERE name IN (...)", found=many)
        assert sorted(name for (name,) in rows) == many[::2]
        assert transaction.among("SELECT name FROM things WHERE name IN (...)", found=[]) == []


def test_a_reader_sees_one_state_and_does_not_wait_for_the_writer(database: Database) -> None:
    add(database, "a")
    with database.reading() as transaction:
        before = transaction.all("SELECT name FROM things")
        writer = threading.Thread(target=add, args=(database, "b"))
        writer.start()
        writer.join(20)
        assert not writer.is_alive()
        assert transaction.all("SELECT name FROM things") == before == [("a",)]
    assert names(database) == ["a", "b"]


def test_a_reader_cannot_write_on_postgresql(kind: str, database: Database) -> None:
    """SQLite has no such transactions that cost nothing."""
    if kind == "sqlite":
        return
    with pytest.raises(DatabaseError, match="read-only"), database.reading() as transaction:
        transaction.execute("INSERT INTO things (name) VALUES ('a')")


def test_a_crash_before_the_commit_leaves_nothing(url: str, database: Database) -> None:
    second = Database.open(url, "shuffler", Hooks(before_commit=crash))
    with pytest.raises(CrashError):
        add(second, "a")
    second.close()
    assert names(database) == []


def test_a_crash_after_the_commit_leaves_everything(url: str, database: Database) -> None:
    second = Database.open(url, "shuffler", Hooks(after_commit=crash))
    with pytest.raises(CrashError):
        add(second, "a")
    second.close()
    assert names(database) == ["a"]


def test_what_is_committed_outlives_the_connection(url: str, database: Database) -> None:
    add(database, "a")
    database.close()
    assert names(database) == ["a"]
    again = Database.open(url, "shuffler")
    assert names(again) == ["a"]
    again.close()


def test_a_lost_connection_is_replaced(kind: str, database: Database) -> None:
    add(database, "a")
    connection = database._connected()
    if kind == "sqlite":
        connection.close()
    else:
        with psycopg.connect(connection.info.dsn) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(DatabaseError):
        add(database, "b")
    add(database, "c")
    assert names(database) == ["a", "c"]


def test_every_thread_has_its_own_connection(database: Database) -> None:
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(database._connected())) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
        thread.join()
    assert len({id(connection) for connection in [*found, database._connected()]}) == 4


def test_writers_in_many_threads_lose_nothing(database: Database) -> None:
    def work(start: int) -> None:
        for number in range(start, start + 20):
            add(database, f"{number:03}")

    threads = [threading.Thread(target=work, args=(20 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names(database) == [f"{number:03}" for number in range(80)]


def test_the_database_of_another_role_is_refused(url: str, database: Database) -> None:
    with pytest.raises(DatabaseError, match="is the shuffler's; the analyzer needs its own"):
        Database.open(url, "analyzer")
    assert names(database) == []


def test_a_database_from_the_future_is_refused(url: str, database: Database) -> None:
    known = len(migrations("shuffler"))
    with database.transaction() as transaction:
        transaction.execute("INSERT INTO migrations VALUES (?, 'shuffler')", known + 1)
    with pytest.raises(DatabaseError, match=f"{known + 1} migrations, this version knows {known}"):
        Database.open(url, "shuffler")


def test_a_newer_version_adds_what_is_missing_once(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = [*migrations("shuffler"), ["CREATE TABLE later (name TEXT)", "SELECT 1"]]
    monkeypatch.setattr(databases_module, "migrations", lambda _: later)
    for _ in range(2):
        newer = Database.open(url, "shuffler")
        with newer.reading() as transaction:
            assert transaction.all("SELECT name FROM later") == []
            assert transaction.one("SELECT max(number) FROM migrations") == (len(later),)
        newer.close()


def test_a_migration_that_fails_changes_nothing(
    url: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = [*migrations("shuffler"), ["CREATE TABLE later (name TEXT)", "no such thing"]]
    monkeypatch.setattr(databases_module, "migrations", lambda _: later)
    with pytest.raises(DatabaseError, match="syntax"):
        Database.open(url, "shuffler")
    with pytest.raises(DatabaseError, match="later"), database.reading() as transaction:
        transaction.all("SELECT name FROM later")


def test_many_processes_may_start_at_once(url: str) -> None:
    failed: list[BaseException] = []

    def start() -> None:
        try:
            Database.open(url, "shuffler").close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_commits_are_synchronised_to_disk(kind: str, database: Database) -> None:
    connection = database._connected()
    if kind == "sqlite":
        found = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "secure_delete")
        ]
        assert found == ["wal", 2, 1]
    else:
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "shuffler.db"
    old = os.umask(0)
    try:
        database = Database.open(f"sqlite:///{path}", "shuffler")
        with database.transaction() as transaction:
            transaction.execute("INSERT INTO ledger VALUES ('a', 0, '', '')")
        files = sorted(tmp_path.iterdir())
        assert len(files) == 3
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
        database.close()
    finally:
        os.umask(old)


@pytest.mark.parametrize("wrong", ["", ":memory:", "mysql://somewhere", "sqlite:///"])
def test_a_place_that_is_no_database_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="url must be"):
        Database.open(wrong, "shuffler")


def test_a_place_out_of_reach_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="nowhere"):
        Database.open(str(tmp_path / "nowhere" / "x.db"), "shuffler")


def test_a_password_is_never_shown() -> None:
    spoken = dialect("postgresql://me:secret@localhost:1/croupier")
    assert isinstance(spoken, Postgres)
    assert str(spoken) == "postgresql://localhost:1/croupier"
    with pytest.raises(DatabaseError) as refused:
        Database.open("postgresql://me:secret@localhost:1/croupier", "shuffler")
    assert "secret" not in str(refused.value)


def test_statements_of_both_kinds_are_the_same_text() -> None:
    sql = "SELECT a FROM b WHERE c = ? AND d LIKE '%' ORDER BY a LIMIT 1 FOR UPDATE SKIP LOCKED"
    assert dialect("x.db").translate(sql) == (
        "SELECT a FROM b WHERE c = ? AND d LIKE '%' ORDER BY a LIMIT 1"
    )
    assert dialect("postgresql://x").translate(sql) == (
        "SELECT a FROM b WHERE c = %s AND d LIKE '%%' ORDER BY a LIMIT 1 FOR UPDATE SKIP LOCKED"
    )


def test_deleted_bytes_are_gone_from_the_file(tmp_path: Path) -> None:
    """Only SQLite's files are in our hands."""
    path, secret = tmp_path / "x.db", b"deleted, but is it gone?" * 50
    database = Database.open(str(path), "shuffler")
    with database.transaction() as transaction:
        transaction.execute("CREATE TABLE things (bytes BYTEA)")
        transaction.execute("INSERT INTO things VALUES (?)", secret)
    assert any(secret[:24] in file.read_bytes() for file in tmp_path.iterdir())
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM things")
    database.forget("things")
    assert not any(secret[:24] in file.read_bytes() for file in tmp_path.iterdir())
    database.close()


def test_forgetting_waits_for_nobody(database: Database) -> None:
    with database.reading() as transaction:
        transaction.all("SELECT name FROM things")
        done = threading.Thread(target=database.forget, args=("things",))
        done.start()
        done.join(20)
        assert not done.is_alive()


def test_python_was_built_with_a_database_that_can_do_all_this() -> None:
    assert sqlite3.sqlite_version_info >= (3, 35)
