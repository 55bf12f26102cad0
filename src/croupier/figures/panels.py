"""Draws one panel: a function per kind."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from croupier.figures.data import CurvePanel, DotPanel, Panel, PointPanel, Series
from croupier.figures.fitted_slopes import fitted_slope
from croupier.figures.style import LineStyle, legend_label, line_styles, series_label
from croupier.simulation.jobs import SweepJob
from croupier.simulation.outcomes import SweepOutcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Outcomes = Mapping[SweepJob, SweepOutcome]
Floats = NDArray[np.float64]

WIDTH, LONE_WIDTH, HEIGHT = 3.4, 5.2, 3.0
"""Inches; a lone panel has titles and names to carry."""

LEGEND_LINE, DOT_LINE, REMARK_LINE, HEAD = 0.19, 0.28, 0.16, 0.9
TITLE = 48
"""Characters that fit above the axes."""

ROOM_BELOW = 3
"""A logarithmic axis starts by this factor below the least regret in the end."""


def height(panel: Panel) -> float:
    """Inches that a panel and its legend take."""
    if isinstance(panel, DotPanel):
        return HEAD + DOT_LINE * len(panel.rows) + REMARK_LINE * _remarks(panel)
    return HEIGHT + LEGEND_LINE * _legend_lines(panel)


def _remarks(panel: DotPanel) -> int:
    return sum(1 + row.remark.count("\n") for row in panel.rows if row.remark)


def _legend_lines(panel: CurvePanel | PointPanel) -> int:
    if isinstance(panel, CurvePanel):
        return len(panel.jobs)
    return len(panel.series) + len(panel.levels) + len(panel.rates)


def draw_panel(axis: Axes, panel: Panel, outcomes: Outcomes) -> None:
    """Title, grid and what its kind shows."""
    axis.set_title(fill(panel.title, TITLE))
    axis.grid(alpha=0.3, linewidth=0.5)
    match panel:
        case CurvePanel():
            _curves(axis, panel, outcomes)
        case PointPanel():
            _points(axis, panel, outcomes)
        case DotPanel():
            _dots(axis, panel, outcomes)


def _curves(axis: Axes, panel: CurvePanel, outcomes: Outcomes) -> None:
    for position, (job, style) in enumerate(zip(panel.jobs, line_styles(panel.jobs), strict=True)):
        _curve(axis, outcomes[job], style, position)
    axis.set_xlabel("round")
    axis.set_ylabel("cumulative regret (mean, 95 % band)")
    axis.set_xlim(left=0)
    _scale(axis, min(outcomes[job].mean[-1] for job in panel.jobs) if panel.log else 0.0)
    _legend(axis)


def _curve(axis: Axes, outcome: SweepOutcome, style: LineStyle, position: int) -> None:
    step = max(1, outcome.rounds.size // 6)
    axis.plot(
        outcome.rounds,
        outcome.mean,
        color=style.colour,
        marker=style.marker,
        markevery=(step // 2 + position * step // 8, step),
        markersize=4,
        linewidth=1.2,
        linestyle="--" if outcome.job.refused else "-",
        label=legend_label(outcome.job),
    )
    _band(axis, outcome.rounds.astype(np.float64), outcome.mean, outcome.half_width, style)


def _band(axis: Axes, at: Floats, mean: Floats, half: Floats, style: LineStyle) -> None:
    spread = np.nan_to_num(half)
    axis.fill_between(at, mean - spread, mean + spread, color=style.colour, alpha=0.2, lw=0)


def _points(axis: Axes, panel: PointPanel, outcomes: Outcomes) -> None:
    firsts = [line.jobs[0] for line in panel.series]
    styles = line_styles([*firsts, *panel.levels])
    for line, style in zip(panel.series, styles, strict=False):
        _line(axis, line, outcomes, style, fit=bool(panel.rates))
    positions = [position for line in panel.series for position in line.at]
    for job, style in zip(panel.levels, styles[len(firsts) :], strict=True):
        _level(axis, outcomes[job], (min(positions), max(positions)), style)
    axis.set_xscale("log")
    axis.set_xlabel(panel.axis)
    axis.set_ylabel("regret at T (mean, 95 % band)")
    _rates(axis, panel, outcomes)
    _scale(axis, min(outcomes[job].mean[-1] for job in panel.jobs) if panel.log else 0.0)
    _legend(axis)


def _line(axis: Axes, line: Series, outcomes: Outcomes, style: LineStyle, fit: bool) -> None:
    """Last regrets of a series with their band."""
    mean = np.array([outcomes[job].mean[-1] for job in line.jobs])
    half = np.array([outcomes[job].half_width[-1] for job in line.jobs])
    slope = f", slope {fitted_slope(line, outcomes)}" if fit else ""
    axis.plot(
        line.at,
        mean,
        color=style.colour,
        marker=style.marker,
        markersize=4,
        linewidth=1.2,
        linestyle="--" if any(job.refused for job in line.jobs) else "-",
        label=series_label(line) + slope,
    )
    _band(axis, np.array(line.at), mean, half, style)


def _level(axis: Axes, outcome: SweepOutcome, ends: tuple[float, float], style: LineStyle) -> None:
    """A horizontal line: the x axis does not concern the job."""
    axis.plot(
        np.geomspace(*ends, 5),
        np.full(5, outcome.mean[-1]),
        color=style.colour,
        marker=style.marker,
        markersize=3,
        linewidth=1,
        linestyle="--" if outcome.job.refused else "-",
        label=legend_label(outcome.job),
    )


def _rates(axis: Axes, panel: PointPanel, outcomes: Outcomes) -> None:
    """The powers of theory as dotted lines from where the highest series starts."""
    starts = [(outcomes[line.jobs[0]].mean[-1], line.at) for line in panel.series]
    start, positions = max(starts)
    for rate, style in zip(panel.rates, (":", (0, (1, 3)), (0, (1, 5))), strict=False):
        grown = 2 * start * (np.array(positions) / positions[0]) ** rate.power
        axis.plot(
            positions, grown, linestyle=style, color="#000000", linewidth=1,
            label=f"theory, {rate.label}: slope {rate.power:.3f}",
        )  # fmt: skip


def _dots(axis: Axes, panel: DotPanel, outcomes: Outcomes) -> None:
    for place, row in enumerate(panel.rows):
        _dot(axis, place, outcomes[row.job])
    axis.set_yticks(range(len(panel.rows)), panel.names)
    axis.set_ylim(len(panel.rows) - 0.5, -0.8)
    axis.set_xscale("log")
    axis.margins(x=0.18)
    axis.set_xlabel("regret at T (mean, 95 % interval)")


def _dot(axis: Axes, place: int, outcome: SweepOutcome) -> None:
    """A mean with its interval, and the number above it."""
    (style,) = line_styles([outcome.job])
    mean, half = outcome.mean[-1], np.nan_to_num(outcome.half_width[-1])
    axis.errorbar(
        mean,
        place,
        xerr=half,
        color=style.colour,
        marker=style.marker,
        markersize=5,
        elinewidth=1.2,
        markerfacecolor="none" if outcome.job.refused else style.colour,
    )
    axis.annotate(
        f"{mean:,.0f}", (mean, place), (0, 5), textcoords="offset points", ha="center", fontsize=7
    )


def _scale(axis: Axes, least: float) -> None:
    """Linear from 0, or logarithmic from a little below a regret that is ``least`` in the end."""
    if least:
        axis.set_yscale("log")
    axis.set_ylim(bottom=least / ROOM_BELOW)


def _legend(axis: Axes) -> None:
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, handlelength=2.6)
