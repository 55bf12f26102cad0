"""How lines look and what legends call them: readable in greyscale and at column width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from croupier.figures.data import EPSILON, Series
from croupier.simulation.engine import fitting_plan
from croupier.simulation.jobs import SweepJob

FONT = {"font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7, "svg.hashsalt": "croupier"}


@dataclass(frozen=True)
class LineStyle:
    """Colour of its own lightness, and a marker, so that grey prints tell lines apart."""

    colour: str
    marker: str


LINE_STYLES = {
    "linucb": LineStyle("#000000", "o"),
    "central": LineStyle("#1f3a93", "s"),
    "concurrent-tree": LineStyle("#1f6f54", "P"),
    "vector-sum": LineStyle("#d1495b", "^"),
    "noiseless": LineStyle("#8a8a8a", "d"),
    "amplified-gaussian": LineStyle("#e39b3b", "D"),
    "local": LineStyle("#b4bec6", "v"),
}
STRANGERS = ("#7b4fa3", "#5aa9c9", "#6b4f2a")
TWINS = ("x", "+", "1", "2")


def line_styles(jobs: Iterable[SweepJob]) -> list[LineStyle]:
    """A protocol keeps its look; its twins in the same panel get another marker each."""
    found: list[LineStyle] = []
    seen: list[str] = []
    for job in jobs:
        earlier = seen.count(job.plan.protocol)
        seen.append(job.plan.protocol)
        base = LINE_STYLES.get(job.plan.protocol) or _stranger(list(dict.fromkeys(seen)))
        marker = TWINS[(earlier - 1) % len(TWINS)] if earlier else base.marker
        found.append(LineStyle(base.colour, marker))
    return found


def _stranger(protocols: list[str]) -> LineStyle:
    """The look of a third-party protocol, by its turn among those of the panel."""
    turn = sum(name not in LINE_STYLES for name in protocols) - 1
    return LineStyle(STRANGERS[turn % len(STRANGERS)], "*")


@lru_cache(maxsize=1024)  # pictures, tables and files all name it
def proved_epsilon(job: SweepJob) -> float | None:
    """What is proved at the job's delta, for the features of its problem; None if no budget."""
    plan = fitting_plan(job.plan, job.problem)
    return None if plan.budget is None else plan.promise.epsilon(plan.budget.delta)


def privacy_label(job: SweepJob) -> str:
    """Nominal and proved epsilon side by side."""
    return series_privacy((job,))


def series_privacy(jobs: Sequence[SweepJob]) -> str:
    """The same for jobs that share a nominal epsilon; nothing to say if they do not."""
    if len({job.epsilon for job in jobs}) > 1:
        return ""
    proved = [value for value in map(proved_epsilon, jobs) if value is not None]
    if not proved:
        return "no noise"
    ends = dict.fromkeys(f"{end:.3g}" for end in (min(proved), max(proved)))
    worth = f"proved {' to '.join(ends)}" if math.isfinite(max(proved)) else "no guarantee"
    return f"{EPSILON} {jobs[0].epsilon:g}, {worth}"


def legend_label(job: SweepJob) -> str:
    """Algorithm, privacy, and whether its theorem covers it."""
    return f"{job.label}: {privacy_label(job)}{_outside((job,))}"


def series_label(series: Series) -> str:
    """The same for a line of jobs."""
    words = [series.label, series_privacy(series.jobs)]
    return ": ".join(filter(None, words)) + _outside(series.jobs)


def _outside(jobs: Iterable[SweepJob]) -> str:
    return " (outside the theorem)" if any(job.refused for job in jobs) else ""
