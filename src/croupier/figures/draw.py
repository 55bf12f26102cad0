"""Draws figures: mean with a band, readable in greyscale and at column width."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from croupier.errors import MissingExtraError
from croupier.figures.paper import EPSILON, Figure, Panel
from croupier.simulation.engine import fitting_plan
from croupier.simulation.results import write_whole
from croupier.simulation.sweep import Job, Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Outcomes = Mapping[Job, Outcome]

PANEL_WIDTH = 3.4
PANEL_HEIGHT = 3.0
LEGEND_LINE = 0.19
BAND = 1.96
"""Standard errors on either side: a 95 % interval for the mean."""

FONT = {"font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7, "svg.hashsalt": "croupier"}


@dataclass(frozen=True)
class Look:
    """Colour of its own lightness, and a marker, so that grey prints tell lines apart."""

    colour: str
    marker: str


LOOKS = {
    "linucb": Look("#000000", "o"),
    "central": Look("#1f3a93", "s"),
    "vector-sum": Look("#d1495b", "^"),
    "amplified-gaussian": Look("#e39b3b", "D"),
    "local": Look("#b4bec6", "v"),
}
OTHERS = (Look("#2e7d5b", "P"), Look("#7b4fa3", "X"), Look("#5aa9c9", "*"))


def privacy_label(job: Job) -> str:
    """Nominal and proved epsilon side by side."""
    plan = fitting_plan(job.plan, job.problem)
    if plan.budget is None:
        return "not private"
    proved = plan.promise.epsilon(plan.budget.delta)
    worth = f"proved {proved:.3g}" if math.isfinite(proved) else "no guarantee"
    return f"{EPSILON} {plan.budget.epsilon:g}, {worth}"


def legend_label(job: Job) -> str:
    """Algorithm, privacy, and whether its theorem covers it."""
    outside = " (outside the theorem)" if job.refused else ""
    return f"{job.label}: {privacy_label(job)}{outside}"


def draw(figure: Figure, outcomes: Outcomes, directory: str | Path) -> list[Path]:
    """Write ``name.png``, ``name.svg`` and the numbers behind them as ``name.csv``."""
    plt = pyplot()
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(FONT):
        canvas = _canvas(figure, outcomes)
        written = [folder / f"{figure.name}.{kind}" for kind in ("png", "svg")]
        canvas.savefig(written[0], dpi=200, metadata={"Software": None})
        canvas.savefig(written[1], metadata={"Date": None})
        plt.close(canvas)
    table = folder / f"{figure.name}.csv"
    write_whole(table, numbers(figure, outcomes))
    return [*written, table]


def _canvas(figure: Figure, outcomes: Outcomes) -> Any:
    plt = pyplot()
    count = len(figure.panels)
    lines = max(len(_legend_jobs(panel)) for panel in figure.panels)
    height = PANEL_HEIGHT + LEGEND_LINE * lines
    canvas, axes = plt.subplots(
        1, count, figsize=(PANEL_WIDTH * count, height), squeeze=False, layout="constrained"
    )
    for axis, panel in zip(axes[0], figure.panels, strict=True):
        _panel(axis, panel, outcomes)
    what = "regret at T" if figure.panels[0].points else "cumulative regret"
    axes[0][0].set_ylabel(f"{what} (mean, 95 % band)")
    canvas.suptitle(figure.title, fontsize=9)
    return canvas


def _panel(axis: Axes, panel: Panel, outcomes: Outcomes) -> None:
    axis.set_title(panel.title)
    if panel.points:
        _batch_sizes(axis, panel, outcomes)
    else:
        for position, job in enumerate(panel.curves):
            _curve(axis, outcomes[job], position)
        axis.set_xlabel("round")
        axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3, linewidth=0.5)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, handlelength=2.6)


def _look(job: Job, position: int) -> Look:
    """A protocol keeps its look; batched twins and strangers get another marker."""
    known = LOOKS.get(job.plan.protocol)
    if known is None:
        return OTHERS[position % len(OTHERS)]
    return Look(known.colour, "x") if job.label.startswith("Batched") else known


def _curve(axis: Axes, outcome: Outcome, position: int) -> None:
    job, rounds, mean = outcome.job, outcome.rounds, outcome.mean
    look = _look(job, position)
    spread = BAND * np.nan_to_num(outcome.standard_error)
    step = max(1, rounds.size // 6)
    axis.plot(
        rounds,
        mean,
        color=look.colour,
        marker=look.marker,
        markevery=(step // 2 + position * step // 8, step),
        markersize=4,
        linewidth=1.2,
        linestyle="--" if job.refused else "-",
        label=legend_label(job),
    )
    axis.fill_between(rounds, mean - spread, mean + spread, color=look.colour, alpha=0.2, lw=0)


def _batch_sizes(axis: Axes, panel: Panel, outcomes: Outcomes) -> None:
    """Last regret against the batch size, with level lines for the sequential algorithms."""
    for position, group in enumerate(_by_protocol(panel.points)):
        look = _look(group[0], position)
        sizes = np.array([job.plan.schedule.first for job in group])
        mean = np.array([outcomes[job].mean[-1] for job in group])
        spread = BAND * np.nan_to_num([outcomes[job].standard_error[-1] for job in group])
        axis.plot(
            sizes,
            mean,
            color=look.colour,
            marker=look.marker,
            markersize=4,
            linewidth=1.2,
            linestyle="--" if any(job.refused for job in group) else "-",
            label=legend_label(group[0]),
        )
        axis.fill_between(sizes, mean - spread, mean + spread, color=look.colour, alpha=0.2, lw=0)
    every = [job.plan.schedule.first for job in panel.points]
    for position, job in enumerate(panel.curves):
        look = _look(job, position)
        level = outcomes[job].mean[-1]
        style = "--" if job.refused else "-"
        label = f"{legend_label(job)}, B = {job.plan.schedule.first}"
        marks = np.geomspace(min(every), max(every), 5)
        axis.plot(
            marks, np.full(5, level), style, color=look.colour, lw=1, label=label,
            marker=look.marker, markersize=3,
        )  # fmt: skip
    axis.set_xscale("log")
    axis.set_xlabel("batch size B")


def _by_protocol(jobs: Sequence[Job]) -> list[list[Job]]:
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(job.plan.protocol, []).append(job)
    return list(groups.values())


def _legend_jobs(panel: Panel) -> list[Job]:
    return [*panel.curves, *(group[0] for group in _by_protocol(panel.points))]


def numbers(figure: Figure, outcomes: Outcomes) -> str:
    """The curves as CSV: panel, algorithm, batch size, nominal epsilon, round, mean, error."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    header = ("panel", "algorithm", "batch_size", "privacy", "outside", "round", "mean")
    writer.writerow((*header, "standard_error"))
    for panel in figure.panels:
        for job in (*panel.curves, *panel.points):
            outcome = outcomes[job]
            fixed = (panel.title, job.label, job.plan.schedule.first, privacy_label(job))
            points = zip(outcome.rounds, outcome.mean, outcome.standard_error, strict=True)
            for point in points:
                writer.writerow((*fixed, bool(job.refused), *(float(value) for value in point)))
    return text.getvalue()


def pyplot() -> Any:
    """Matplotlib without a screen, or a word on how to get it."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt
