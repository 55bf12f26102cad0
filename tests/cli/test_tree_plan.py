from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from croupier.cli.main import app

ASKED = (
    "plan --protocol concurrent-tree --levels 3 --dim 2 --epsilon 1 --delta 1e-5 "
    "--batches fixed --batch-size 20 --horizon 2000"
)


def told(command: str) -> str:
    done = CliRunner().invoke(app, command.split())
    assert done.exit_code == 0, done.output
    return done.output


def test_levels_fan_out_and_rate_are_told() -> None:
    text = told(ASKED)
    assert "3 levels, fan-out 5" in text
    assert "T^(7/13)" in text
    assert "node_users 20 / 100 / 500" in text
    assert "proved to hold" in text


def test_a_written_plan_is_shown_again(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    first = told(f"{ASKED} --out {file}")
    assert told(f"show {file}") == first
    document = json.loads(file.read_text())
    assert document["levels"] == 3
    assert document["parameters"]["node_users"] == [20, 100, 500]


@pytest.mark.parametrize("levels", ["0", "9"])
def test_levels_that_no_tree_has_are_refused_by_name(levels: str) -> None:
    done = CliRunner().invoke(app, ASKED.replace("--levels 3", f"--levels {levels}").split())
    assert done.exit_code != 0
    assert "levels" in f"{done.output} {done.exception}"
