from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from croupier.figures.catalogue import LONG
from croupier.figures.data import DotPanel, PointPanel
from croupier.figures.frontier import EPSILONS, frontier
from croupier.figures.horizon import horizon
from croupier.figures.ladder import ladder
from croupier.figures.paper import PAPER
from croupier.figures.trust import trust
from croupier.plan import Plan
from croupier.schedules import FixedBatches
from croupier.simulation.synthetic import Sphere

SMALL = replace(PAPER, horizon=2000)


def rung(panel: int, name: str) -> Plan:
    dots = ladder(SMALL).panels[panel]
    assert isinstance(dots, DotPanel)
    (found,) = (row.job.plan for row in dots.rows if row.name == name)
    return found


@pytest.mark.parametrize(
    ("name", "calibration", "batches", "policy"),
    [
        ("theorem's constants", "theorem", "fixed", "ucb"),
        ("certified noise", "certified", "fixed", "ucb"),
        ("+ growing batches", "certified", "growing", "ucb"),
        ("+ sampling", "certified", "fixed", "sampling"),
        ("+ both, no constant declared", "certified", "growing", "sampling"),
        ("+ both: the default", "certified", "growing", "sampling"),
        ("central, the same batches", "certified", "growing", "sampling"),
    ],
)
def test_each_rung_changes_what_its_name_says(
    name: str, calibration: str, batches: str, policy: str
) -> None:
    plan = rung(0, name)
    found = (plan.calibration, plan.schedule.name, plan.policy.name)
    assert found == (calibration, batches, policy)


def test_the_default_rung_is_what_a_plan_is_without_a_word() -> None:
    asked: dict[str, Any] = {"dim": 5, "horizon": 2000, "epsilon": 1.0, "delta": 0.1}
    asked["honest_fraction"] = 1.0
    constant = Sphere.constant_of(5)
    plan = Plan.calibrate("vector-sum", constant_feature=constant, **asked)
    assert rung(0, "+ both: the default").id == plan.id
    silent = Plan.calibrate("vector-sum", **asked)
    assert rung(0, "+ both, no constant declared").id == silent.id


@pytest.mark.parametrize("panel", [0, 1])
def test_certified_rungs_declare_the_constant_but_one(panel: int) -> None:
    for name in ("certified noise", "+ sampling", "+ both: the default"):
        assert rung(panel, name).layout.constant == Sphere.constant_of(5)
    for name in ("theorem's constants", "+ both, no constant declared"):
        assert rung(panel, name).layout.constant is None


def test_the_ladder_stands_on_a_common_arm_set_and_on_fresh_ones() -> None:
    first, second = ladder(SMALL).panels
    assert {(job.problem.name, job.problem.arms) for job in first.jobs} == {("sphere", 100)}
    assert {(job.problem.name, job.problem.arms) for job in second.jobs} == {("contextual", 20)}


def test_the_frontier_has_a_line_per_trust_model_along_epsilon() -> None:
    (panel,) = frontier(SMALL).panels
    assert isinstance(panel, PointPanel)
    assert [line.label for line in panel.series] == ["central", "shuffle", "local"]
    for line in panel.series:
        assert line.at == EPSILONS == tuple(job.epsilon for job in line.jobs)
        assert all(job.plan.met for job in line.jobs)
    assert [job.label for job in panel.levels] == ["uniform play", "non-private"]


def test_the_frontier_is_the_users_own() -> None:
    arena = replace(SMALL, dim=3, arms=7, problem="contextual", delta=1e-4)
    (panel,) = frontier(arena).panels
    for job in panel.jobs:
        assert (job.plan.layout.dim, job.problem.arms) == (3, 7)
        assert job.problem.name == "contextual"
        assert job.plan.schedule.rounds == 2000
    assert panel.jobs[-1].plan.budget is not None
    assert panel.jobs[-1].plan.budget.delta == 1e-4


def test_the_trust_models_play_the_same_batches_and_say_whom_they_trust() -> None:
    (panel,) = trust(SMALL).panels
    assert isinstance(panel, DotPanel)
    rows = {row.name: row for row in panel.rows}
    shuffled = rows["shuffle"].job.plan
    for name in ("central", "local"):
        assert rows[name].job.plan.schedule == shuffled.schedule
    trusts = [rows[name].job.plan.mechanism.trust for name in ("central", "shuffle", "local")]
    assert trusts == ["joint", "shuffle", "local"]
    assert all(row.remark for row in panel.rows)


def test_horizons_go_up_to_the_arenas() -> None:
    (panel,) = horizon(replace(LONG, horizon=20000)).panels
    assert isinstance(panel, PointPanel)
    for line in panel.series:
        assert line.at == (200, 600, 2000, 6000, 20000)
        assert line.at == tuple(job.plan.schedule.rounds for job in line.jobs)


def test_the_papers_line_plays_algorithm_1_with_the_corollarys_batches() -> None:
    (panel,) = horizon(replace(LONG, horizon=20000)).panels
    assert isinstance(panel, PointPanel)
    plan = panel.series[0].jobs[-1].plan
    assert plan.policy.name == "ucb"
    size = 5 ** (-1 / 5) * 20000 ** (3 / 5) * math.log(5**2 / 1e-6) ** (2 / 5)
    assert plan.schedule == FixedBatches(round(size), 20000)


def test_a_tree_samples_in_fixed_batches_that_balance_delay_and_noise() -> None:
    (panel,) = horizon(replace(LONG, horizon=20000)).panels
    assert isinstance(panel, PointPanel)
    plan = panel.series[2].jobs[-1].plan
    assert (plan.protocol, plan.terms.levels, plan.policy.name) == (
        "concurrent-tree",
        3,
        "sampling",
    )
    assert plan.schedule == FixedBatches(round(20000 ** (7 / 13)), 20000)


def test_the_rates_beside_the_slopes_are_those_of_theory() -> None:
    (panel,) = horizon(replace(LONG, horizon=20000)).panels
    assert isinstance(panel, PointPanel)
    assert [rate.power for rate in panel.rates] == pytest.approx([3 / 5, 7 / 13, 1 / 2])


def test_horizons_too_short_for_a_tree_are_refused() -> None:
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 10000"):
        horizon(replace(LONG, horizon=9999))
