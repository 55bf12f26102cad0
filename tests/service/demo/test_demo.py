from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from croupier.cli.demonstrating import demo_words
from croupier.cli.main import main
from croupier.plan import Plan
from croupier.service.demo.comparison import BatchMeans, compare
from croupier.service.demo.demo import DemoReport, demo_plan
from croupier.service.demo.local_services import LocalError, LocalServices
from croupier.service.demo.simulated_users import (
    DeviceRound,
    SimulatedUsers,
    WorkerTask,
    demo_account,
    play_all,
)
from croupier.service.device.settings import DeviceSettings
from croupier.wire import Transport

from ..in_process_deployment import Town, town

DEVICES = 100
START_SECONDS = 120.0


def start(directory: Path, *options: str) -> subprocess.Popen[str]:
    """A demo whose files are in ``directory``, so that all its processes can be told by that."""
    return subprocess.Popen(
        [sys.executable, "-m", "croupier.cli.main", "demo", *options],
        env={**os.environ, "TMPDIR": str(directory)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def running(directory: Path) -> list[str]:
    """Command lines of processes that name the directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(directory) in line:
            found.append(line)
    return found


def await_that(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + START_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_demo_learns_and_leaves_nothing_running(tmp_path: Path) -> None:
    demo = start(tmp_path, "--devices", str(DEVICES), "--json", "--keep")
    out, err = demo.communicate()
    assert demo.returncode == 0, err
    told = json.loads(out)
    assert (told["accepted"], told["ledger_entries"], told["model_version"]) == (DEVICES, 1, 1)
    assert told["epsilon_certified"] <= told["epsilon"] == 1.0
    assert [row["users"] for row in told["batches"]] == [100]
    kept = Path(told["directory"])
    assert {path.name for path in kept.iterdir()} == {"services", "devices"}
    assert len(list((kept / "devices").iterdir())) == DEVICES
    (shown,) = json.loads((kept / "services" / "analyzer" / "rewards.json").read_text())
    assert shown["batch"] == 0
    assert shown["mean"] == pytest.approx(told["batches"][0]["private"])
    assert err.count("page, while this runs: http://127.0.0.1:") == 2
    assert running(tmp_path) == []


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, id="terminate", marks=pytest.mark.slow),
    ],
)
def test_a_demo_that_is_stopped_ends_all_that_it_started(
    tmp_path: Path, number: signal.Signals
) -> None:
    demo = start(tmp_path, "--devices", "5000")
    try:
        # Two services and two workers are there, and devices have begun.
        await_that(lambda: len(list(tmp_path.glob("*/devices/*/ledger.jsonl"))) > 2)
        assert len(running(tmp_path)) >= 4
    finally:
        demo.send_signal(number)
        # Whoever is impatient does not make it worse.
        demo.send_signal(number)
        _, err = demo.communicate()
    assert demo.returncode == 130, err
    assert "Traceback" not in err
    assert running(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_demo_is_refused_too_few_devices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--devices", "99"]) == 2
    assert "devices must be a whole number of at least 100, got 99" in capsys.readouterr().err


def test_the_words_have_the_table_and_what_it_cost() -> None:
    row = BatchMeans(3, 250, 0.8125, 0.9, 0.5)
    report = DemoReport(
        "ab" * 16, 250, 249, 1.0, 1e-5, 0.998, 169, [row], 4, "cd" * 32, 4, 61.2, "/where"
    )
    words = demo_words(report, kept=True)
    assert "    3    250     0.812        0.900      0.500" in words
    for text in ("epsilon 0.9980 at delta 1e-05", "249 of 250", "169 bytes", "4 entries", "/where"):
        assert text in words
    assert "/where" not in demo_words(report, kept=False)


def test_the_demos_plan_is_met_and_uses_every_device() -> None:
    plan = demo_plan(2000)
    assert plan.met
    assert sum(plan.schedule.sizes()) == 2000


# The crowd


def test_the_same_seed_has_the_same_users() -> None:
    first, second = (SimulatedUsers(3, 5, 7).user(300) for _ in range(2))
    assert (first[0] == second[0]).all()
    assert first[2] == second[2]
    assert len({demo_account(seed, user) for seed in range(3) for user in range(3)}) == 9


def test_a_crowd_survives_the_way_to_another_process() -> None:
    settings = DeviceSettings("00" * 16, "https://s", ("11" * 32,), ("22" * 32,), Transport.SHARES)
    made = WorkerTask(settings, "/tmp/devices", 3, 5, 0, 10, 1, 2)
    assert WorkerTask.from_json(made.to_json()) == made


def small_plan() -> Plan:
    return Plan.calibrate(
        "vector-sum", dim=3, batches="fixed", batch_size=4, horizon=8, epsilon=4.0, delta=1e-2
    )


def test_every_user_of_a_crowd_takes_part_once() -> None:
    with town(small_plan()) as here:
        played = [*_play(here, 0, 4), *_play(here, 4, 8)]
    assert [one.user for one in played] == list(range(8))
    assert [one.batch for one in played] == [0] * 4 + [1] * 4
    assert {one.outcome for one in played} == {"accepted"}


def _play(here: Town, first: int, users: int) -> list[DeviceRound]:
    made = WorkerTask(here.settings, str(here.directory / "crowd"), 3, 5, 0, users, first)
    played = list(play_all(made, here.http))
    here.carry()
    return played


def test_a_crowd_that_is_too_large_hears_that_the_plan_has_ended() -> None:
    with town(small_plan()) as here:
        _play(here, 0, 4)
        _play(here, 4, 8)
        (late,) = _play(here, 8, 9)
    assert (late.batch, late.outcome) == (None, "plan-ended")


# The comparison


def test_batches_are_compared_on_their_own_users() -> None:
    plan, people = small_plan(), SimulatedUsers(3, 5, 0)
    means = {user: people.user(user)[1] for user in range(6)}
    played = [
        DeviceRound(user, 0, float(means[user][0]), 0 if user < 4 else 1, "accepted")
        for user in range(6)
    ]
    (row,) = compare(plan, played, people)
    assert (row.batch, row.users) == (0, 4)
    assert row.private == pytest.approx(sum(means[user][0] for user in range(4)) / 4)
    assert row.uniform == pytest.approx(sum(means[user].mean() for user in range(4)) / 4)
    assert row.uniform != pytest.approx(row.not_private)


# The services on this machine


def test_a_service_that_cannot_start_says_why_and_nothing_is_left(tmp_path: Path) -> None:
    made = LocalServices(tmp_path / "services", small_plan())
    (tmp_path / "services" / "analyzer" / "shuffler-key").write_text("")
    with pytest.raises(LocalError, match=r"the analyzer ended: .*has no key"), made:
        pass
    assert running(tmp_path) == []


@pytest.mark.slow
def test_services_answer_until_they_are_stopped(tmp_path: Path) -> None:
    with LocalServices(tmp_path / "services", small_plan()) as here:
        for role in ("shuffler", "analyzer"):
            assert httpx.get(f"{here.url(role)}/healthz", trust_env=False).text == "ok\n"
        here.require_running()
        assert len(running(tmp_path)) == 2
    assert running(tmp_path) == []
    with pytest.raises(LocalError):
        here.require_running()
