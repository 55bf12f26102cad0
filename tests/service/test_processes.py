"""Real processes: killed at every commit, and several sealing over one database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import croupier

from .killed_processes import WORKED

Places = Callable[[str], str]

PATHS = [str(Path(__file__).parents[1]), str(Path(croupier.__file__).parents[1])]
"""Where the processes find the tests and the very code that is tested here."""

COMMITS = 17
"""Of a life of two batches: two plans opened, seven for each batch, and a last look."""

TWICE = ("before", "after")
POINTS = [(commit, moment) for commit in range(COMMITS) for moment in TWICE]


def drive(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "service.killed_processes"],
        input=json.dumps(jobs),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PATHS)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def kills(places: Places, kind: str, points: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return drive(
        [
            {
                "do": "kill",
                "shuffler": places(kind),
                "analyzer": places(kind),
                "commit": commit,
                "moment": moment,
            }
            for commit, moment in points
        ]
    )


def check_kills(results: list[dict[str, Any]]) -> None:
    for found in results:
        assert found["ended"] == -signal.SIGKILL
        assert found["finished"] == 0
        batches = [[index for index, value in enumerate(row) if value] for row in found["sums"]]
        assert batches == [[0, 1, 2], [3, 4, 5]]
        assert {value for row in found["sums"] for value in row} == {0.0, 1.0}
        assert set(found["accepted"]) <= {0, 1, 2, 3, 4, 5}


def test_a_process_that_is_killed_loses_and_repeats_nothing(kind: str, places: Places) -> None:
    check_kills(kills(places, kind, POINTS[4::7]))


@pytest.mark.slow
def test_a_process_that_is_killed_at_any_commit_loses_and_repeats_nothing(
    kind: str, places: Places
) -> None:
    results = kills(places, kind, POINTS)
    check_kills(results)
    # Each later point comes after at least as many acknowledgements.
    counts = [len(found["accepted"]) for found in results]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 6)


def test_the_life_that_is_killed_has_no_further_commits(places: Places) -> None:
    (found,) = kills(places, "sqlite", [(COMMITS, "before")])
    assert found["ended"] == 0
    assert sorted(found["accepted"]) == [0, 1, 2, 3, 4, 5]


SHARED_COMMITS = 43
"""Of a life of four batches of shares, one of them in two attempts."""

SHARED_POINTS = [(commit, moment) for commit in range(SHARED_COMMITS) for moment in TWICE]


def kill_shares(places: Places, kind: str, points: list[tuple[int, str]]) -> list[dict[str, Any]]:
    return drive(
        [
            {
                "do": "kill_shares",
                "shuffler": places(kind),
                "analyzer": places(kind),
                "commit": commit,
                "moment": moment,
            }
            for commit, moment in points
        ]
    )


def check_shared_kills(results: list[dict[str, Any]]) -> None:
    for found in results:
        assert (found["ended"], found["finished"]) == (-signal.SIGKILL, 0)
        assert found["counts"] == [[[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]]


def test_a_process_of_shares_that_is_killed_loses_and_repeats_nothing(
    kind: str, places: Places
) -> None:
    check_shared_kills(kill_shares(places, kind, SHARED_POINTS[13::29]))


@pytest.mark.slow
def test_a_process_of_shares_that_is_killed_at_any_commit_loses_and_repeats_nothing(
    kind: str, places: Places
) -> None:
    check_shared_kills(kill_shares(places, kind, SHARED_POINTS))


def test_the_life_of_shares_that_is_killed_has_no_further_commits(places: Places) -> None:
    (found,) = kill_shares(places, "sqlite", [(SHARED_COMMITS, "before")])
    assert found["ended"] == 0


def seal_together(places: Places, kind: str, batches: int, processes: int) -> None:
    job = {"do": "work", "shuffler": places(kind), "batches": batches, "processes": processes}
    (found,) = drive([job])
    assert found["ended"] == [0] * processes
    said = [line for lines in found["said"] for line in lines]
    accepted = [user for what, user, *_ in said if what == "accepted"]
    released = {(batch, digest): users for what, batch, digest, users in _releases(said)}
    assert [batch for batch, _ in sorted(released)] == list(range(batches))
    assert {len(users) for users in released.values()} == {WORKED}
    counted = [user for users in released.values() for user in users]
    assert len(set(counted)) == len(counted)
    assert sorted(counted) == sorted(accepted)


def _releases(said: list[list[Any]]) -> list[list[Any]]:
    return [line for line in said if line[0] == "released"]


def test_several_processes_seal_no_batch_short_or_twice(kind: str, places: Places) -> None:
    seal_together(places, kind, batches=50 if kind == "postgresql" else 15, processes=3)


@pytest.mark.slow
def test_several_processes_seal_a_thousand_batches(places: Places) -> None:
    seal_together(places, "postgresql", batches=1000, processes=4)
