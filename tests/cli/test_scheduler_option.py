from __future__ import annotations

from pathlib import Path

import pytest

from croupier.cli import options
from croupier.cli.main import main
from croupier.plan import Plan
from croupier.simulation.sweep import available_workers

COMPARE = ["compare", "--epsilon", "1", "--delta", "0.1", "--dim", "3", "--horizon", "300",
           "--calibration", "released"]  # fmt: skip
SMALL = ["--arms", "5", "--trials", "2"]
ADDRESS = "tcp://127.0.0.1:8786"


@pytest.fixture
def commands(tmp_path: Path) -> list[list[str]]:
    plan = Plan.calibrate("linucb", dim=3, batch_size=20, horizon=120, calibration="released")
    (tmp_path / "plan.json").write_text(plan.to_json())
    out = ["--out", str(tmp_path / "out")]
    return [
        ["simulate", str(tmp_path / "plan.json"), *SMALL, *out],
        [*COMPARE, *SMALL, *out],
        ["figure", "fig1", "--calibration", "released", "--horizon", "400", *out],
    ]


@pytest.mark.parametrize("which", range(3))
def test_every_simulating_command_hands_its_scheduler_on(
    which: int,
    commands: list[list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def place(workers: int, scheduler: str | None) -> None:
        raise ValueError(f"asked for {workers} at {scheduler}")

    monkeypatch.setattr("croupier.simulation.sweep.choose_executor", place)
    assert main([*commands[which], "--scheduler", ADDRESS]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"croupier: asked for 1 at {ADDRESS}"


@pytest.mark.parametrize("which", range(3))
def test_workers_and_a_scheduler_are_refused_together_in_one_line(
    which: int, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*commands[which], "--scheduler", ADDRESS, "--workers", "1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "croupier: workers must be left out with --scheduler, got 1"


def test_a_scheduler_without_a_port_is_refused_in_one_line(
    commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*commands[0], "--scheduler", "localhost"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "scheduler must be tcp://host:port or tls://host:port, got 'localhost'" in line


def test_a_scheduler_that_nobody_is_at_is_named_in_one_line(
    commands: list[list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("croupier.simulation.dask_executor.SECONDS", 0.2)
    assert main([*commands[0], "--scheduler", "tcp://127.0.0.1:1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("croupier: no Dask scheduler answers at tcp://127.0.0.1:1: ")


def test_all_processors_are_used_unless_told_otherwise() -> None:
    assert options.processes(None, None) == available_workers()
    assert options.processes(3, None) == 3
    assert options.processes(None, ADDRESS) == 1
