from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from croupier.analyzer import Analyzer
from croupier.cli.main import app, main
from croupier.plan import Plan

PLAN = [
    "plan", "--protocol", "vector-sum", "--epsilon", "1", "--delta", "1e-5", "--dim", "5",
    "--batch-size", "1000", "--horizon", "100000", "--calibration", "theorem",
]  # fmt: skip


def with_option(arguments: list[str], name: str, value: str) -> list[str]:
    changed = list(arguments)
    changed[changed.index(name) + 1] = value
    return changed


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def local_plan(path: Path, calibration: str = "released", horizon: int = 200) -> Path:
    plan = Plan.calibrate(
        "local", dim=3, batch_size=10, horizon=horizon, calibration=calibration,
        epsilon=1.0, delta=0.1,
    )  # fmt: skip
    path.write_text(plan.to_json())
    return path


def test_plan_prints_the_designed_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, PLAN)
    assert {
        "id", "protocol", "calibration", "policy", "horizon", "budget", "schedule",
        "releases", "parameters", "noise_std", "privacy_noise_std", "report_bits",
        "max_participations", "honest_fraction", "levels", "layout", "guarantees",
    } <= set(document)  # fmt: skip
    assert document["parameters"] == {"grid": 64.0, "noise_bits": 256631314, "bias": 0.25}
    assert set(document["guarantees"]) == {"shuffle", "joint", "local"}
    assert document["guarantees"]["shuffle"]["method"].startswith("certificate for shuffled bits")
    assert document["guarantees"]["shuffle"]["epsilon"] < 0.01, "theorem constants are wasteful"
    sizes = {"name": "fixed", "first": 1000, "exponent": 0.0, "most": None}
    assert document["schedule"] == sizes


def test_plan_written_to_a_file_is_the_plan_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = answer(capsys, [*PLAN, "--out", str(tmp_path / "plan.json")])
    assert Plan.from_json((tmp_path / "plan.json").read_text()).id == document["id"]


def test_words_and_json_carry_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(PLAN) == 0
    words = capsys.readouterr().out
    assert "642 MB" in words
    assert "own coins of 4 reports" in words
    assert answer(capsys, PLAN)["id"] in words


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--dim", "0", "dim must be a whole number of at least 1, got 0"),
        ("--dim", "many", "'--dim'"),
        ("--epsilon", "0", "epsilon must be above 0, got 0.0"),
        ("--epsilon", "-1", "epsilon must be above 0, got -1.0"),
        ("--epsilon", "nan", "epsilon must be a finite number, got nan"),
        ("--epsilon", "16", "16 > 15"),
        ("--delta", "0", "delta must be above 0, got 0.0"),
        ("--delta", "1", "delta must be below 1, got 1.0"),
        ("--delta", "0.5", "0.5 >= 0.5"),
        ("--batch-size", "100001", "batch_size must be at most the horizon 100000, got 100001"),
        ("--horizon", "0", "horizon must be a whole number of at least 1, got 0"),
        ("--protocol", "nope", "unknown protocol 'nope'"),
        ("--calibration", "lucky", "'lucky' is not offered"),
    ],
)
def test_bad_input_is_one_line_with_argument_and_value_and_exit_2(
    option: str, value: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(with_option(PLAN, option, value)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        [*PLAN, "--nope", "1"],
        [*PLAN, "--batches", "shrinking"],
        [*PLAN, "--policy", "greedy"],
        [*PLAN, "--max-participations", "0"],
        [*PLAN, "--honest-fraction", "0.5"],
        [*PLAN, "--regularizer", "shrinking"],
        ["show", "/nowhere/plan.json"],
        ["epsilon", "/nowhere/plan.json"],
        ["simulate", "/nowhere/plan.json"],
        ["figure", "fig9", "--calibration", "released"],
        ["figure", "fig1", "--calibration", "lucky"],
        ["figure", "fig1", "--calibration", "released", "--problem", "nope"],
        [
            "compare", "--epsilon", "1", "--delta", "0.1", "--dim", "1", "--horizon", "50",
            "--calibration", "released",
        ],
    ],
)  # fmt: skip
def test_anything_wrong_is_one_line_and_exit_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("croupier: ")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("keep", [0, 1, 200, -2])
def test_truncated_plans_are_refused(
    keep: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = local_plan(tmp_path / "plan.json")
    path.write_text(path.read_text()[:keep])
    for command in ("show", "epsilon", "simulate"):
        assert main([command, str(path)]) == 2
        assert "plan.json" in capsys.readouterr().err


def test_epsilon_says_no_with_exit_1_when_the_claim_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = local_plan(tmp_path / "plan.json")
    document = answer(capsys, ["epsilon", str(path)], code=1)
    assert document["met"] is False
    assert document["guarantees"]["local"]["epsilon"] == pytest.approx(1.55893, abs=1e-5)


def test_epsilon_says_yes_with_exit_0_for_the_theorems_constants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = local_plan(tmp_path / "plan.json", "theorem")
    document = answer(capsys, ["epsilon", str(path), "--delta", "1e-6"])
    assert document["met"] is True
    assert document["delta"] == 1e-6


def test_epsilon_refuses_a_delta_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["epsilon", str(local_plan(tmp_path / "p.json")), "--delta", "2"]) == 2
    assert "got 2.0" in capsys.readouterr().err


def test_show_explains_plans_and_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(local_plan(tmp_path / "plan.json"))]) == 0
    assert "does NOT hold" in capsys.readouterr().out
    plan = Plan.calibrate("noiseless", dim=2, batch_size=5, horizon=50, calibration="theorem")
    (tmp_path / "model.json").write_text(Analyzer(plan).model.to_json())
    assert main(["show", str(tmp_path / "model.json")]) == 0
    assert "learnt from   0 users" in capsys.readouterr().out


def test_simulate_prints_the_designed_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = local_plan(tmp_path / "plan.json")
    options = ["--trials", "3", "--arms", "5", "--workers", "1", "--out", str(tmp_path / "rows")]
    document = answer(capsys, ["simulate", str(path), *options])
    assert document["trials"] == 3
    assert document["horizon"] == 200
    assert document["curve"]["mean"][-1] == document["final_regret"]["mean"]
    assert (tmp_path / "rows" / "manifest.json").exists()
    again = answer(capsys, ["simulate", str(path), *options])
    assert again["curve"] == document["curve"]


@pytest.mark.parametrize("problem", ["sphere", "released", "contextual", "returning"])
def test_every_problem_can_be_simulated(
    problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = local_plan(tmp_path / "plan.json")
    options = ["--problem", problem, "--trials", "2", "--arms", "4", "--workers", "1"]
    assert answer(capsys, ["simulate", str(path), *options])["problem"] == problem


def test_compare_draws_and_tabulates_all_algorithms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        "compare", "--epsilon", "1", "--delta", "0.1", "--dim", "3", "--arms", "5", "--horizon",
        "200", "--calibration", "released", "--trials", "2", "--workers", "1", "--out",
        str(tmp_path),
    ]  # fmt: skip
    document = answer(capsys, arguments)
    assert len(document["panels"][0]["rows"]) == 8
    assert all(Path(path).exists() for path in document["files"])
    assert main(arguments) == 0
    assert "LinUCB-SDP-Vec" in capsys.readouterr().out


def test_figure_warns_of_refused_algorithms_and_still_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--horizon", "400", "--trials", "2", "--workers", "1", "--out", str(tmp_path)]
    assert main(["figure", "fig1", "--calibration", "theorem", *options]) == 0
    captured = capsys.readouterr()
    assert "outside its theorem and marked as such" in captured.err
    assert "outside the theorem" in captured.out
    assert (tmp_path / "fig1.svg").exists()


def test_protocols_lists_everything_that_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    names = {row["name"] for row in answer(capsys, ["protocols"])["protocols"]}
    assert {"noiseless", "vector-sum", "amplified-gaussian", "linucb", "local", "central"} <= names


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("croupier 0.")


def test_every_command_has_an_example_in_its_help_and_a_place_in_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for command in app.registered_commands:
        assert command.callback is not None
        text = command.callback.__doc__ or ""
        assert f"Example: croupier {command.callback.__name__}" in text
        assert f"croupier {command.callback.__name__}" in readme


def test_a_killed_run_loses_nothing_and_goes_on(tmp_path: Path) -> None:
    plan = local_plan(tmp_path / "plan.json", horizon=20000)
    command = [
        sys.executable, "-m", "croupier.cli.main", "simulate", str(plan), "--trials", "150",
        "--arms", "10", "--workers", "1", "--out", str(tmp_path / "rows"), "--json",
    ]  # fmt: skip
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "rows").glob("*.csv")) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate()
    kept = {path.name: path.read_bytes() for path in (tmp_path / "rows").glob("*.csv")}
    assert 1 <= len(kept) < 6
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert all((tmp_path / "rows" / name).read_bytes() == text for name, text in kept.items())
    assert json.loads(done.stdout)["trials"] == 150
