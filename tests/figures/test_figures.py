from __future__ import annotations

import csv
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.image import imread

from croupier.errors import UnknownNameError
from croupier.figures import paper
from croupier.figures.draw import LOOKS, draw, legend_label, privacy_label
from croupier.simulation.compare import AMPLIFIED, CENTRAL, LINUCB, LOCAL, VECTOR, enter
from croupier.simulation.sweep import sweep

SMALL = replace(paper.PAPER, horizon=400, arms=10)


def test_figure_1_has_the_papers_panels_and_setting() -> None:
    figure = paper.fig1(paper.PAPER)
    assert [panel.curves[1].epsilon for panel in figure.panels] == [0.2, 1.0, 10.0]
    assert all(len(panel.curves) == 5 for panel in figure.panels)
    plan = figure.panels[0].curves[2].plan
    assert (plan.layout.dim, plan.schedule.rounds, plan.schedule.first) == (5, 20000, 20)
    assert plan.budget is not None
    assert plan.budget.delta == 0.1


def test_figure_2_has_dimensions_10_and_15() -> None:
    panels = paper.fig2(paper.PAPER).panels
    assert [panel.curves[0].plan.layout.dim for panel in panels] == [10, 15]


def test_the_non_private_line_is_computed_once_for_three_panels() -> None:
    assert len(paper.fig1(paper.PAPER).jobs) == 13


def test_batch_sizes_are_swept_for_both_shuffle_protocols() -> None:
    points = paper.batch_size(paper.PAPER).panels[0].points
    assert {job.plan.protocol for job in points} == {"vector-sum", "amplified-gaussian"}
    assert {20, 380} <= {job.plan.schedule.first for job in points}


def test_returning_users_come_as_often_as_the_panel_says() -> None:
    for panel, times in zip(paper.returning(SMALL).panels, paper.PARTICIPATIONS, strict=True):
        assert {job.plan.terms.max_participations for job in panel.curves} == {times}


@pytest.mark.parametrize("name", sorted(paper.FIGURES))
def test_every_figure_is_drawn_with_its_numbers(name: str, tmp_path: Path) -> None:
    figure = paper.find(name)(SMALL)
    outcomes = dict(zip(figure.jobs, sweep(figure.jobs, trials=2, points=10), strict=True))
    png, svg, table = draw(figure, outcomes, tmp_path)
    assert imread(png).std() > 0.05  # something was drawn
    assert "<svg" in svg.read_text()
    rows = list(csv.DictReader(table.read_text().splitlines()))
    lines = sum(len(panel.curves) + len(panel.points) for panel in figure.panels)
    assert len(rows) == 10 * lines
    job = figure.panels[0].curves[0]
    assert float(rows[9]["mean"]) == outcomes[job].mean[-1]


def test_unknown_figures_are_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="fig9"):
        paper.find("fig9")


def test_the_legend_shows_nominal_and_proved_epsilon() -> None:
    arena = replace(paper.PAPER, calibration="released")
    assert privacy_label(enter(LINUCB, arena)) == "not private"
    assert privacy_label(enter(LOCAL, arena)) == "ε 1, proved 1.56"
    assert privacy_label(enter(AMPLIFIED, arena)) == "ε 1, proved 11.3"
    assert privacy_label(enter(VECTOR, replace(arena, epsilon=10.0))) == "ε 10, no guarantee"


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

    values = sorted(lightness(look.colour) for look in LOOKS.values())
    assert min(b - a for a, b in pairwise(values)) > 20
    assert len({look.marker for look in LOOKS.values()}) == len(LOOKS)
