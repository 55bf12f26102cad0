from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from croupier.cli.main import main

COMMON = [
    "--epsilon", "1", "--delta", "1e-5", "--dim", "5", "--horizon", "100000",
    "--honest-fraction", "1",
]  # fmt: skip


def plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["plan", *COMMON, *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_certified_is_the_default_and_meets_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    for protocol in ("vector-sum", "amplified-gaussian", "local", "central"):
        document = plan(capsys, "--protocol", protocol, "--batch-size", "1000")
        assert document["calibration"] == "certified"
        trust = {"local": "local", "central": "joint"}.get(protocol, "shuffle")
        assert document["guarantees"][trust]["epsilon"] <= 1.0


def test_bits_are_within_5_percent_of_the_floor_with_under_30_bits_a_vector_label(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = plan(capsys, "--protocol", "vector-sum", "--batch-size", "1000")
    assert document["noise_floor_std"] == pytest.approx(7.914 / 2, abs=3e-4)
    assert document["noise_std"] <= 1.05 * document["noise_floor_std"]
    own = document["parameters"]
    # Features reach a value of 0.5 at most on either side of zero.
    assert own["grid"] + 1 + own["noise_bits"] <= 30
    assert own["bias"] == 0.5


def test_shuffled_gaussians_print_the_attack_beside_the_certificate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = plan(capsys, "--protocol", "amplified-gaussian", "--batch-size", "1000")
    assert 67 < document["noise_std"] <= 68
    assert document["noise_floor_std"] == pytest.approx(20, abs=0.5)
    assert document["guarantees"]["shuffle"]["mu"] is None
    assert main(["plan", *COMMON, "--protocol", "amplified-gaussian", "--batch-size", "1000"]) == 0
    assert "no analysis allows less than 20." in capsys.readouterr().out


def test_ten_noise_bits_give_no_local_guarantee_and_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = plan(capsys, "--protocol", "vector-sum", "--batch-size", "1000")
    local = document["guarantees"]["local"]
    assert local["epsilon"] is None
    assert "coins of its label" in local["reason"]


def test_a_larger_overhead_saves_bits_and_a_smaller_one_costs_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    base = ["--protocol", "vector-sum", "--batch-size", "1000", "--overhead"]
    bits = [plan(capsys, *base, share)["report_bits"] for share in ("0.02", "0.05", "0.3")]
    assert bits[0] > bits[1] > bits[2]


def test_the_central_strategy_can_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["--protocol", "central", "--batch-size", "1000"]
    assert plan(capsys, *base)["parameters"]["strategy"] == "fresh"
    fixed = [*base, "--batches", "fixed"]
    assert plan(capsys, *fixed)["parameters"]["strategy"] == "toeplitz"
    assert plan(capsys, *base, "--strategy", "tree")["parameters"]["strategy"] == "tree"
    assert main(["plan", *COMMON, *base, "--strategy", "bush"]) == 2
    assert "bush" in capsys.readouterr().err


def test_an_honest_fraction_raises_the_noise(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["--protocol", "vector-sum", "--batch-size", "1000"]
    honest = plan(capsys, *base)["noise_std"]
    fewer = plan(capsys, *base, "--honest-fraction", "0.5")["noise_std"]
    assert fewer == pytest.approx(honest * 2**0.5, rel=1e-3)


def test_returning_users_need_more_noise(capsys: pytest.CaptureFixture[str]) -> None:
    base = ["--protocol", "vector-sum", "--batch-size", "1000", "--batches", "fixed"]
    base += ["--max-participations", "20"]
    assert plan(capsys, *base)["noise_floor_std"] == pytest.approx(35.39 / 2, abs=0.005)


def test_growing_batches_are_shown_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    base = [*COMMON, "--protocol", "vector-sum", "--batches", "growing"]
    assert main(["plan", *base]) == 0
    words = capsys.readouterr().out
    document = plan(capsys, "--protocol", "vector-sum", "--batches", "growing")
    sizes = {"name": "growing", "first": 127, "exponent": 1.5, "most": None}
    assert document["schedule"] == sizes
    first, rest = document["releases"][:20], document["releases"][20:]
    assert f"and {len(rest)} more" in words
    for release in first:
        assert f"{release['users']} users, {release['report_bits']:>8} bits a report" in words


def test_the_curve_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "plan.json", tmp_path / "curve.png"
    plan(capsys, "--protocol", "vector-sum", "--batch-size", "1000", "--out", str(file))
    assert main(["epsilon", str(file), "--delta", "1e-6", "--picture", str(picture)]) == 0
    assert imread(picture).std() > 0.05


@pytest.mark.parametrize(
    ("protocol", "epsilon", "met"),
    [("local", 1, False), ("amplified-gaussian", 1, False), ("vector-sum", 1, True),
     ("vector-sum", 10, False), ("central", 10, False), ("local", 10, False)],
)  # fmt: skip
def test_released_constants_are_worth_what_is_computed(
    protocol: str, epsilon: int, met: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    size = "1" if protocol in {"local", "central"} else "20"
    arguments = [
        "plan", "--protocol", protocol, "--epsilon", str(epsilon), "--delta", "0.1", "--dim", "5",
        "--batch-size", size, "--horizon", "20000", "--calibration", "released", "--out", str(file),
    ]  # fmt: skip
    assert main(arguments) == 0
    assert main(["epsilon", str(file)]) == (0 if met else 1)
    capsys.readouterr()
