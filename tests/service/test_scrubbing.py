"""What is left of a batch: in rows, in files with their logs, and outside of the database."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_bytes
from urllib.parse import unquote

import pytest

from croupier.plan import Plan
from croupier.service.messages.transports import BitsTransport, SharesTransport
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.rows import Basis
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database

from .beside_the_keys import beside, shuffler_store
from .noiseless_plans import HASHES, account, begun, noiseless, released, upload
from .packed_reports import plan_of
from .shared_batch import Sharing

Places = Callable[[str], str]

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


def files_of(database: Database) -> Iterator[bytes]:
    """Everything that the database has on disk: files and logs, or the whole server's."""
    url = str(database)
    socket = re.search(r"[?&]host=([^&]+)", url)
    if socket is None:
        found = [str(one) for one in Path(url).parent.glob(f"{Path(url).name}*")]
    else:
        database._connected().execute("CHECKPOINT")
        walked = os.walk(unquote(socket[1]))
        found = [os.path.join(folder, name) for folder, _, names in walked for name in names]
    for path in map(Path, found):
        try:
            yield path.read_bytes() if path.is_file() else b""
        except OSError:  # a server's files come and go
            continue


def secrets_of(sent: Upload) -> list[bytes]:
    return [sent.account, sent.id, sent.digest, sent.payload]


def test_the_list_of_tables_is_complete(kind: str, places: Places) -> None:
    database = Database.open(places(kind), "shuffler")
    sql = (
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        if kind == "sqlite"
        else "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    )
    with database.reading() as transaction:
        assert {name for (name,) in transaction.all(sql)} == set(TABLES)
    database.close()


class Watched:
    """A full batch, step by step, and what can be read of it meanwhile."""

    def __init__(self, database: Database, plan: Plan | None = None) -> None:
        self.plan, self.database = plan or noiseless(), database
        self.store = begun(database, self.plan)
        batch = self.store.current(self.plan.id)
        length = BitsTransport(self.plan).length(0)
        # Unlike anything that another test has left in the files of the same server.
        self.sent = [
            Upload(
                self.plan.id,
                batch.index,
                batch.model_hash,
                token_bytes(16),
                account(user),
                token_bytes(32),
                token_bytes(length - 1) + bytes(1),  # a last byte may not be full of bits
            )
            for user in range(batch.size)
        ]
        for one in self.sent:
            assert self.store.take([one]) == [None]
        self.keys = [file.read_bytes() for file in beside(database).glob("*.*.*.*")]
        self.secrets = [secret for one in self.sent for secret in secrets_of(one)]

    def files_with(self, secret: bytes) -> int:
        return sum(secret in content for content in files_of(self.database))

    def seen(self, *secrets: bytes) -> list[bytes]:
        """Which of these are in any file; all files are read once."""
        left = set(secrets)
        for content in files_of(self.database):
            left -= {one for one in left if one in content}
        return [one for one in secrets if one not in left]

    def column(self, name: str) -> list[bytes]:
        with self.database.reading() as transaction:
            return [bytes(one) for (one,) in transaction.all(f"SELECT {name} FROM reports")]


def test_a_report_is_never_in_the_database_but_as_ciphertext(kind: str, places: Places) -> None:
    """Neither in rows nor in files nor in logs; keys are only beside it."""
    database = Database.open(places(kind), "shuffler")
    watched = Watched(database)
    assert len(watched.keys) == 2
    for name in ("content", "user_mac", "id"):
        assert any(map(watched.files_with, watched.column(name))), "no file is seen"
    halves = [key[start : start + 32] for key in watched.keys for start in (0, 32)]
    for secret in [*watched.secrets, *halves]:
        assert not watched.files_with(secret)
        assert not any(secret in value for value in contents(database))
    database.close()


def test_no_file_says_more_of_a_report_after_the_seal_and_after_the_scrub(
    kind: str, places: Places
) -> None:
    """A PostgreSQL server keeps what it wrote, for as long as it likes: ciphertext, without keys.

    Bits are counted at the seal, so that payloads are never written at all.
    """
    database = Database.open(places(kind), "shuffler")
    watched = Watched(database, plan_of("vector-sum"))
    halves = [key[start : start + 32] for key in watched.keys for start in (0, 32)]
    contents_kept = watched.column("content")
    assert watched.seen(*contents_kept) == contents_kept, "no file is seen"

    def require_nothing() -> None:
        secrets = [*watched.secrets, *halves]
        assert watched.seen(*secrets) == []
        kept = contents(database)
        assert not any(secret in value for secret in secrets for value in kept)

    assert watched.store.seal(watched.plan.id)
    require_nothing()
    assert list(beside(database).glob("*.early")) == []
    assert watched.store.release(watched.plan.id)
    watched.store.acknowledge(watched.plan.id, 0, Basis(1, HASHES[1]))
    watched.store.scrub(watched.plan.id)
    require_nothing()
    assert [file.suffix for file in beside(database).iterdir()] == [".progress"]
    database.close()


def test_the_key_to_payloads_and_senders_ends_with_the_seal_and_that_to_ids_with_the_scrub(
    kind: str, places: Places
) -> None:
    """What logs, replicas and backups keep of them is ciphertext under a key that is nowhere."""
    database = Database.open(places(kind), "shuffler")
    watched = Watched(database)

    def uses() -> list[str]:
        return sorted(file.suffix for file in beside(database).glob("*.*.*.*"))

    assert uses() == [".early", ".late"]
    assert watched.store.seal(watched.plan.id)
    assert uses() == [".late"]
    assert watched.store.release(watched.plan.id)
    watched.store.acknowledge(watched.plan.id, 0, Basis(1, HASHES[1]))
    assert uses() == [".late"]
    watched.store.scrub(watched.plan.id)
    assert uses() == []
    database.close()


def test_nothing_says_who_sent_what_once_a_batch_is_sealed(kind: str, places: Places) -> None:
    """No row is left of a single report but keyed ids, and participations have no order."""
    database = Database.open(places(kind), "shuffler")
    watched = Watched(database)
    with database.reading() as transaction:
        assert transaction.all("SELECT * FROM participations") == []
    watched.store.seal(watched.plan.id)
    place = "rowid" if kind == "sqlite" else "ctid"
    with database.reading() as transaction:
        left = transaction.all("SELECT user_mac, content FROM reports")
        assert left == [(None, None)] * 3
        if kind == "postgresql":
            for table in ("reports", "participations"):
                assert len(set(transaction.all(f"SELECT xmin::text FROM {table}"))) == 1
            marks = transaction.all(f"SELECT account_mac FROM participations ORDER BY {place}")
        else:
            marks = transaction.all("SELECT account_mac FROM participations")
            for table in ("reports", "participations", "present"):
                ((sql,),) = transaction.all("SELECT sql FROM sqlite_master WHERE name = ?", table)
                assert "WITHOUT ROWID" in sql
    key = watched.store.plans()[0].key
    expected = sorted(hmac.digest(key, account(user), "sha256") for user in range(3))
    assert [bytes(mark) for (mark,) in marks] == expected
    database.close()


def test_after_the_scrub_no_file_has_anything_of_a_batch(tmp_path: Path) -> None:
    """SQLite only: a PostgreSQL server keeps ciphertext in its logs for as long as it likes."""
    database = Database.open(str(tmp_path / "x.db"), "shuffler")
    watched = Watched(database)
    kept = [one for name in ("content", "user_mac", "id", "digest") for one in watched.column(name)]
    assert all(map(watched.files_with, kept))
    found = released(watched.store, watched.plan)
    assert watched.files_with(found.body[:64])
    gone = watched.column("id")
    watched.store.acknowledge(watched.plan.id, 0, Basis(1, HASHES[1]))
    watched.store.scrub(watched.plan.id)
    for secret in [*kept, *gone, *watched.secrets, found.body[:64]]:
        assert not watched.files_with(secret)
    database.close()


@pytest.mark.parametrize("way", ["drop", "retire"])
def test_a_batch_that_is_given_up_leaves_nothing_either(tmp_path: Path, way: str) -> None:
    database, plan = Database.open(str(tmp_path / "x.db"), "shuffler"), noiseless()
    store = begun(database, plan)
    sent = upload(plan, store.current(plan.id), 0)
    store.take([sent])
    getattr(store, way)(plan.id)
    for secret in secrets_of(sent):
        assert not any(secret in content for content in files_of(database))
    assert list(beside(database).glob("*.*.*.*")) == []
    database.close()


def test_accounts_are_never_stored_at_all(kind: str, places: Places) -> None:
    database = Database.open(places(kind), "shuffler")
    watched = Watched(database)
    watched.store.seal(watched.plan.id)
    kept = contents(database)
    assert not any(account(user) in value for user in range(3) for value in kept)
    database.close()


def test_seeds_of_masks_are_ciphertext_too(databases: Callable[[str], Database]) -> None:
    sharing = Sharing(databases)
    sharing.released()
    key = next(beside(sharing.database).glob("*.late")).read_bytes()
    store: ShufflerStore = shuffler_store(sharing.database, transport=SharesTransport)
    with sharing.database.reading() as transaction:
        ((seeds,),) = transaction.all("SELECT seeds FROM batches")
    batch = store.current(sharing.plan.id)
    plain = store._keys.late(batch).decrypt(bytes(seeds))
    for secret in (plain[:32], key[:32], key[32:]):
        assert not any(secret in content for content in files_of(sharing.database))


# A reader in the way


def test_a_scrub_is_repeated_until_the_log_is_cut(tmp_path: Path) -> None:
    """While an operator's shell reads, the log cannot be cut; then it is, by the next look."""
    database = Database.open(str(tmp_path / "x.db"), "shuffler")
    watched = Watched(database)
    kept = watched.column("content")
    reader = Database.open_read_only(str(tmp_path / "x.db"), "shuffler")
    with reader.reading() as transaction:
        transaction.all("SELECT count(*) FROM reports")
        released(watched.store, watched.plan)
        watched.store.acknowledge(watched.plan.id, 0, Basis(1, HASHES[1]))
        watched.store.scrub(watched.plan.id)
        assert not watched.store.forget_again()
        assert any(map(watched.files_with, kept))
    assert watched.store.forget_again()
    assert not any(map(watched.files_with, kept))
    reader.close()
    database.close()


def test_what_another_process_ends_while_somebody_reads_is_overwritten_by_ours(
    tmp_path: Path,
) -> None:
    """Its own scrub could not cut the log, and it is gone; ours did not know of anything to do."""
    database = Database.open(str(tmp_path / "x.db"), "shuffler")
    watched = Watched(database)
    assert watched.store.forget_again()
    kept = watched.column("content")
    command = Database.open(str(tmp_path / "x.db"), "shuffler")
    reader = Database.open_read_only(str(tmp_path / "x.db"), "shuffler")
    with reader.reading() as transaction:
        transaction.all("SELECT count(*) FROM reports")
        shuffler_store(command).retire(watched.plan.id)
        command.close()
        assert not watched.store.forget_again()
        assert any(map(watched.files_with, kept))
    assert watched.store.forget_again()
    assert not any(map(watched.files_with, kept))
    reader.close()
    database.close()


def test_no_process_keeps_keys_that_another_one_has_destroyed(kind: str, places: Places) -> None:
    """Not in its memory either, from its next look on."""
    place = places(kind)
    database, other = (Database.open(place, "shuffler") for _ in range(2))
    second = shuffler_store(other)
    watched = Watched(database)
    sent = watched.sent[0]
    assert second.take([sent]) == [None]  # known by its id, which takes the late key
    assert second._keys._known
    released(watched.store, watched.plan)
    second.forget_again()
    assert [name.rsplit(".", 1)[1] for name in second._keys._known] == ["late"]
    watched.store.acknowledge(watched.plan.id, 0, Basis(1, HASHES[1]))
    watched.store.scrub(watched.plan.id)
    second.forget_again()
    assert not second._keys._known
    for one in (database, other):
        one.close()
