from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from croupier.cli.main import main

COMPARE = [
    "compare", "--epsilon", "1", "--delta", "0.1", "--dim", "3", "--arms", "5", "--horizon", "300",
    "--trials", "2", "--workers", "1",
]  # fmt: skip


def answer(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def labels(document: Any) -> list[str]:
    return [row["algorithm"] for row in document["panels"][0]["rows"]]


def test_compare_samples_in_growing_batches_unless_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = answer(capsys, [*COMPARE, "--out", str(tmp_path)])
    assert labels(document) == [
        "non-private, sequential", "non-private, batched", "central, sequential (tree)",
        "central, batched (fresh noise)", "shuffle (vector-sum)", "shuffle (amplified)",
        "local, sequential", "local, batched",
    ]  # fmt: skip
    sizes = {row["algorithm"]: row["batch_size"] for row in document["panels"][0]["rows"]}
    assert sizes["local, sequential"] == 1
    # As many as the noise asks for, which is less than a tenth of all users.
    assert sizes["central, batched (fresh noise)"] == sizes["shuffle (vector-sum)"] == 21


def test_compare_can_play_the_papers_algorithm_with_certified_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--batches", "fixed", "--policy", "ucb", "--out", str(tmp_path)]
    rows = answer(capsys, [*COMPARE, *options])["panels"][0]["rows"]
    shuffled = next(row for row in rows if row["algorithm"] == "LinUCB-SDP-Vec")
    assert (shuffled["batch_size"], shuffled["calibration"]) == (20, "certified")


def test_compare_takes_a_batch_size_and_a_constant_feature(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--batch-size", "15", "--out", str(tmp_path)]
    usual = answer(capsys, [*COMPARE, *options])
    named = answer(capsys, [*COMPARE, *options, "--constant-feature", f"2={0.5**0.5}"])
    rows, again = (document["panels"][0]["rows"] for document in (usual, named))
    assert rows[4]["batch_size"] == 15
    # What the problem has is declared without a word.
    assert [row["plan"] for row in rows] == [row["plan"] for row in again]
    assert main([*COMPARE, *options, "--constant-feature", "2=0.5"]) == 2
    assert "constant 0.5 at index 2" in capsys.readouterr().err


def test_a_figure_that_sets_an_option_itself_refuses_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["figure", "ladder", "--policy", "ucb"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "policy is set by figure ladder itself, got 'ucb'" in captured.err


def test_fitted_slopes_are_in_the_words_the_document_and_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["figure", "horizon", "--horizon", "10000", "--trials", "2", "--arms", "4"]
    arguments += ["--out", str(tmp_path)]
    document = answer(capsys, arguments)
    found = document["panels"][0]["slopes"]["default"]
    assert main(arguments) == 0
    words = capsys.readouterr().out
    assert f"Slope: default {found['power']:.3f} +- {found['standard_error']:.3f}" in words
    with (tmp_path / "horizon.csv").open() as file:
        column = {row["slope"] for row in csv.DictReader(file) if row["algorithm"] == "default"}
    assert column == {repr(found["power"])}
