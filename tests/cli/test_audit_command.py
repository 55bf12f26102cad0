from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from croupier.cli.main import main
from croupier.coins import Coins
from croupier.plan import Plan
from croupier.protocols import vector_release
from croupier.protocols.vector_release import STEP_POWER


def written(path: Path, protocol: str, calibration: str, **changes: Any) -> str:
    asked: dict[str, Any] = {"dim": 3, "batch_size": 10, "horizon": 200, "epsilon": 1.0}
    plan = Plan.calibrate(protocol, calibration=calibration, **{**asked, "delta": 0.1, **changes})
    path.write_text(plan.to_json())
    return str(path)


def test_an_honest_plan_exits_0_and_the_document_says_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "plan.json", "vector-sum", "certified")
    assert main(["audit", file, "--trials", "5000", "--seed", "3", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "audit"
    assert document["plan"] == Plan.from_json(Path(file).read_text()).id
    assert (document["trials"], document["seed"], document["batches"]) == (5000, 3, 1)
    assert 0 < document["mu_lower"] < document["mu_estimate"]
    assert document["mu_certified"] == document["claim"]["mu"]
    assert document["middle"]["false_positive"] < document["middle"]["false_positive_upper"]
    assert document["flagged"] is False
    assert document["confidence"] == 0.999


def test_a_plan_that_gives_away_more_than_asked_exits_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "plan.json", "local", "released")
    assert main(["audit", file, "--trials", "20000", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["budget_refuted"] is True
    assert document["promise_refuted"] is False
    assert document["delta_lower"] > 0.1


def test_words_and_json_carry_the_same_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "plan.json", "local", "released")
    assert main(["audit", file, "--trials", "20000", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert main(["audit", file, "--trials", "20000"]) == 1
    text = capsys.readouterr().out
    assert f"at least {document['mu_lower']:.6g}" in text
    assert f"delta at least {document['delta_lower']:.4g} at epsilon 1" in text
    assert "does NOT hold" in text
    assert "REFUTED" in text


@pytest.mark.parametrize("protocol", ["noiseless", "linucb"])
def test_a_plan_without_a_claim_exits_0_and_says_so(
    protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "plan.json", protocol, "theorem")
    assert main(["audit", file]) == 0
    assert "nothing is claimed" in capsys.readouterr().out
    assert main(["audit", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mu_lower"] is None


def test_infinite_estimates_are_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "plan.json", "local", "released", epsilon=10.0)
    main(["audit", file, "--trials", "1000", "--json"])
    assert json.loads(capsys.readouterr().out)["mu_estimate"] is None


def test_returning_users_are_in_as_many_batches_as_the_plan_allows_or_fewer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "plan.json", "local", "certified", max_participations=4)
    seen = []
    for options in ([], ["--batches", "1"]):
        assert main(["audit", file, "--trials", "5000", "--json", *options]) == 0
        seen.append(json.loads(capsys.readouterr().out))
    assert [document["batches"] for document in seen] == [4, 1]
    assert seen[0]["mu_certified"] == pytest.approx(2 * seen[1]["mu_certified"])


@pytest.mark.parametrize("options", [["--trials", "0"], ["--batches", "0"], ["--batches", "99"]])
def test_bad_options_are_one_line_and_exit_2(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "plan.json", "local", "released")
    assert main(["audit", file, *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert options[1] in captured.err
    assert captured.err.count("\n") == 1


def test_single_reports_are_in_words_and_in_the_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "plan.json", "vector-sum", "certified")
    # Devices cannot be seeded, so each run fails once in 50,000.
    assert main(["audit", file, "--trials", "1000", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["reports"]
    assert found["agrees"] is True
    assert 1e-5 <= found["chance"] <= 1
    assert (found["reports"] >= 2400, found["pairs"]) == (True, 78)
    assert main(["audit", file, "--trials", "1000"]) == 0
    text = capsys.readouterr().out
    assert " single ones, 78 pairs of labels: as they should be (p = " in text


def test_a_device_that_rounds_wrongly_exits_1_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nearest(numerator: int, coins: Coins) -> int:
        return (numerator + (1 << STEP_POWER - 1)) >> STEP_POWER

    file = written(tmp_path / "plan.json", "vector-sum", "certified")
    monkeypatch.setattr(vector_release, "_rounded", nearest)
    assert main(["audit", file, "--trials", "1000"]) == 1
    text = capsys.readouterr().out
    assert "pairs of labels: NOT as they should be in " in text
    assert "REFUTED: " in text


def test_a_baseline_has_no_line_on_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "plan.json", "local", "certified")
    assert main(["audit", file, "--trials", "1000"]) == 0
    assert "single ones" not in capsys.readouterr().out
    assert main(["audit", file, "--trials", "1000", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reports"] is None
