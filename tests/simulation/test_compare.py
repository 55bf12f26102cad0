from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from croupier.plan import Plan
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


def test_centred_arenas_make_centred_plans() -> None:
    arena = replace(DEFAULT, centred=True, constant_feature=(4, math.sqrt(0.5)))
    assert enter(VECTOR, arena).plan.layout.constant == (4, math.sqrt(0.5))


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
