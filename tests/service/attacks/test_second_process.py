"""Another process opens the database of a running service, which then is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from croupier.service.storage.database import Database, DatabaseError, EmptyDatabaseError

from .laboratory import USERS, laboratory

LOOK = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); {}; c.close()"
INTEGRITY = "print(c.execute('PRAGMA integrity_check').fetchall())"
PLAN = "INSERT INTO plans (id, document, batch) VALUES (?, '{}', 0)"


def look(path: Path, what: str = "c.execute('SELECT * FROM plans').fetchall()") -> str:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(what), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def held(path: Path) -> set[str]:
    """What this process has open of a database, log included; a deleted file says so."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            place = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if path.name in place:
            found.add(place)
    return found


def test_what_is_committed_after_another_process_has_looked_is_durable(tmp_path: Path) -> None:
    """A second thread's connection used to drop our locks, so that a stranger deleted our log."""
    path = tmp_path / "s.db"
    database = Database.open(str(path), "shuffler")

    def commit(name: str) -> None:
        with database.transaction() as transaction:
            transaction.execute(PLAN, name)

    commit("a")
    for number in range(3):
        other = threading.Thread(target=lambda number=number: commit(f"thread {number}"))
        other.start()
        other.join()
        look(path)
    commit("b")
    assert not any("deleted" in one for one in held(path))
    told = look(path, "print([i for (i,) in c.execute('SELECT id FROM plans ORDER BY id')])")
    assert told == str(["a", "b", "thread 0", "thread 1", "thread 2"])
    database.close()


def test_to_look_makes_nothing_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with pytest.raises(EmptyDatabaseError, match="not there"):
        Database.open_read_only(str(path), "shuffler")
    assert list(tmp_path.iterdir()) == []
    Database.open(str(path), "shuffler").close()
    before = path.read_bytes()
    reader = Database.open_read_only(str(path), "shuffler")
    with pytest.raises(DatabaseError), reader.transaction() as transaction:
        transaction.execute(PLAN, "x")
    reader.close()
    assert path.read_bytes() == before


def test_nothing_acknowledged_is_lost_to_a_look_and_a_kill(tmp_path: Path) -> None:
    """Status, doctor, a shell and the documented backup, each beside a service that then dies."""
    with laboratory(tmp_path) as here:
        here.await_batch(0)
        here.get("/")
        taken = here.send(20)
        here.command("status")
        taken += here.send(20)
        here.command("doctor")
        taken += here.send(20)
        here.look("shuffler")
        taken += here.send(20)
        here.back_up("shuffler", tmp_path / "copy.db")
        taken += here.send(20)
        here.kill("shuffler")
        here.start("shuffler")
        assert here.filled() == taken == 100
        assert look(here.database("shuffler"), INTEGRITY) == "[('ok',)]"


def test_a_batch_is_released_once_and_its_model_kept_whoever_looks(tmp_path: Path) -> None:
    """The batch is completed after a look, both services are killed, and go on where they were."""
    with laboratory(tmp_path) as here:
        here.await_batch(0)
        assert here.send(USERS - 1) == USERS - 1
        here.command("status")
        here.command("status", role="analyzer")
        here.back_up("analyzer", tmp_path / "copy.db")
        assert here.send(1) == 1
        model = here.await_batch(1)["model_hash"]
        for role in ("shuffler", "analyzer"):
            here.kill(role)
            here.start(role)
        offer = here.await_batch(1)
        assert (offer["batch"], offer["model_hash"]) == (1, model)
        assert here.send(USERS) == USERS
        assert here.await_batch(2)["model_version"] == 2


def test_a_plan_that_is_retired_by_another_process_stays_so_through_a_kill(tmp_path: Path) -> None:
    """It takes nothing more, its model stays published, and nothing opens what it had taken."""
    with laboratory(tmp_path) as here:
        model = here.await_batch(0)["model_hash"]
        assert here.send(40) == 40
        status, words = here.command("retire")
        assert (status, "40" in words) == (0, True)
        assert here.send(10) == 0
        here.kill("shuffler")
        here.start("shuffler", ready=False)
        here.await_answer("shuffler")
        assert here.send(10) == 0
        assert here.get(f"/v1/plans/{here.plan.id}/batch").status_code == 410
        assert here.get(f"/v1/models/{model}").is_success
        assert here.filled() == 0
        left = here.directory("shuffler") / "never-back-up"
        assert [file.suffix for file in left.iterdir()] == [".progress"]
        assert look(here.database("shuffler"), INTEGRITY) == "[('ok',)]"
