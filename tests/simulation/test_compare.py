from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from croupier.plan import Plan
from croupier.simulation import engine, registry
from croupier.simulation.compare import (
    ALL_ENTRIES,
    AMPLIFIED,
    BATCHED_CENTRAL,
    BATCHED_LOCAL,
    CENTRAL,
    LOCAL,
    VECTOR,
    Arena,
    Entry,
    enter,
    line_up,
    uniform_play,
)
from croupier.simulation.sweep import simulate
from croupier.simulation.synthetic import Sphere

ARENA = Arena(dim=5, horizon=20000, epsilon=1.0, delta=0.1, calibration="theorem")
DEFAULT = replace(ARENA, calibration="certified")


def test_every_algorithm_of_the_paper_is_lined_up() -> None:
    protocols = {job.plan.protocol for job in line_up(ALL_ENTRIES, ARENA)}
    assert protocols == {"linucb", "central", "vector-sum", "amplified-gaussian", "local"}


@pytest.mark.parametrize("arena", [ARENA, DEFAULT])
def test_sequential_entries_update_after_every_round(arena: Arena) -> None:
    for entry in (LOCAL, CENTRAL):
        assert enter(entry, arena).plan.schedule.sizes() == (1,)


def test_fixed_batches_have_the_papers_20_users_unless_told_otherwise() -> None:
    assert enter(AMPLIFIED, ARENA).plan.schedule.sizes() == (20,)
    assert enter(VECTOR, replace(DEFAULT, batches="fixed")).plan.schedule.sizes() == (20,)
    assert enter(VECTOR, replace(ARENA, batch_size=50)).plan.schedule.sizes() == (50,)


def test_batched_baselines_play_the_schedule_of_the_shuffle_model() -> None:
    growing = enter(VECTOR, DEFAULT).plan.schedule
    assert growing.name == "growing"
    for entry in (BATCHED_CENTRAL, BATCHED_LOCAL):
        assert enter(entry, DEFAULT).plan.schedule == growing


@pytest.mark.parametrize("calibration", ["certified", "theorem", "released"])
def test_what_an_arena_leaves_out_is_what_a_plan_leaves_out(calibration: str) -> None:
    arena = replace(ARENA, calibration=calibration)
    size = 20 if arena.batches_name == "fixed" else None
    plan = Plan.calibrate(
        "vector-sum", dim=5, horizon=20000, batch_size=size, epsilon=1.0, delta=0.1,
        calibration=calibration, honest_fraction=1.0,
        constant_feature=Sphere.constant_of(5) if calibration == "certified" else None,
    )  # fmt: skip
    assert enter(VECTOR, arena).plan.id == plan.id


def test_the_papers_names_are_kept_for_the_papers_policy_only() -> None:
    names = {job.label for job in line_up(ALL_ENTRIES, ARENA)}
    assert {"LinUCB", "LinUCB-SDP-Vec", "Batched-Central-LinUCB"} <= names
    for arena in (DEFAULT, replace(DEFAULT, policy="randucb")):
        labels = [job.label for job in line_up(ALL_ENTRIES, arena)]
        assert not any("LinUCB" in label for label in labels)
        assert len(set(labels)) == len(ALL_ENTRIES)
    assert enter(VECTOR, replace(DEFAULT, policy="ucb")).label == "LinUCB-SDP-Vec"


def test_an_entry_without_words_keeps_its_label() -> None:
    assert enter(Entry("mine", "vector-sum"), DEFAULT).label == "mine"


@pytest.mark.parametrize("problem", ["sphere", "contextual", "pooled", "released"])
def test_certified_plans_declare_what_the_problem_has(problem: str) -> None:
    arena, kind = replace(DEFAULT, problem=problem), registry.find(problem)
    job = enter(VECTOR, arena)
    assert job.plan.layout.constant == kind.constant_of(5)
    assert job.plan.layout.feature_norm == kind.feature_norm
    assert job.plan.met
    assert engine.fitting_plan(job.plan, job.problem) is job.plan
    outcome = simulate(uniform_play(replace(arena, horizon=300)).plan, job.problem, trials=2)
    assert np.isfinite(outcome.mean).all()
    assert enter(VECTOR, replace(arena, declared=False)).plan.layout.constant is None


def test_a_named_constant_is_declared_in_place_of_the_problems() -> None:
    named = (0, 0.5)
    for arena in (ARENA, DEFAULT, replace(DEFAULT, declared=False)):
        job = enter(VECTOR, replace(arena, constant_feature=named))
        assert job.plan.layout.constant == named


@pytest.mark.parametrize("calibration", ["theorem", "released"])
@pytest.mark.parametrize("problem", ["sphere", "released"])
def test_the_papers_constants_are_stated_for_norm_1_and_declare_nothing(
    calibration: str, problem: str
) -> None:
    layout = enter(VECTOR, replace(ARENA, calibration=calibration, problem=problem)).plan.layout
    assert (layout.constant, layout.feature_norm) == (None, 1.0)


@pytest.mark.parametrize(
    ("changes", "strategy"),
    [
        ({}, "fresh"),
        ({"policy": "randucb"}, "fresh"),
        ({"policy": "ucb"}, "toeplitz"),
        ({"calibration": "theorem"}, "tree"),
    ],
)
def test_the_central_model_has_fresh_noise_where_sums_are_learnt_one_by_one(
    changes: dict[str, str], strategy: str
) -> None:
    arena = replace(DEFAULT, **changes)  # type: ignore[arg-type]
    assert enter(BATCHED_CENTRAL, arena).plan.release(0).parameters["strategy"] == strategy
    assert enter(CENTRAL, arena).plan.release(0).parameters["strategy"] == "tree"


def test_uniform_play_pays_the_average_gap_in_every_round() -> None:
    job = uniform_play(replace(DEFAULT, horizon=4000, arms=10))
    outcome = simulate(job.plan, job.problem, trials=4, points=4)
    steps = np.diff(outcome.regret, axis=1, prepend=0.0)
    # 1000 rounds a quarter with gaps in [0, 1]: 6 standard errors of their mean are below 0.1.
    assert np.all(np.abs(steps / 1000 - steps.mean(axis=1, keepdims=True) / 1000) < 0.1)
    assert outcome.mean[-1] > 0.2 * 4000


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_all_panels_of_figure_1_lie_outside_the_theorem_of_amplification(epsilon: float) -> None:
    job = enter(AMPLIFIED, replace(ARENA, epsilon=epsilon))
    assert "lem:shuffle_amp" in job.refused
    assert job.plan.terms.outside


def test_a_covered_algorithm_is_not_marked() -> None:
    assert enter(LOCAL, ARENA).refused == ""
