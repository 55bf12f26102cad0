from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from croupier.cli.main import main
from croupier.plan import Plan

pd = pytest.importorskip("pandas", reason="the data extra is not installed")
pytest.importorskip("pyarrow", reason="the data extra is not installed")

LABELLED = ["--context", "age,region", "--label", "bought"]
LOGGED = ["--context", "age,region", "--arm", "shown", "--reward", "liked", "--propensity", "odds"]
FEW = ["--trials", "2", "--workers", "1"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    age, region = rng.integers(18, 80, 600), rng.choice(["north", "south"], 600)
    bought = np.where(age + 20 * (region == "south") > 60, "book", "film")
    shown = rng.choice(["book", "film"], 600)
    columns = {"age": age, "region": region, "bought": bought, "shown": shown, "odds": 0.5}
    path = tmp_path / "visits.csv"
    pd.DataFrame({**columns, "liked": (shown == bought) * 1}).to_csv(path, index=False)
    return path


def plan(path: Path, protocol: str = "vector-sum", dim: int = 8, horizon: int = 1000) -> str:
    made = Plan.calibrate(protocol, dim=dim, horizon=horizon, epsilon=1.0, delta=1e-6)
    path.write_text(made.to_json())
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_plans_with_a_block_for_each_arm_play_files_and_logs(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--protocol", "noiseless", "--dim", "8", "--blocks", "2", "--horizon", "200"]
    file = str(tmp_path / "plan.json")
    constant = ["--constant-feature", "3=0.7"]
    document = answer(capsys, ["plan", *told, *constant, "--batch-size", "20", "--out", file])
    assert document["layout"]["blocks"] == 2
    assert main(["show", file]) == 0
    shown = capsys.readouterr().out
    assert "blocks        2 of 4 features, zero outside one of them" in shown
    assert "feature 3 of the own block is 0.7 for everybody" in shown
    played = answer(capsys, ["simulate", file, "--data", str(data), *LABELLED, *FEW])
    assert played["mean_reward"]["mean"] > 0.6
    replayed = answer(capsys, ["simulate", file, "--data", str(data), *LOGGED])
    assert replayed["batches"] > 0


def test_a_plan_with_other_blocks_than_arms_is_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Plan.calibrate("noiseless", dim=8, horizon=200, batch_size=20, blocks=4)
    (tmp_path / "p").write_text(made.to_json())
    assert main(["simulate", str(tmp_path / "p"), "--data", str(data), *LABELLED, *FEW]) != 0
    assert "features must be zero outside one of 4 blocks" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_users_own_file_is_played_from_the_command_line(
    kind: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = data if kind == "csv" else data.with_suffix(".parquet")
    if kind == "parquet":
        pd.read_csv(data).to_parquet(file)
    arguments = ["simulate", plan(tmp_path / "p", "linucb"), "--data", str(file), *LABELLED, *FEW]
    document = answer(capsys, arguments)
    assert document["problem"] == "file"
    assert document["players"] == 300
    assert document["uniform_reward"] == 0.5
    assert document["mean_reward"]["mean"] > 0.7
    assert document["scaling"] == "public: fitted to 300 people who never play"
    assert document["mean_reward"]["mean"] == pytest.approx(
        1 - document["final_regret"]["mean"] / 1000
    )


def test_words_say_what_was_earned_and_what_the_map_rests_on(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = plan(tmp_path / "p")
    bounds = ["--bounds", "age=18:90", "--map-mu", "0.1"]
    assert main(["simulate", made, "--data", str(data), *LABELLED, *bounds, *FEW]) == 0
    words = capsys.readouterr().out
    assert "uniform play 0.500" in words
    assert "600 people play, each 1.7 times" in words
    assert "charged to the budget: means and squares of 600 players at mu = 0.1" in words
    assert "Plan and map together: epsilon 1.0" in words


def test_a_charged_map_is_in_the_document(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["simulate", plan(tmp_path / "p"), "--data", str(data), *LABELLED, *FEW]
    document = answer(capsys, [*arguments, "--bounds", "age=18:90", "--map-mu", "0.1"])
    assert 1.0 < document["epsilon_with_map"] < 1.3
    assert "epsilon_with_map" not in answer(capsys, arguments)


def test_a_log_is_valued_from_the_command_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["simulate", plan(tmp_path / "p", "linucb", horizon=100), "--data", str(data)]
    document = answer(capsys, [*arguments, *LOGGED])
    names = [one["estimate"] for one in document["estimates"]]
    assert names[:4] == [
        "log itself", "replay, while learning", "inverse propensity", "self-normalised",
    ]  # fmt: skip
    assert all(one["low"] <= one["value"] <= one["high"] for one in document["estimates"])
    assert document["mean_inverse"] == 2.0
    assert main([*arguments, *LOGGED]) == 0
    words = capsys.readouterr().out
    assert "inverse propensity" in words
    assert "of 300 rows" in words


def test_named_data_says_its_terms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("river", reason="river is not installed")
    made = plan(tmp_path / "p", "linucb", horizon=300)
    assert main(["simulate", made, "--problem", "shuttle", *FEW]) == 0
    words = capsys.readouterr().out
    assert "shuttle.csv.gz of the installed river; CC BY 4.0" in words
    assert "best single arm 0.928" in words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--context", "age,height", "--label", "bought"], "column 'height' is not in"),
        (["--context", "age", "--label", "bought"], "dim must be 4 for"),
        (["--label", "bought"], "context must name columns of --data, got None"),
        (["--context", "age"], "data needs --label, or --arm, --reward and --propensity"),
        ([*LABELLED, "--arm", "shown"], "logged data needs all of --arm, --reward and"),
        ([*LOGGED, "--label", "bought"], "and not both"),
        ([*LABELLED, "--arms", "9"], "arms are the values of --label and must be left out, got 9"),
        ([*LABELLED, "--problem", "adult"], "problem must be left out where --data is given"),
        ([*LABELLED, "--map-mu", "1"], "map-mu needs --bounds"),
        ([*LABELLED, "--bounds", "age"], "bounds must be NAME=LOW:HIGH"),
        ([*LOGGED[:-1], "age"], "named once, got 'age' 2 times"),
    ],
)
def test_wrong_options_are_one_line_and_exit_2(
    options: list[str],
    words: str,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["simulate", plan(tmp_path / "p"), "--data", str(data), *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert captured.err.count("\n") == 1


def test_columns_without_a_file_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", plan(tmp_path / "p"), "--label", "bought"]) == 2
    assert "label is of --data, which is missing: 'bought'" in capsys.readouterr().err


def test_help_has_a_line_for_a_users_own_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "--data visits.csv --context age,region --label bought" in words
    assert "movielens" in words
