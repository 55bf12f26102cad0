"""What is left when a batch is over: nothing of what was sent, and nothing of who sent it."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from pathlib import Path

import pytest

from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.rows import Basis
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database

from .noiseless_plans import account, fill, noiseless, upload

HASH = "ab" * 32
TABLES = (
    "plans", "batches", "reports", "participations", "held", "ledger", "drops", "present", "masks",
    "mirror", "migrations",
)  # fmt: skip


def contents(database: Database) -> list[bytes]:
    """Every value of every row."""
    with database.reading() as transaction:
        rows = [row for table in TABLES for row in transaction.all(f"SELECT * FROM {table}")]
    return [value for row in rows for value in map(as_bytes, row)]


def as_bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()


def secrets_of(sent: Upload) -> list[bytes]:
    return [sent.account, sent.id, sent.digest, sent.payload]


def test_the_list_of_tables_is_complete(kind: str, places: Callable[[str], str]) -> None:
    database = Database.open(places(kind), "shuffler")
    sql = (
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        if kind == "sqlite"
        else "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    )
    with database.reading() as transaction:
        assert {name for (name,) in transaction.all(sql)} == set(TABLES)
    database.close()


def test_after_the_scrub_no_row_tells_of_a_report_or_its_user(
    kind: str, places: Callable[[str], str]
) -> None:
    database, plan = Database.open(places(kind), "shuffler"), noiseless()
    store = ShufflerStore(database)
    store.open_plan(plan, Basis(0, HASH))
    batch = store.current(plan.id)
    sent = [upload(plan, batch, user) for user in range(3)]
    store.take(sent)
    assert any(secret in value for secret in secrets_of(sent[0]) for value in contents(database))
    store.seal(plan.id)
    released = store.release(plan.id)
    assert released is not None
    store.acknowledge(plan.id, 0, Basis(1, HASH))
    store.scrub(plan.id)
    secrets = [secret for one in sent for secret in secrets_of(one)]
    marks = [hmac.digest(batch.key, account(user), "sha256") for user in range(3)]
    kept = contents(database)
    for secret in [*secrets, *marks, batch.key, released.body]:
        assert not any(secret in value for value in kept)
    database.close()


def test_accounts_are_never_stored_at_all(kind: str, places: Callable[[str], str]) -> None:
    database, plan = Database.open(places(kind), "shuffler"), noiseless()
    store = ShufflerStore(database)
    store.open_plan(plan, Basis(0, HASH))
    fill(store, plan, range(2))
    kept = contents(database)
    assert not any(account(user) in value for user in range(2) for value in kept)
    key = store.plans()[0].key
    assert any(hmac.digest(key, account(0), "sha256") == value for value in kept)
    database.close()


def test_nothing_of_it_is_left_in_the_files_either(tmp_path: Path) -> None:
    """SQLite only: a PostgreSQL server has its files to itself."""
    database, plan = Database.open(str(tmp_path / "x.db"), "shuffler"), noiseless()
    store = ShufflerStore(database)
    store.open_plan(plan, Basis(0, HASH))
    batch = store.current(plan.id)
    sent = [upload(plan, batch, user) for user in range(3)]
    store.take(sent)

    def found(secret: bytes) -> bool:
        return any(secret in file.read_bytes() for file in tmp_path.iterdir())

    marks = [hmac.digest(batch.key, account(user), "sha256") for user in range(3)]
    assert found(batch.key)
    assert all(map(found, marks))
    assert store.seal(plan.id)
    assert not found(batch.key)
    released = store.release(plan.id)
    assert released is not None
    store.acknowledge(plan.id, 0, Basis(1, HASH))
    assert found(sent[0].id)
    assert found(released.body[:64])
    store.scrub(plan.id)
    secrets = [secret for one in sent for secret in secrets_of(one)]
    for secret in [*secrets, *marks, released.body[:64]]:
        assert not found(secret)
    database.close()


@pytest.mark.parametrize("way", ["drop", "retire"])
def test_a_batch_that_is_given_up_leaves_nothing_either(tmp_path: Path, way: str) -> None:
    database, plan = Database.open(str(tmp_path / "x.db"), "shuffler"), noiseless()
    store = ShufflerStore(database)
    store.open_plan(plan, Basis(0, HASH))
    batch = store.current(plan.id)
    sent = upload(plan, batch, 0)
    store.take([sent])
    getattr(store, way)(plan.id)
    files = [file.read_bytes() for file in tmp_path.iterdir()]
    for secret in [*secrets_of(sent), batch.key]:
        assert not any(secret in content for content in files)
    database.close()
