from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.errors import UnknownNameError
from croupier.layouts import Layout, LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.protocols import registry
from croupier.schedules import FixedBatches
from croupier.shuffler import Shuffler
from croupier.simulation.engine import run
from croupier.simulation.synthetic import Sphere
from croupier.testing import check_protocol

EXAMPLE = Path(__file__).parents[1] / "examples" / "third_party"
PAGE = EXAMPLE.parents[1] / "docs" / "add-a-protocol.md"
ENTRY = "[croupier.protocols]\nbit-reports = bit_reports:BitReports\n"


@pytest.fixture
def metadata(tmp_path: Path) -> Path:
    """What installing the example leaves behind, so that it is found as any package is."""
    folder = tmp_path / "bit_reports-0.1.dist-info"
    folder.mkdir()
    folder.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: bit_reports\nVersion: 0.1\n"
    )
    folder.joinpath("entry_points.txt").write_text(ENTRY)
    return tmp_path


@pytest.fixture
def installed(metadata: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The example's module, visible in this process."""
    monkeypatch.setattr(sys, "path", [str(metadata), str(EXAMPLE), *sys.path])
    yield import_module("bit_reports")
    sys.modules.pop("bit_reports")


def plan(**changes: Any) -> Plan:
    asked: dict[str, Any] = {
        "dim": 3,
        "batch_size": 100,
        "horizon": 10_000,
        "calibration": "certified",
        "epsilon": 50.0,
        "delta": 1e-5,
    }
    return Plan.calibrate("bit-reports", **{**asked, **changes})


def test_the_entry_point_is_the_one_in_its_pyproject() -> None:
    lines = '[project.entry-points."croupier.protocols"]\nbit-reports = "bit_reports:BitReports"\n'
    assert lines in EXAMPLE.joinpath("pyproject.toml").read_text()
    assert lines in PAGE.read_text()


def test_a_strangers_protocol_is_one_file_of_under_60_lines() -> None:
    assert [path.name for path in EXAMPLE.glob("*.py")] == ["bit_reports.py"]
    assert len(EXAMPLE.joinpath("bit_reports.py").read_text().splitlines()) < 60


def test_it_is_unknown_until_it_is_installed() -> None:
    with pytest.raises(UnknownNameError, match="bit-reports"):
        registry.find("bit-reports")


def test_it_is_found_by_entry_point(installed: Any) -> None:
    assert registry.find("bit-reports") is installed.BitReports
    assert registry.names()["bit-reports"] == "bit_reports:BitReports"


def test_it_is_found_in_a_fresh_process(metadata: Path) -> None:
    script = (
        "from croupier.plan import Plan\n"
        "plan = Plan.calibrate('bit-reports', dim=3, batch_size=100, horizon=10000,"
        " calibration='certified', epsilon=50, delta=1e-5)\n"
        "print(plan.met, Plan.from_json(plan.to_json()) == plan)\n"
    )
    path = os.pathsep.join([str(metadata), str(EXAMPLE)])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "True True\n"


@pytest.mark.parametrize(
    "layout", [LightOffset(2), LightOffset(3, constant=(0, 0.5)), PapersLayout(3)], ids=str
)
@pytest.mark.parametrize("bit_epsilon", [0.3, 2.0])
def test_it_keeps_every_promise(installed: Any, layout: Layout, bit_epsilon: float) -> None:
    release = installed.BitRelease(layout, 8, bit_epsilon)
    check_protocol(installed.BitReports(layout, FixedBatches(8, 80), (release,)), trials=1000)


@pytest.mark.usefixtures("installed")
def test_its_plan_meets_the_budget_and_round_trips() -> None:
    made = plan()
    assert made.met
    assert Plan.from_json(made.to_json()) == made
    assert made.mechanism.local_guarantee().epsilon(1e-5) == pytest.approx(50)
    assert made.guarantees()["local"].epsilon(1e-5) == pytest.approx(50 * made.draws)


@pytest.mark.usefixtures("installed")
def test_returning_users_share_the_budget() -> None:
    once, twice = plan(), plan(max_participations=2)
    assert twice.met
    assert twice.release(0).noise_std > once.release(0).noise_std
    assert twice.mechanism.local_guarantee().epsilon(1e-5) == pytest.approx(25)


def test_the_likelihood_ratio_of_a_bit_is_the_one_it_claims(installed: Any) -> None:
    release = installed.BitRelease(LightOffset(2), 8, 1.5)
    ends = np.array([release.layout.low, release.layout.high])
    chances = release.chance(ends)
    assert np.log(chances[1] / chances[0]) == pytest.approx(1.5)
    assert np.log((1 - chances[0]) / (1 - chances[1])) == pytest.approx(1.5)
    outside = release.chance(np.array([release.layout.low - 9, release.layout.high + 9]))
    assert np.array_equal(outside, chances)


@pytest.mark.usefixtures("installed")
def test_it_simulates_and_learns() -> None:
    quick = plan(dim=2, epsilon=100.0, horizon=4000, batch_size=50)
    curves = run(quick, Sphere(2, 3), seed=1, trials=range(2), points=4)
    assert curves.regret.shape == (2, 4)
    assert np.all(np.diff(curves.regret, axis=1) >= 0)


@pytest.mark.usefixtures("installed")
def test_it_runs_through_the_three_roles() -> None:
    small = plan(dim=2, batch_size=20, horizon=40)
    shuffler, analyzer = Shuffler(small), Analyzer(small)
    for user in range(20):
        batch = shuffler.collect(Client(small).report([1.0, 0.0], 1.0))
        assert (batch is not None) == (user == 19)
    assert batch is not None
    assert analyzer.receive(batch).version == 1


@pytest.mark.usefixtures("installed")
def test_the_pages_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, {})
    checked, epsilon = capsys.readouterr().out.rsplit("\n", 2)[:2]
    assert checked.startswith("protocol BitReports:\n- kept:")
    assert float(epsilon) == pytest.approx(50)
