from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from croupier.cli import recommending
from croupier.cli.main import main
from croupier.plan import Plan

SMALL = [
    "plan", "--auto", "--users", "3000", "--dim", "3", "--epsilon", "2", "--delta", "1e-4",
]  # fmt: skip
MANY = [
    "plan", "--auto", "--users", "200000", "--dim", "10", "--epsilon", "1", "--delta", "1e-6",
]  # fmt: skip
HOPELESS = [
    "plan", "--auto", "--users", "500", "--dim", "20", "--epsilon", "0.1", "--delta", "1e-6",
]  # fmt: skip
NAMED = [
    "plan", "--protocol", "vector-sum", "--dim", "3", "--epsilon", "2", "--delta", "1e-4",
    "--horizon", "3000",
]  # fmt: skip


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str], code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_suggests_a_plan_for_many_users_in_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, start = tmp_path / "plan.json", time.process_time()
    found = answer(capsys, [*MANY, "--out", str(out)])
    assert time.process_time() - start < 20
    plan = Plan.from_json(out.read_text())
    assert plan.met
    assert plan.id == found["plan"]["id"]
    assert found["choice"]["protocol"] == "vector-sum"
    assert found["regret"]["share_high"] < 0.1
    assert found["regret"]["high"] <= 1.25 * found["regret"]["mean"]
    assert 3 < found["non_private"]["times"] < 30
    assert sum(found["batches"]) == 200_000
    assert found["downloads"] == len(found["batches"])
    assert found["report_bytes"]["first"] < found["report_bytes"]["largest"] < 1000
    assert len(found["what_if"]) == 3


def test_declines_hopeless_needs_with_exit_1_and_null(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, HOPELESS, code=1)
    assert found["choice"] is None
    assert found["plan"] is None
    assert found["reason"].startswith("Not enough users to learn anything")
    assert found["needed"]["users"] > 500
    assert found["needed"]["epsilon"] > 0.1


def test_words_say_no_and_what_it_would_take(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--users", "100", "--epsilon", "0.3"]
    assert main([*SMALL, *few]) == 1
    words = capsys.readouterr().out
    assert words.startswith("No plan. Not enough users to learn anything")
    assert "It would take about" in words
    assert "users, or epsilon about" in words


def test_nothing_is_written_where_there_is_no_plan(tmp_path: Path) -> None:
    out = tmp_path / "plan.json"
    assert main([*SMALL, "--max-report-bytes", "1", "--out", str(out)]) == 1
    assert not out.exists()


def test_words_and_json_carry_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, SMALL)
    assert main(SMALL) == 0
    words = capsys.readouterr().out
    assert found["plan"]["id"] in words
    assert f"{found['regret']['mean']:,.0f} expected" in words
    assert f"{found['regret']['share']:.2%} of uniform play" in words
    assert "times non-private learning" in words
    assert f"{found['report_bytes']['largest']:,} at most" in words
    assert "(2, 0.0001): proved to hold" in words
    assert "estimates" in words
    for one in found["what_if"]:
        assert one["change"] in words
    for one in found["alternatives"]:
        assert one["label"] in words


def test_words_for_bytes_that_are_too_few(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--max-report-bytes", "1"]) == 1
    words = capsys.readouterr().out
    assert "No certified report fits max_report_bytes 1" in words
    assert "It would take reports of" in words
    assert "epsilon" not in words


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--json"]) == 0
    captured = capsys.readouterr()
    assert "trying plans" in captured.err
    json.loads(captured.out)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*SMALL, "--protocol", "vector-sum"], "--protocol is chosen by --auto, got 'vector-sum'"),
        ([*SMALL, "--policy", "ucb"], "--policy is chosen by --auto, got 'ucb'"),
        ([*SMALL, "--overhead", "0.05"], "--overhead is chosen by --auto, got '0.05'"),
        ([*SMALL, "--blocks", "2"], "--blocks is not known to --auto, got '2'"),
        ([*SMALL, "--horizon", "10"], "--horizon is chosen by --auto, got '10'"),
        ([*NAMED, "--users", "10"], "--users is for --auto, got '10'"),
        ([*NAMED, "--action-sets", "common"], "--action-sets is for --auto, got 'common'"),
        ([*NAMED, "--picture", "a.png"], "--picture is for --auto, got 'a.png'"),
        (["plan", "--dim", "3"], "protocol must be given unless --auto"),
        (["plan", "--auto", "--dim", "3"], "users must be given for --auto, got None"),
        ([*SMALL[:4], "--dim", "3", "--delta", "0.1"], "epsilon must be given for --auto"),
        ([*SMALL[:4], "--dim", "3", "--epsilon", "1"], "delta must be given for --auto"),
        ([*SMALL, "--users", "0"], "users must be a whole number of at least 1, got 0"),
        ([*SMALL, "--epsilon", "nan"], "epsilon must be a finite number, got nan"),
        ([*SMALL, "--constant-feature", "9=0.5"], "constant_feature: constant index must be below"),
        ([*SMALL, "--constant-feature", "x"], "constant-feature must be INDEX=VALUE, got 'x'"),
        ([*SMALL, "--action-sets", "some"], "unknown action_sets 'some'"),
        (
            [*SMALL, "--users", "1000001", "--picture", "a.png"],
            "users must be at most 1000000 for a picture, got 1000001",
        ),
        ([*SMALL, "--picture", "a.gif"], "picture must end in .png or .svg, got 'a.gif'"),
    ],
)
def test_bad_input_is_one_line_with_argument_and_value_and_exit_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_a_picture_of_what_privacy_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recommending, "PICTURE_TRIALS", 2)
    picture = tmp_path / "costs.png"
    small = [*SMALL, "--users", "600", "--epsilon", "8", "--arms", "3"]
    found = answer(capsys, [*small, "--picture", str(picture)])
    assert picture.stat().st_size > 1000
    assert str(picture) in found["files"]
