from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from croupier.simulation.executors import (
    ATTEMPTS,
    THREADS,
    Executor,
    InProcess,
    Processes,
    WorkerError,
    choose_executor,
)


@pytest.fixture
def chores(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Functions that a fresh process can import, as it cannot from a test."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return import_module("chores")


@pytest.mark.parametrize("where", [InProcess(), Processes(1), Processes(3)])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_every_task_comes_back_once_with_its_own_result(
    where: Executor, count: int, chores: ModuleType
) -> None:
    found = sorted(where.run(chores.double, list(range(count))))
    assert found == [(number, 2 * number) for number in range(count)]


def test_a_process_that_dies_costs_only_time(tmp_path: Path, chores: ModuleType) -> None:
    tasks = [(tmp_path, number) for number in range(7)]
    found = sorted(Processes(2).run(chores.die_once, tasks))
    assert found == [((tmp_path, number), number) for number in range(7)]
    assert (tmp_path / "died").exists()


def test_a_task_that_always_ends_its_process_is_named(tmp_path: Path, chores: ModuleType) -> None:
    tasks = [(tmp_path, number) for number in range(4)]
    with pytest.raises(WorkerError, match=rf"3\) ended its process {ATTEMPTS} times"):
        list(Processes(2).run(chores.die_always, tasks))
    assert len((tmp_path / "deaths").read_text()) == 1 + ATTEMPTS  # once among others, then alone


def test_an_error_of_a_task_is_not_taken_for_a_dead_process(chores: ModuleType) -> None:
    with pytest.raises(ZeroDivisionError):
        list(Processes(2).run(chores.reciprocal, [1, 0]))


def test_a_worker_process_has_one_thread_and_its_parent_keeps_its_own_settings(
    monkeypatch: pytest.MonkeyPatch, chores: ModuleType
) -> None:
    monkeypatch.setenv(THREADS[0], "5")
    monkeypatch.delenv(THREADS[1], raising=False)
    before = dict(os.environ)
    assert dict(Processes(2).run(chores.thread_settings, THREADS)) == dict.fromkeys(THREADS, "1")
    assert dict(os.environ) == before


def test_workers_and_a_scheduler_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="workers must be left out with a scheduler, got 2"):
        choose_executor(2, "tcp://127.0.0.1:8786")


@pytest.mark.parametrize(
    "address",
    ["", "127.0.0.1:8786", "tcp://127.0.0.1", "tcp://:8786", "tcp://h:0", "tcp://h:65536",
     "http://h:1", "tcp://h:1/x", "tcp://a@h:1", "tcp://h:1\n"],
)  # fmt: skip
def test_an_ambiguous_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="scheduler must be tcp://host:port or tls://host:port"):
        choose_executor(1, address)


@pytest.mark.parametrize(
    "address", ["tcp://127.0.0.1:8786", "tls://a-b.example:1", "tcp://[::1]:9"]
)
def test_a_complete_address_is_taken(address: str) -> None:
    assert str(choose_executor(1, address)) == f"DaskCluster(address='{address}')"
