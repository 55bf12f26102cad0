from __future__ import annotations

import pytest

from croupier.cli import screen


def shown(capsys: pytest.CaptureFixture[str], *done: int) -> str:
    with screen.progress_bar("trials", "(starting)") as advance:
        for rounds in done:
            advance(rounds, 8)
    return capsys.readouterr().err


def test_a_bar_says_why_nothing_is_done_yet(capsys: pytest.CaptureFixture[str]) -> None:
    assert "trials (starting)" in shown(capsys, 0)


def test_a_bar_that_moves_says_what_it_counts_alone(capsys: pytest.CaptureFixture[str]) -> None:
    told = shown(capsys, 0, 8)
    assert "trials" in told
    assert "100%" in told
    assert "starting" not in told


def test_a_bar_without_anything_to_count_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys) == ""
