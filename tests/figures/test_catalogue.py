from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread

from croupier.errors import UnknownNameError
from croupier.figures import catalogue
from croupier.figures.data import DotPanel, Figure
from croupier.figures.draw import draw
from croupier.simulation.jobs import SweepJob
from croupier.simulation.outcomes import SweepOutcome
from croupier.simulation.sweep import sweep

LONGER = {"horizon": 10_000}
"""Horizons of figures that cannot do with little."""


def tiny_figure(name: str, **given: Any) -> Figure:
    return catalogue.figure(name, horizon=LONGER.get(name, 1000), **given)


def tiny(name: str) -> tuple[Figure, dict[SweepJob, SweepOutcome]]:
    figure = tiny_figure(name)
    return figure, dict(zip(figure.jobs, sweep(figure.jobs, trials=2, points=10), strict=True))


@pytest.mark.parametrize("name", sorted(catalogue.FIGURES))
def test_every_figure_is_drawn_with_its_numbers(name: str, tmp_path: Path) -> None:
    figure, outcomes = tiny(name)
    png, svg, table = draw(figure, outcomes, tmp_path)
    assert imread(png).std() > 0.05  # something was drawn
    assert "<svg" in svg.read_text()
    rows = list(csv.DictReader(table.read_text().splitlines()))
    lines = [(panel.title, job) for panel in figure.panels for job in panel.jobs]
    assert len(rows) == sum(outcomes[job].rounds.size for _, job in lines)
    title, job = lines[0]
    shown = [row for row in rows if (row["panel"], row["algorithm"]) == (title, job.label)]
    assert float(shown[9]["mean"]) == outcomes[job].mean[-1]


@pytest.mark.parametrize("name", sorted(catalogue.FIGURES))
def test_rows_of_one_figure_never_meet_under_one_file_name(name: str) -> None:
    figure = tiny_figure(name)
    names = {(job.label, job.plan.id) for job in figure.jobs}
    assert len(names) == len(figure.jobs)


@pytest.mark.parametrize("name", sorted(catalogue.FIGURES))
def test_a_figure_refuses_what_it_sets_itself(name: str) -> None:
    given: dict[str, Any] = {
        "calibration": "theorem", "batches": "fixed", "policy": "ucb", "batch_size": 7,
        "problem": "contextual", "arms": 7, "epsilon": 3.0, "dim": 3,
    }  # fmt: skip
    for field in catalogue.find(name).own:
        with pytest.raises(ValueError, match=f"{field} is set by figure {name} itself, got"):
            catalogue.figure(name, **{field: given[field]})


@pytest.mark.parametrize("name", sorted(catalogue.FIGURES))
def test_a_figure_takes_everything_else(name: str) -> None:
    given = {"dim": 4, "arms": 6, "epsilon": 2.0}
    own = catalogue.find(name).own
    jobs = tiny_figure(name, **{key: given[key] for key in given.keys() - own}).jobs
    assert max(job.plan.schedule.rounds for job in jobs) == LONGER.get(name, 1000)
    if "dim" not in own:
        assert {job.plan.layout.dim for job in jobs} == {4}
    if "arms" not in own:
        assert {job.problem.arms for job in jobs} == {6}
    if "epsilon" not in own:
        assert {job.epsilon for job in jobs} <= {2.0, None}


def test_the_authors_constants_are_drawn_on_the_authors_instances() -> None:
    figure = catalogue.figure("fig1", calibration="released", horizon=400)
    assert {job.problem.name for job in figure.jobs} == {"released"}
    other = catalogue.figure("fig1", calibration="released", problem="sphere", horizon=400)
    assert {job.problem.name for job in other.jobs} == {"sphere"}


def test_unknown_figures_are_refused_by_name() -> None:
    with pytest.raises(UnknownNameError, match="fig9"):
        catalogue.find("fig9")


def test_rows_are_named_once_where_panels_share_them(tmp_path: Path) -> None:
    figure, outcomes = tiny("ladder")
    first = figure.panels[0]
    assert isinstance(first, DotPanel)
    svg = draw(figure, outcomes, tmp_path)[1].read_text()
    for row in first.rows:
        assert svg.count(f"<!-- {row.name} -->") == 1
