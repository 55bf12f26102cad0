"""Writes figures: PNG, SVG, and the numbers behind them as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from croupier.errors import MissingExtraError
from croupier.figures.data import DotPanel, Figure, Panel, PointPanel
from croupier.figures.fitted_slopes import FittedSlope, fitted_slope
from croupier.figures.panels import LONE_WIDTH, WIDTH, Outcomes, draw_panel, height
from croupier.figures.style import FONT, privacy_label
from croupier.simulation.jobs import SweepJob
from croupier.simulation.results import write_whole

HEADER = (
    "panel", "algorithm", "batch_size", "privacy", "outside", "slope", "round", "mean",
    "standard_error",
)  # fmt: skip


def draw(figure: Figure, outcomes: Outcomes, directory: str | Path) -> list[Path]:
    """Write ``name.png``, ``name.svg`` and the numbers behind them as ``name.csv``."""
    plt = pyplot()
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(FONT):
        canvas = _canvas(figure, outcomes)
        written = [folder / f"{figure.name}.{kind}" for kind in ("png", "svg")]
        canvas.savefig(written[0], dpi=200, metadata={"Software": None})
        canvas.set_layout_engine("none")  # it has arranged the panels
        canvas.savefig(written[1], metadata={"Date": None})
        plt.close(canvas)
    table = folder / f"{figure.name}.csv"
    write_whole(table, numbers(figure, outcomes))
    return [*written, table]


def _canvas(figure: Figure, outcomes: Outcomes) -> Any:
    count = len(figure.panels)
    size = max(LONE_WIDTH, WIDTH * count), max(height(panel) for panel in figure.panels)
    canvas, axes = pyplot().subplots(1, count, figsize=size, squeeze=False, layout="constrained")
    for axis, panel in zip(axes[0], figure.panels, strict=True):
        draw_panel(axis, panel, outcomes)
    for axis, panel in zip(axes[0][1:], figure.panels[1:], strict=True):
        axis.set_ylabel("")
        if _same_rows(panel, figure.panels[0]):
            axis.set_yticklabels([])
    canvas.suptitle(figure.title, fontsize=9)
    return canvas


def _same_rows(panel: Panel, first: Panel) -> bool:
    return (
        isinstance(panel, DotPanel) and isinstance(first, DotPanel) and panel.names == first.names
    )


def slopes(panel: Panel, outcomes: Outcomes) -> dict[str, FittedSlope]:
    """The measured powers of a panel that shows them, by the name of the series."""
    if not (isinstance(panel, PointPanel) and panel.rates):
        return {}
    return {line.label: fitted_slope(line, outcomes) for line in panel.series}


def numbers(figure: Figure, outcomes: Outcomes) -> str:
    """The curves of all jobs as CSV, panel by panel."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    for panel in figure.panels:
        powers = slopes(panel, outcomes)
        for job in panel.jobs:
            slope = powers[job.label].power if job.label in powers else ""
            lead = (panel.title, *_about(job), slope)
            writer.writerows((*lead, *point) for point in _curve(outcomes, job))
    return text.getvalue()


def _about(job: SweepJob) -> tuple[str, int, str, bool]:
    return job.label, job.plan.schedule.first, privacy_label(job), bool(job.refused)


def _curve(outcomes: Outcomes, job: SweepJob) -> list[tuple[float, ...]]:
    """Round, mean and standard error."""
    outcome = outcomes[job]
    columns = (outcome.rounds, outcome.mean, outcome.standard_error)
    return [tuple(map(float, point)) for point in zip(*columns, strict=True)]


def pyplot() -> Any:
    """Matplotlib without a screen, or a word on how to get it."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError("matplotlib", "cli") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    return plt
