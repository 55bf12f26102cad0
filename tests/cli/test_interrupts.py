"""Ctrl-C, as a terminal sends it: to every process of the command at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from croupier.plan import Plan

SOON = 10.0
"""Seconds, for a machine that does much else; a command ends within one."""

STOPPED = "croupier: stopped; what was written stays"

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


def alive(session: int) -> list[str]:
    """The commands of a session's processes, without those that only wait to be reaped."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            _, _, fields = stat.read_text().rpartition(")")
            state, _, _, of = fields.split()[:4]
            if int(of) == session and state != "Z":
                found.append(stat.with_name("cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def until(holds: Callable[[], bool], seconds: float, words: str) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(words)
        time.sleep(0.01)


class Simulation:
    """``croupier simulate`` in a session of its own, once it has written its first part."""

    def __init__(self, directory: Path, workers: int) -> None:
        plan = directory / "plan.json"
        made = Plan.calibrate(
            "vector-sum", dim=3, batch_size=2000, horizon=100_000, epsilon=1.0, delta=1e-5
        )
        plan.write_text(made.to_json())
        self.out = directory / "results"
        command = [
            *(sys.executable, "-m", "croupier.cli.main", "simulate", str(plan)),
            *("--trials", "100000", "--workers", str(workers), "--out", str(self.out)),
        ]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        until(lambda: self.parts > 0, 240, "nothing is simulated")

    @property
    def parts(self) -> int:
        return len(list(self.out.rglob("*.csv"))) if self.out.exists() else 0

    def interrupt(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, list[str]]:
        """Exit code and lines on stderr; nothing of it is left."""
        _, errors = self.process.communicate(timeout=SOON)
        until(lambda: not alive(self.process.pid), SOON, "processes are left behind")
        return self.process.returncode, errors.splitlines()


@pytest.fixture
def simulating(tmp_path: Path) -> Iterator[Callable[[int], Simulation]]:
    started: list[Simulation] = []

    def start(workers: int) -> Simulation:
        started.append(Simulation(tmp_path, workers))
        return started[-1]

    yield start
    for one in started:
        if alive(one.process.pid):
            os.killpg(one.process.pid, signal.SIGKILL)
            one.process.communicate()


@pytest.mark.parametrize("workers", [1, 2])
def test_the_first_interrupt_stops_with_one_line_and_what_was_written(
    simulating: Callable[[int], Simulation], workers: int
) -> None:
    running = simulating(workers)
    running.interrupt()
    code, lines = running.end()
    assert (code, lines[-1]) == (130, STOPPED)
    assert not [line for line in lines if "Traceback" in line or "Interrupt" in line]
    assert running.parts > 0


@pytest.mark.parametrize("between", [0.0, 0.05])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_interrupt_ends_at_once_and_leaves_nothing(
    simulating: Callable[[int], Simulation], workers: int, between: float
) -> None:
    """It may meet us after we have stopped; then the system's word for it is all there is."""
    running = simulating(workers)
    running.interrupt()
    time.sleep(between)
    running.interrupt()
    code, lines = running.end()
    assert code in (130, -signal.SIGINT)
    assert not [line for line in lines if "Traceback" in line or "Interrupt" in line]


def test_a_command_that_is_to_ignore_interrupts_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As one in the background of a script is."""
    from croupier.cli import interrupts

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interrupts.listen()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
