"""The figures as data: which algorithms, on which problem, in which panel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from croupier.errors import UnknownNameError
from croupier.simulation.compare import (
    AMPLIFIED,
    CENTRAL,
    FIGURE_ENTRIES,
    LINUCB,
    LOCAL,
    VECTOR,
    Arena,
    enter,
    line_up,
)
from croupier.simulation.sweep import Job


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    ``curves`` are drawn against rounds. ``points`` are drawn by their last regret, against the
    batch size, and ``curves`` then as level lines.
    """

    title: str
    curves: tuple[Job, ...]
    points: tuple[Job, ...] = ()


@dataclass(frozen=True)
class Figure:
    """A named row of panels."""

    name: str
    title: str
    panels: tuple[Panel, ...]

    @property
    def jobs(self) -> list[Job]:
        """Every job once, panel by panel."""
        every = (job for panel in self.panels for job in (*panel.curves, *panel.points))
        return list(dict.fromkeys(every))


PAPER = Arena(
    dim=5, horizon=20000, batch_size=20, epsilon=1.0, delta=0.1, calibration="certified", arms=100
)

EPSILON = "\N{GREEK SMALL LETTER EPSILON}"
DELTA = "\N{GREEK SMALL LETTER DELTA}"

BATCH_SIZES = (5, 10, 20, 50, 100, 150, 200, 250, 300, 380, 500, 700, 1200, 2000)
PARTICIPATIONS = (1, 10, 100)


def fig1(arena: Arena) -> Figure:
    """Regret at three privacy levels (figure ``fig:all_algos``)."""
    panels = tuple(
        Panel(f"{EPSILON} = {epsilon:g}", _five(replace(arena, epsilon=epsilon)))
        for epsilon in (0.2, 1.0, 10.0)
    )
    return Figure("fig1", f"Three privacy levels, d = {arena.dim}, {_constants(arena)}", panels)


def fig2(arena: Arena) -> Figure:
    """Regret in higher dimensions (figure ``fig:all_algos_extra``)."""
    panels = tuple(Panel(f"d = {dim}", _five(replace(arena, dim=dim))) for dim in (10, 15))
    return Figure("fig2", f"Higher dimensions, {_epsilon(arena)}, {_constants(arena)}", panels)


def batch_size(arena: Arena) -> Figure:
    """Regret of the shuffle protocols against the batch size; the others as level lines."""
    sizes = sorted({min(size, arena.horizon) for size in BATCH_SIZES})
    points = tuple(
        enter(entry, replace(arena, batch_size=size))
        for entry in (VECTOR, AMPLIFIED)
        for size in sizes
    )
    levels = tuple(line_up((LINUCB, CENTRAL, LOCAL), arena))
    panel = Panel(f"d = {arena.dim}, {_epsilon(arena)}, {_constants(arena)}", levels, points)
    return Figure("batch-size", "Batch size", (panel,))


def returning(arena: Arena) -> Figure:
    """Users who come back: regret when one user may be in 1, 10 or 100 batches."""
    base = replace(arena, problem="returning", batch_size=max(1, arena.horizon // 100), arms=20)
    panels = tuple(
        Panel(f"reports per user: {times}", _five(replace(base, max_participations=times)))
        for times in PARTICIPATIONS
    )
    setting = f"d = {arena.dim}, {_epsilon(arena)}, B = {base.batch_size}, {_constants(arena)}"
    return Figure("returning", f"Users who come back, {setting}", panels)


FIGURES: dict[str, Callable[[Arena], Figure]] = {
    "fig1": fig1,
    "fig2": fig2,
    "batch-size": batch_size,
    "returning": returning,
}


def find(name: str) -> Callable[[Arena], Figure]:
    """The figure called ``name``."""
    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    return FIGURES[name]


def _five(arena: Arena) -> tuple[Job, ...]:
    return tuple(line_up(FIGURE_ENTRIES, arena))


def _epsilon(arena: Arena) -> str:
    return f"{EPSILON} = {arena.epsilon:g}"


def _constants(arena: Arena) -> str:
    return f"{DELTA} = {arena.delta:g}, {arena.calibration} constants"
