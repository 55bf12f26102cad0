"""Figures as data: panels of jobs, three kinds of them, and what their axes are called."""

from __future__ import annotations

from dataclasses import dataclass

from croupier.schedules import FixedBatches
from croupier.simulation.compare import Arena
from croupier.simulation.jobs import SweepJob

EPSILON = "\N{GREEK SMALL LETTER EPSILON}"
DELTA = "\N{GREEK SMALL LETTER DELTA}"


@dataclass(frozen=True)
class CurvePanel:
    """Cumulative regret against rounds, a line per job; ``log`` scales the regret."""

    title: str
    jobs: tuple[SweepJob, ...]
    log: bool = False


@dataclass(frozen=True)
class Series:
    """One line of last regrets: ``jobs`` at the positions ``at`` on the x axis."""

    label: str
    jobs: tuple[SweepJob, ...]
    at: tuple[float, ...]


@dataclass(frozen=True)
class Rate:
    """A power of the x axis that theory names."""

    label: str
    power: float


@dataclass(frozen=True)
class PointPanel:
    """Last regret against what ``axis`` says, a line per series and a level line per ``levels``.

    With ``rates`` the powers by which regret really grows are fitted and shown beside them.
    """

    title: str
    axis: str
    series: tuple[Series, ...]
    levels: tuple[SweepJob, ...] = ()
    rates: tuple[Rate, ...] = ()
    log: bool = False

    @property
    def jobs(self) -> tuple[SweepJob, ...]:
        """Level lines first, then line by line."""
        return (*self.levels, *(job for line in self.series for job in line.jobs))


@dataclass(frozen=True)
class Row:
    """A job under a name, with a remark below it."""

    name: str
    job: SweepJob
    remark: str = ""


@dataclass(frozen=True)
class DotPanel:
    """Last regret along a logarithmic axis, a dot per row."""

    title: str
    rows: tuple[Row, ...]

    @property
    def jobs(self) -> tuple[SweepJob, ...]:
        """From top to bottom."""
        return tuple(row.job for row in self.rows)

    @property
    def names(self) -> list[str]:
        """What stands beside the rows."""
        return [f"{row.name}\n{row.remark}" if row.remark else row.name for row in self.rows]


Panel = CurvePanel | PointPanel | DotPanel


@dataclass(frozen=True)
class Figure:
    """A named row of panels."""

    name: str
    title: str
    panels: tuple[Panel, ...]

    @property
    def jobs(self) -> list[SweepJob]:
        """Every job once, panel by panel."""
        return list(dict.fromkeys(job for panel in self.panels for job in panel.jobs))


def epsilon_words(arena: Arena) -> str:
    """The privacy loss asked for."""
    return f"{EPSILON} = {arena.epsilon:g}"


def noise_words(arena: Arena) -> str:
    """Delta and the calibration."""
    return f"{DELTA} = {arena.delta:g}, {arena.calibration} constants"


def batches_words(arena: Arena) -> str:
    """The schedule, its size where that is given, and the policy."""
    joint = "of" if arena.batches_name == FixedBatches.name else "from"
    size = "" if arena.first_size is None else f" {joint} {arena.first_size}"
    return f"{arena.batches_name} batches{size}, policy {arena.policy_name}"


def arms_words(arena: Arena) -> str:
    """How many arms, and whose."""
    return f"{arena.arms} arms, problem {arena.problem}"
