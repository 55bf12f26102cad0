from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from croupier.errors import ResultsError
from croupier.plan import Plan
from croupier.simulation import engine
from croupier.simulation.compare import LINUCB, VECTOR, Arena, line_up
from croupier.simulation.jobs import SweepJob, over_seeds, problem_id
from croupier.simulation.outcomes import SweepOutcome, student_half_width
from croupier.simulation.results import load_frame
from croupier.simulation.sweep import simulate, sweep
from croupier.simulation.synthetic import Contextual, Sphere

ARENA = Arena(
    dim=3, horizon=120, batch_size=20, epsilon=10.0, delta=0.1, calibration="released", arms=5
)


ZEROS = np.zeros(1, dtype=np.int64)


def jobs() -> list[SweepJob]:
    return line_up((LINUCB, VECTOR), ARENA)


def regrets(outcomes: list[SweepOutcome]) -> list[np.ndarray]:
    return [outcome.regret for outcome in outcomes]


def test_one_seed_reproduces_every_number() -> None:
    first = regrets(sweep(jobs(), trials=3, seed=5))
    again = regrets(sweep(jobs(), trials=3, seed=5))
    other = regrets(sweep(jobs(), trials=3, seed=6))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_one_worker_or_three_give_the_same_numbers() -> None:
    alone = regrets(sweep(jobs(), trials=30, seed=1, workers=1))
    together = regrets(sweep(jobs(), trials=30, seed=1, workers=3))
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_a_resumed_run_computes_only_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = regrets(sweep(jobs(), trials=30, seed=1, out=tmp_path / "whole"))
    cut = tmp_path / "cut"
    sweep(jobs(), trials=30, seed=1, out=cut)
    lost = sorted(cut.glob("*.csv"))[1]
    lost.unlink()
    (cut / "half.csv.draft").write_text("a killed writer leaves a draft")
    calls: list[range] = []
    real = engine.run

    def counted(plan: Plan, problem: Sphere, seed: int, trials: range, points: int) -> object:
        calls.append(trials)
        return real(plan, problem, seed, trials, points)

    monkeypatch.setattr(engine, "run", counted)
    resumed = regrets(sweep(jobs(), trials=30, seed=1, out=cut))
    assert len(calls) == 1
    assert all(np.array_equal(a, b) for a, b in zip(whole, resumed, strict=True))
    assert (
        lost.read_text().splitlines()[:-1]
        == ((tmp_path / "whole" / lost.name).read_text().splitlines()[:-1])
    )


@pytest.mark.parametrize("keep", [0, 10, -1, -40])
def test_a_truncated_file_is_refused_and_nothing_else_is_touched(tmp_path: Path, keep: int) -> None:
    sweep(jobs(), trials=2, seed=1, out=tmp_path)
    victim, other = sorted(tmp_path.glob("*.csv"))
    intact = other.read_text()
    victim.write_text(victim.read_text()[:keep])
    with pytest.raises(ResultsError, match=victim.name):
        sweep(jobs(), trials=2, seed=1, out=tmp_path)
    assert other.read_text() == intact


def test_a_damaged_number_is_refused(tmp_path: Path) -> None:
    sweep(jobs(), trials=2, seed=1, out=tmp_path)
    victim = sorted(tmp_path.glob("*.csv"))[0]
    lines = victim.read_text().splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0] + ",x.5"
    victim.write_text("\n".join(lines) + "\n")
    with pytest.raises(ResultsError, match="damaged"):
        sweep(jobs(), trials=2, seed=1, out=tmp_path)


def test_results_of_another_run_are_refused_with_the_field_that_differs(tmp_path: Path) -> None:
    sweep(jobs(), trials=2, seed=1, out=tmp_path)
    with pytest.raises(ResultsError, match="seed there is 1, asked for is 2"):
        sweep(jobs(), trials=2, seed=2, out=tmp_path)


def test_rows_load_into_pandas_with_what_they_are_about(tmp_path: Path) -> None:
    outcomes = sweep(jobs(), trials=2, seed=1, out=tmp_path, points=10)
    table = load_frame(tmp_path)
    assert list(table.columns) == [
        "algorithm", "plan", "problem", "epsilon", "seed", "trial", "round", "regret",
    ]  # fmt: skip
    assert len(table) == 2 * 2 * 10
    last = table[(table["round"] == 120) & (table["algorithm"] == "LinUCB-SDP-Vec")]
    assert last["regret"].tolist() == outcomes[1].regret[:, -1].tolist()
    assert set(table["epsilon"].dropna()) == {10.0}


def test_jobs_that_differ_in_problem_seed_or_signs_of_the_label_keep_their_own_rows(
    tmp_path: Path,
) -> None:
    plan = Plan.calibrate("linucb", dim=3, batch_size=20, horizon=120, calibration="released")
    problems = (Sphere(3, 5), Sphere(3, 6), Contextual(3, 5))
    grid = [SweepJob(label, plan, problem) for label in ("a b", "a-b") for problem in problems]
    grid = over_seeds(grid, (4, 9))
    made = sweep(grid, trials=2, out=tmp_path, points=1)
    table = load_frame(tmp_path)
    assert len(list(tmp_path.glob("*.csv"))) == len(grid) == 12
    for job, outcome in zip(grid, made, strict=True):
        mine = (table["algorithm"] == job.label) & (table["seed"] == job.seed)
        mine &= table["problem"] == problem_id(job.problem)
        assert table[mine]["regret"].tolist() == outcome.regret[:, 0].tolist()
    assert len({tuple(outcome.regret[:, 0]) for outcome in made}) == 6  # labels change nothing
    again = sweep(grid, trials=2, out=tmp_path, points=1)
    assert [a.regret.tolist() for a in again] == [b.regret.tolist() for b in made]


def test_a_jobs_own_seed_gives_the_numbers_of_a_sweep_with_that_seed() -> None:
    own = regrets(sweep(over_seeds(jobs(), (5, 6)), trials=2, seed=1))
    apart = [regrets(sweep(jobs(), trials=2, seed=seed)) for seed in (5, 6)]
    for position, seeds in enumerate(zip(*apart, strict=True)):
        for offset, expected in enumerate(seeds):
            assert np.array_equal(own[2 * position + offset], expected)
    with pytest.raises(ValueError, match="seed must be a whole number of at least 0, got -1"):
        over_seeds(jobs(), [-1])


def test_a_directory_of_rows_with_other_columns_is_refused(tmp_path: Path) -> None:
    sweep(jobs(), trials=1, out=tmp_path)
    manifest = tmp_path / "manifest.json"
    old = json.loads(manifest.read_text())
    old["columns"].remove("problem")
    manifest.write_text(json.dumps(old, indent=1, sort_keys=True))
    with pytest.raises(ResultsError, match="columns there is"):
        sweep(jobs(), trials=1, out=tmp_path)


def test_loading_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="no results"):
        load_frame(tmp_path)


def test_progress_counts_up_to_all_rounds() -> None:
    seen: list[tuple[int, int]] = []
    sweep(jobs(), trials=2, seed=1, progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (0, 480)
    assert seen[-1] == (480, 480)


def test_all_algorithms_meet_the_same_users() -> None:
    """Two plans that choose alike see the same rewards, so the same regret."""
    plan = Plan.calibrate("linucb", dim=3, batch_size=20, horizon=120, calibration="released")
    twin = Plan.calibrate("noiseless", dim=3, batch_size=20, horizon=120, calibration="released")
    left = simulate(plan, Sphere(3, 5), trials=3)
    right = simulate(twin, Sphere(3, 5), trials=3)
    np.testing.assert_allclose(left.regret, right.regret, rtol=1e-12)


@pytest.mark.parametrize("name", ["trials", "workers", "points"])
def test_zero_of_anything_is_refused_by_name(name: str) -> None:
    settings: dict[str, Any] = {"trials": 1, name: 0}
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least 1, got 0"):
        sweep(jobs(), **settings)


def test_a_document_has_null_where_one_trial_has_no_standard_error() -> None:
    (outcome, _) = sweep(jobs(), trials=1)
    document = outcome.document()
    assert document["final_regret"]["standard_error"] is None
    assert document["curve"]["round"][-1] == document["horizon"] == 120


def test_publications_are_counted_and_kept_on_disk(tmp_path: Path) -> None:
    plan = Plan.calibrate(
        "linucb", dim=3, batch_size=5, horizon=300, calibration="theorem", publication="rare"
    )
    made, again = (simulate(plan, Sphere(3, 5), trials=30, out=tmp_path / "rare") for _ in range(2))
    assert made.publications.shape == (30,)
    assert len(set(made.publications.tolist())) > 1
    assert again.publications.tolist() == made.publications.tolist()
    assert again.document()["publications"] == made.publications.mean()
    part = sorted((tmp_path / "rare").glob("*.csv"))[0]
    part.write_text(part.read_text().replace("publications=", "publications=7 "))
    with pytest.raises(ResultsError, match=r"counts publications of \d+ trials, not \d+"):
        simulate(plan, Sphere(3, 5), trials=30, out=tmp_path / "rare")


def test_the_open_batch_is_played_and_reported_as_unreleased() -> None:
    plan = Plan.calibrate("linucb", dim=3, batch_size=50, horizon=120, calibration="released")
    document = simulate(plan, Sphere(3, 5), trials=1).document()
    assert document["unreleased_rounds"] == 20


def test_bands_of_three_trials_are_those_of_student() -> None:
    """Half the 95 % interval from three normal numbers is 4.303 standard errors, not 1.96."""
    made = SweepOutcome(jobs()[0], np.array([1]), np.array([[1.0], [2.0], [6.0]]), 0, ZEROS, 0.0)
    assert made.half_width[0] == pytest.approx(4.302652729911275 * made.standard_error[0])
    rng = np.random.default_rng(7)
    draws = rng.standard_normal((20_000, 3))
    error = draws.std(axis=1, ddof=1) / math.sqrt(3)
    missed = np.abs(draws.mean(axis=1)) > student_half_width(error, 3)
    # 5 % of 20,000 with a standard deviation of 31; the normal factor would miss 19 %.
    assert abs(np.count_nonzero(missed) - 1000) < 150


def test_the_band_of_one_trial_is_unknown() -> None:
    made = SweepOutcome(jobs()[0], np.array([1]), np.array([[1.0]]), 0, ZEROS, 0.0)
    assert math.isnan(made.half_width[0])
