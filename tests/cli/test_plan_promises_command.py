"""What commands say about promises: several plans together, honest users, units."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from croupier.cli.main import main
from croupier.plan import Plan
from croupier.plan_promises import composed_epsilons
from croupier.service.settings import read_settings
from croupier.service.toml_tables import SettingsError


def written(path: Path, epsilon: float, **changes: Any) -> Path:
    asked: dict[str, Any] = {"dim": 3, "batch_size": 100, "horizon": 1000, "delta": 1e-5}
    made = Plan.calibrate("vector-sum", **{**asked, "epsilon": epsilon, **changes})
    path.write_text(made.to_json())
    return path


def test_epsilon_composes_plans_on_the_same_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plan of epsilon 5 and then one of 1 come to 5.06, whatever the second one says alone."""
    files = [written(tmp_path / f"{epsilon}.json", epsilon) for epsilon in (5.0, 1.0)]
    assert main(["epsilon", *map(str, files), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    plans = [Plan.from_json(file.read_text()) for file in files]
    assert document["plans"] == [plan.id for plan in plans]
    assert document["epsilons"]["shuffle"] == composed_epsilons(plans, 1e-5)["shuffle"]
    assert 5.0 < document["epsilons"]["shuffle"] < 5.2
    assert main(["epsilon", *map(str, files)]) == 0
    words = capsys.readouterr().out
    assert "2 plans on the same people" in words
    assert f"{document['epsilons']['shuffle']:.6g} at delta 1e-05" in words


def test_several_plans_have_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(written(tmp_path / "plan.json", 1.0))
    assert main(["epsilon", file, file, "--picture", str(tmp_path / "curve.png")]) == 2
    assert "picture is drawn of one plan alone" in capsys.readouterr().err


def test_show_says_what_is_left_with_fewer_honest_users(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["show", str(written(tmp_path / "plan.json", 1.0))]) == 0
    words = capsys.readouterr().out
    assert "at least 80 % of the users of every batch are honest" in words
    assert "With fewer honest users, at delta 1e-05:" in words
    assert "40 % honest: epsilon" in words


def test_a_deployment_of_a_plan_that_trusts_everybody_must_be_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trusting = str(written(tmp_path / "plan.json", 1.0, honest_fraction=1.0))
    place = str(tmp_path / "deployment")
    assert main(["init", place, "--plan", trusting]) == 2
    assert "honest_fraction must be below 1" in capsys.readouterr().err
    assert not Path(place).exists()
    assert main(["init", place, "--plan", trusting, "--all-honest"]) == 0
    usual = str(written(tmp_path / "usual.json", 1.0))
    assert main(["init", str(tmp_path / "other"), "--plan", usual]) == 0


def test_a_deployment_of_shares_must_say_that_devices_are_trusted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usual, place = str(written(tmp_path / "plan.json", 1.0)), tmp_path / "deployment"
    asked = ["init", str(place), "--plan", usual, "--transport", "shares"]
    assert main(asked) == 2
    assert "one hostile device can add any number" in capsys.readouterr().err
    assert not place.exists()
    assert main([*asked, "--trust-devices"]) == 0
    for role in ("shuffler", "analyzer"):
        settings = place / role / "settings.toml"
        assert read_settings(settings).trust_devices
        settings.write_text(settings.read_text().replace("trust_devices = true", ""))
        with pytest.raises(SettingsError, match=r'"shares" needs trust_devices = true: nobody'):
            read_settings(settings)


def test_plan_takes_units_and_confidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "plan.json"
    asked = "plan --protocol vector-sum --dim 3 --batch-size 100 --horizon 1000 --epsilon 1"
    units = "--delta 1e-5 --feature-norm 10 --reward-range=-1:2.5 --confidence 0.05 --policy ucb"
    assert main([*asked.split(), *units.split(), "--out", str(out)]) == 0
    made = Plan.from_json(out.read_text())
    assert (made.layout.feature_norm, made.layout.reward_range) == (10.0, (-1.0, 2.5))
    assert made.policy.confidence == 0.05
    assert main([*asked.split(), "--delta", "1e-5", "--reward-range", "high"]) == 2
    assert "reward-range must be LOW:HIGH, as 0:1, got 'high'" in capsys.readouterr().err
