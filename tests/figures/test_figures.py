from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from croupier.figures import paper
from croupier.figures.data import CurvePanel, Figure, PointPanel, Series
from croupier.figures.style import (
    LINE_STYLES,
    legend_label,
    line_styles,
    privacy_label,
    series_label,
)
from croupier.simulation.compare import (
    AMPLIFIED,
    BATCHED_CENTRAL,
    CENTRAL,
    LINUCB,
    LOCAL,
    VECTOR,
    Arena,
    enter,
)

ALGORITHM_1 = replace(paper.PAPER, policy="ucb", batches="fixed")
SMALL = replace(paper.PAPER, horizon=400, arms=10)


def curves(figure: Figure) -> list[CurvePanel]:
    found = [panel for panel in figure.panels if isinstance(panel, CurvePanel)]
    assert len(found) == len(figure.panels)
    return found


def test_figure_1_has_the_papers_panels_and_setting() -> None:
    panels = curves(paper.fig1(ALGORITHM_1))
    assert [panel.jobs[1].epsilon for panel in panels] == [0.2, 1.0, 10.0]
    assert all(len(panel.jobs) == 5 and not panel.log for panel in panels)
    plan = panels[0].jobs[2].plan
    assert (plan.layout.dim, plan.schedule.rounds, plan.schedule.sizes()) == (5, 20000, (20,))
    assert plan.policy.name == "ucb"
    assert plan.budget is not None
    assert plan.budget.delta == 0.1


@pytest.mark.parametrize("calibration", ["theorem", "released"])
def test_the_papers_constants_play_the_papers_algorithm(calibration: str) -> None:
    (panel, *_) = curves(paper.fig1(replace(paper.PAPER, calibration=calibration)))
    assert {job.plan.policy.name for job in panel.jobs} == {"ucb"}
    assert {job.plan.schedule.name for job in panel.jobs} == {"fixed"}
    assert panel.jobs[2].label == "LinUCB-SDP-Vec"


def test_by_default_the_shuffle_model_samples_in_growing_batches_and_the_central_one_too() -> None:
    (panel, *_) = curves(paper.fig1(paper.PAPER))
    by_label = {job.label: job.plan for job in panel.jobs}
    assert {plan.policy.name for plan in by_label.values()} == {"sampling"}
    shuffled, central = by_label["shuffle (vector-sum)"], by_label["central, batched (fresh noise)"]
    assert shuffled.schedule.name == "growing"
    assert central.schedule == shuffled.schedule
    assert panel.log


def test_figure_2_has_dimensions_10_and_15() -> None:
    panels = paper.fig2(paper.PAPER).panels
    assert [panel.jobs[0].plan.layout.dim for panel in panels] == [10, 15]


def test_the_non_private_line_is_computed_once_for_three_panels() -> None:
    assert len(paper.fig1(ALGORITHM_1).jobs) == 13


def test_batch_sizes_are_swept_for_both_shuffle_protocols_and_stay_fixed() -> None:
    (panel,) = paper.batch_size(paper.PAPER).panels
    assert isinstance(panel, PointPanel)
    jobs = [job for line in panel.series for job in line.jobs]
    assert {job.plan.protocol for job in jobs} == {"vector-sum", "amplified-gaussian"}
    assert {job.plan.schedule.name for job in jobs} == {"fixed"}
    for line in panel.series:
        assert line.at == tuple(job.plan.schedule.first for job in line.jobs)
        assert {20, 380} <= set(line.at)


def test_returning_users_come_as_often_as_the_panel_says() -> None:
    for panel, times in zip(paper.returning(SMALL).panels, paper.PARTICIPATIONS, strict=True):
        assert {job.plan.terms.max_participations for job in panel.jobs} == {times}
        assert {job.plan.schedule.name for job in panel.jobs} == {"fixed"}


def test_the_legend_shows_nominal_and_proved_epsilon() -> None:
    arena = replace(paper.PAPER, calibration="released")
    assert privacy_label(enter(LINUCB, arena)) == "no noise"
    assert privacy_label(enter(LOCAL, arena)) == "ε 1, proved 1.56"
    assert privacy_label(enter(AMPLIFIED, arena)) == "ε 1, proved 11.3"
    assert privacy_label(enter(VECTOR, replace(arena, epsilon=10.0))) == "ε 10, no guarantee"


def line(*arenas: Arena) -> Series:
    return Series("some", tuple(enter(LOCAL, arena) for arena in arenas), (1.0, 2.0))


def test_a_line_of_one_nominal_epsilon_shows_the_range_that_is_proved() -> None:
    other = replace(paper.PAPER, calibration="released")
    assert series_label(line(other, paper.PAPER)) == "some: ε 1, proved 1 to 1.56"
    assert series_label(line(paper.PAPER, paper.PAPER)) == "some: ε 1, proved 1"


def test_a_line_along_epsilon_names_none() -> None:
    assert series_label(line(paper.PAPER, replace(paper.PAPER, epsilon=2.0))) == "some"


def test_certified_algorithms_are_proved_at_the_epsilon_they_were_asked_for() -> None:
    for entry in (CENTRAL, VECTOR, AMPLIFIED, LOCAL):
        job = enter(entry, paper.PAPER)
        assert job.plan.met
        assert 0.95 < job.plan.promise.epsilon(0.1) <= 1.0


def test_on_longer_features_the_proved_epsilon_is_that_of_their_norm() -> None:
    arena = replace(paper.PAPER, calibration="released")
    short = privacy_label(enter(CENTRAL, replace(arena, problem="sphere")))
    long = privacy_label(enter(CENTRAL, replace(arena, problem="released")))
    assert (short, long) == ("ε 1, proved 0.79", "ε 1, proved 1.96")


def test_a_refused_algorithm_is_labelled_outside_the_theorem() -> None:
    job = enter(AMPLIFIED, replace(paper.PAPER, calibration="theorem"))
    assert legend_label(job).endswith("(outside the theorem)")


def test_lines_differ_in_lightness_and_marker() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[start : start + 2], 16) for start in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    values = sorted(lightness(look.colour) for look in LINE_STYLES.values())
    assert min(b - a for a, b in pairwise(values)) > 20
    assert len({look.marker for look in LINE_STYLES.values()}) == len(LINE_STYLES)


def test_twins_share_a_colour_and_differ_in_marker() -> None:
    sequential, batched, shuffled = line_styles(
        enter(entry, SMALL) for entry in (CENTRAL, BATCHED_CENTRAL, VECTOR)
    )
    assert sequential.colour == batched.colour != shuffled.colour
    assert len({look.marker for look in (sequential, batched, shuffled)}) == 3


@pytest.mark.parametrize("calibration", ["certified", "theorem", "released"])
@pytest.mark.parametrize("make", [paper.fig1, paper.fig2])
def test_linucb_jdp_is_the_tree_whatever_the_constants(
    make: Callable[[Arena], Figure], calibration: str
) -> None:
    arena = replace(paper.PAPER, calibration=calibration, policy="ucb", batches="fixed")
    jobs = [job for job in make(arena).jobs if job.plan.protocol == "central"]
    assert {job.label for job in jobs} == {"LinUCB-JDP"}
    assert {job.plan.release(0).parameters["strategy"] for job in jobs} == {"tree"}


def test_strategies_of_the_central_model_are_drawn_by_their_own_names() -> None:
    ours = paper.fig1(replace(paper.PAPER, horizon=500))
    labels = {
        job.label: job.plan.release(0).parameters["strategy"]
        for job in ours.jobs
        if job.plan.protocol == "central"
    }
    assert labels == {
        "central, sequential (tree)": "tree",
        "central, batched (fresh noise)": "fresh",
    }
    named = enter(BATCHED_CENTRAL, replace(SMALL, calibration="certified", policy="ucb"))
    assert named.label == "Batched-Central-LinUCB (Toeplitz)"
    assert enter(BATCHED_CENTRAL, replace(SMALL, calibration="theorem")).label == (
        "Batched-Central-LinUCB"
    )
