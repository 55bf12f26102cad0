"""An operator puts an older copy of a database in place; nothing is released twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .laboratory import USERS, Laboratory, laboratory


def set_back(here: Laboratory, role: str, copy: Path) -> None:
    here.end(role)
    here.restore(role, copy)
    here.start(role, ready=False)
    here.await_answer(role)


def test_a_restored_backup_of_the_shuffler_stops_it_and_says_so(tmp_path: Path) -> None:
    """The difference of two releases of one batch would be one user's report."""
    with laboratory(tmp_path) as here:
        late = here.record(here.await_batch(0))
        assert here.send(USERS - 1) == USERS - 1
        here.back_up("shuffler", tmp_path / "copy.db")
        assert here.send(1) == 1
        offer = here.await_batch(1)
        records = late, here.record(offer)
        newest = tmp_path / "newest.db"
        here.end("shuffler")
        shutil.copy(here.database("shuffler"), newest)
        here.start("shuffler")
        set_back(here, "shuffler", tmp_path / "copy.db")
        assert "rolled-back" in here.ready()["waiting_for"][0]
        assert here.get(f"/v1/plans/{here.plan.id}/batch").status_code == 503
        for record in records:
            answer = here.post(record)
            assert (answer.status_code, "rolled-back" in answer.text) == (503, True)
        status, words = here.command("status")
        assert (status, "Rolled back" in words, "retire --abandon" in words) == (1, True, True)
        assert "rolled-back" in here.command("doctor")[1]
        assert "rolled-back" in here.get("/").text
        assert here.learnt() == 1
        set_back(here, "shuffler", newest)
        assert here.await_batch(1)["model_hash"] == offer["model_hash"]
        assert here.send(1) == 1


@pytest.mark.slow
def test_without_what_was_noted_beside_the_keys_the_analyzer_shows_it(tmp_path: Path) -> None:
    """Database and counter set back together, as by a snapshot of the whole disk."""
    with laboratory(tmp_path) as here:
        here.await_batch(0)
        assert here.send(USERS - 1) == USERS - 1
        here.end("shuffler")
        disk = tmp_path / "disk"
        shutil.copytree(here.directory("shuffler"), disk)
        here.start("shuffler")
        assert here.send(1) == 1
        here.await_batch(1)
        here.end("shuffler")
        shutil.rmtree(here.directory("shuffler"))
        shutil.copytree(disk, here.directory("shuffler"))
        here.start("shuffler", ready=False)
        here.await_answer("shuffler")
        here.await_blocked("shuffler")
        assert here.send(1) == 0
        assert here.learnt() == 1
        assert "Rolled back" in here.command("status")[1]
        status, words = here.command("retire", "--abandon")
        assert (status, "retired" in words.lower() or "ended" in words.lower()) == (0, True)


@pytest.mark.slow
def test_a_restored_backup_of_the_analyzer_stops_both_and_says_so(tmp_path: Path) -> None:
    with laboratory(tmp_path) as here:
        here.await_batch(0)
        here.back_up("analyzer", tmp_path / "copy.db")
        assert here.send(USERS) == USERS
        here.await_batch(1)
        set_back(here, "analyzer", tmp_path / "copy.db")
        assert "rolled-back" in here.ready("analyzer")["waiting_for"][0]
        assert "rolled-back" in here.command("doctor", role="analyzer")[1]
        assert "Rolled back" in here.command("status", role="analyzer")[1]
        assert here.send(USERS) == USERS
        here.await_blocked("shuffler")
        assert here.learnt() == 0
        assert here.command("status")[0] == 1
        assert here.command("doctor")[0] == 1


@pytest.mark.slow
def test_services_go_on_by_themselves_once_the_newest_copy_is_back(tmp_path: Path) -> None:
    """The other one is not restarted: it asks again."""
    with laboratory(tmp_path) as here:
        here.await_batch(0)
        here.back_up("analyzer", tmp_path / "older.db")
        for batch in range(2):
            assert here.send(USERS) == USERS
            here.await_batch(batch + 1)
        here.end("analyzer")
        beside = here.directory("analyzer") / "never-back-up"
        shutil.move(beside, tmp_path / "noted")
        shutil.copy(here.database("analyzer"), tmp_path / "newest.db")
        here.restore("analyzer", tmp_path / "older.db")
        here.start("analyzer", ready=False)
        here.await_answer("analyzer")
        here.end("shuffler")
        here.start("shuffler", ready=False)
        here.await_answer("shuffler")
        here.await_blocked("shuffler")
        assert "Rolled back" in here.command("status")[1]
        here.end("analyzer")
        shutil.rmtree(beside, ignore_errors=True)
        shutil.move(tmp_path / "noted", beside)
        here.restore("analyzer", tmp_path / "newest.db")
        here.start("analyzer")
        here.services._await_ready("shuffler")
        assert here.command("status")[0] == 0
        assert here.send(USERS) == USERS
        here.await_batch(3)
