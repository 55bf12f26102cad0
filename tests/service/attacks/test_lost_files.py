"""An operator loses what is kept beside the database, or the database, and asks what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

from .laboratory import USERS, Laboratory, laboratory


def restart(here: Laboratory, role: str = "shuffler") -> None:
    here.start(role, ready=False)
    here.await_answer(role)


def test_a_lost_directory_is_said_everywhere_and_adopted_by_a_command(tmp_path: Path) -> None:
    with laboratory(tmp_path) as here:
        record = here.record(here.await_batch(0))
        assert here.send(20) == 20
        here.end("shuffler")
        shutil.rmtree(here.directory("shuffler") / "never-back-up")
        restart(here)
        assert "rolled-back" in here.ready()["waiting_for"][0]
        assert here.post(record).status_code == 503
        status, words = here.command("status")
        assert (status, "Rolled back" in words, "croupier adopt" in words) == (1, True, True)
        assert "rolled-back" in here.command("doctor")[1]
        status, words = here.command("adopt")
        assert (status, "20 reports were dropped" in words) == (0, True)
        assert here.await_batch(0)["attempt"] == 1
        assert here.send(USERS) == USERS
        here.await_batch(1)
        assert here.learnt() == 1


def test_a_lost_database_is_no_plan_that_has_not_begun(tmp_path: Path) -> None:
    """It can only be given up, with the keys that are left."""
    with laboratory(tmp_path) as here:
        here.await_batch(0)
        assert here.send(20) == 20
        here.end("shuffler")
        for file in here.directory("shuffler").glob("shuffler.db*"):
            file.unlink()
        restart(here)
        assert "rolled-back" in here.ready()["waiting_for"][0]
        status, words = here.command("status")
        assert (status, "Rolled back" in words, "another plan" in words) == (1, True, True)
        assert here.command("retire", "--abandon")[0] == 0
        left = here.directory("shuffler") / "never-back-up"
        assert [file.suffix for file in left.iterdir()] == [".progress"]
