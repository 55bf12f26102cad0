"""Sweeps on a Dask cluster of two worker processes on this machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from croupier.errors import MissingExtraError
from croupier.simulation import dask_executor as clusters
from croupier.simulation.compare import LINUCB, VECTOR, Arena, line_up
from croupier.simulation.dask_executor import (
    DaskCluster,
    check_workers,
    connected,
    refuse_strangers,
)
from croupier.simulation.executors import WorkerError
from croupier.simulation.jobs import SweepJob, over_seeds
from croupier.simulation.sweep import sweep

LocalCluster = pytest.importorskip("distributed").LocalCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with local_cluster(2) as workers:
        yield workers


def local_cluster(workers: int) -> Any:
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
    )


def jobs(horizon: int = 120) -> list[SweepJob]:
    arena = Arena(
        dim=3, horizon=horizon, batch_size=20, epsilon=10.0, delta=0.1, calibration="released",
        arms=5,
    )  # fmt: skip
    return over_seeds(line_up((LINUCB, VECTOR), arena), (1, 2))


def rows(directory: Path) -> dict[str, bytes]:
    """Every file's rows: all lines but the one that closes it, which has the seconds."""
    files = sorted(directory.glob("*.csv"))
    return {file.name: b"".join(file.read_bytes().splitlines(True)[:-1]) for file in files}


def scheduler_tasks(address: str) -> int:
    with connected(address) as client:
        return int(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))


def test_rows_are_byte_identical_to_those_of_the_process_pool(cluster: Any, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    sweep(
        jobs(), trials=30, out=tmp_path / "dask", scheduler=cluster.scheduler_address,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    sweep(jobs(), trials=30, out=tmp_path / "pool", workers=2)
    assert rows(tmp_path / "dask") == rows(tmp_path / "pool")
    assert len(rows(tmp_path / "dask")) == 8  # two plans, two seeds, 25 and 5 trials
    assert (tmp_path / "dask/manifest.json").read_bytes() == (
        tmp_path / "pool/manifest.json"
    ).read_bytes()
    assert seen[0] == (0, 14_400)
    assert seen[-1] == (14_400, 14_400)
    assert scheduler_tasks(cluster.scheduler_address) == 0


def test_a_worker_that_is_killed_costs_only_time(cluster: Any, tmp_path: Path) -> None:
    """The first part that is done ends one of the workers, in the middle of its next part."""
    victim = next(iter(cluster.workers.values())).pid
    ended = Event()

    def kill(done: int, total: int) -> None:
        if done and not ended.is_set():
            os.kill(victim, signal.SIGKILL)
            ended.set()

    address = cluster.scheduler_address
    sweep(jobs(1000), trials=50, out=tmp_path / "dask", scheduler=address, progress=kill)
    assert ended.is_set()
    assert victim not in [worker.pid for worker in cluster.workers.values()]
    sweep(jobs(1000), trials=50, out=tmp_path / "here")
    assert rows(tmp_path / "dask") == rows(tmp_path / "here")


CLIENT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_dask import jobs, sweep
if __name__ == "__main__":
    sweep(jobs(4000), trials=200, out=sys.argv[1], scheduler=sys.argv[2])
"""


@pytest.mark.slow
def test_a_killed_client_goes_on_where_it_stopped(cluster: Any, tmp_path: Path) -> None:
    script = tmp_path / "client.py"
    script.write_text(CLIENT.format(tests=str(Path(__file__).parent)))
    out = tmp_path / "dask"
    client = subprocess.Popen([sys.executable, str(script), str(out), cluster.scheduler_address])
    deadline = time.monotonic() + 120
    while not list(out.glob("*.csv")) and client.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    client.kill()
    assert client.wait() == -signal.SIGKILL  # it was not done yet
    early = {file: file.stat().st_mtime_ns for file in out.glob("*.csv")}
    assert 0 < len(early) < 32
    finished = subprocess.run(
        [sys.executable, str(script), str(out), cluster.scheduler_address], check=False
    )
    assert finished.returncode == 0
    assert {file: file.stat().st_mtime_ns for file in early} == early
    sweep(jobs(4000), trials=200, out=tmp_path / "pool", workers=2)
    assert rows(out) == rows(tmp_path / "pool")
    assert len(rows(out)) == 32


def test_results_that_are_all_there_need_no_cluster(tmp_path: Path) -> None:
    first = sweep(jobs(), trials=2, out=tmp_path)
    again = sweep(jobs(), trials=2, out=tmp_path, scheduler="tcp://127.0.0.1:1")
    assert [a.regret.tolist() for a in first] == [b.regret.tolist() for b in again]


def test_a_task_that_always_ends_its_worker_is_named(cluster: Any) -> None:
    with pytest.raises(WorkerError, match=r"^7 ended its worker at tcp://.* again and again"):
        list(DaskCluster(cluster.scheduler_address).run(os._exit, [7]))


@pytest.mark.parametrize(
    ("play", "task", "kind"),
    [(time.sleep, -1, ValueError), (os.stat, "/no/such/file", FileNotFoundError)],
)
def test_an_error_of_a_task_is_that_error(
    cluster: Any, play: Any, task: object, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        list(DaskCluster(cluster.scheduler_address).run(play, [task]))


def test_a_sweep_that_is_stopped_leaves_no_tasks_behind(cluster: Any) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(jobs(), trials=200, scheduler=cluster.scheduler_address, progress=stop)
    assert scheduler_tasks(cluster.scheduler_address) == 0


def test_a_worker_with_another_croupier_is_named(cluster: Any) -> None:
    def without(*rooms: str) -> None:  # a local function travels by value
        from croupier.simulation import dask_executor as there

        there.source.cache_clear()
        there.ABOVE.symmetric_difference_update(rooms)

    address = cluster.scheduler_address
    with connected(address) as client:
        check_workers(client, address)
        worker = max(client.scheduler_info()["workers"])
        client.run(without, "privacy", workers=[worker])
        with pytest.raises(WorkerError, match=f"worker {worker} has croupier's source .{{12}}; "):
            check_workers(client, address)
        client.run(without, "privacy", workers=[worker])
        check_workers(client, address)


def test_a_worker_without_croupier_is_named() -> None:
    answers = {"tcp://h:2": PackageNotFoundError("croupier"), "tcp://h:1": "0.1"}
    with pytest.raises(WorkerError, match=r"worker tcp://h:2 has no croupier; here it is 0\.1"):
        refuse_strangers("croupier", "0.1", answers)


def test_a_port_where_nobody_answers_is_named_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clusters, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(WorkerError, match=f"no Dask scheduler answers at {address}: silence"):
            sweep(jobs(), trials=1, scheduler=address)
    with pytest.raises(WorkerError, match=f"no Dask scheduler answers at {address}: Timed out"):
        sweep(jobs(), trials=1, scheduler=address)


def test_a_scheduler_without_workers_says_how_to_start_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clusters, "SECONDS", 1)
    with (
        local_cluster(0) as empty,
        pytest.raises(WorkerError, match="has no workers; start one with: dask worker tcp://"),
    ):
        sweep(jobs(), trials=1, scheduler=empty.scheduler_address)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'croupier\[sweep\]'"):
        sweep(jobs(), trials=1, scheduler="tcp://127.0.0.1:8786")
