"""The paper's figures as data: which algorithms, on which problem, in which panel."""

from __future__ import annotations

from dataclasses import replace

from croupier.figures.data import (
    EPSILON,
    CurvePanel,
    Figure,
    PointPanel,
    Series,
    batches_words,
    epsilon_words,
    noise_words,
)
from croupier.policies.ucb import Ucb
from croupier.schedules import FixedBatches
from croupier.simulation.compare import (
    ALL_ENTRIES,
    AMPLIFIED,
    CENTRAL,
    FAIR_ENTRIES,
    FIGURE_ENTRIES,
    LINUCB,
    LOCAL,
    VECTOR,
    Arena,
    Entry,
    enter,
    line_up,
)
from croupier.simulation.jobs import SweepJob

PAPER = Arena(dim=5, horizon=20000, epsilon=1.0, delta=0.1, arms=100)
"""The paper's setting."""

BATCH_SIZES = (5, 10, 20, 50, 100, 150, 200, 250, 300, 380, 500, 700, 1200, 2000)
PARTICIPATIONS = (1, 10, 100)


def fig1(arena: Arena) -> Figure:
    """Regret at three privacy levels (figure ``fig:all_algos``)."""
    panels = tuple(
        _lines(f"{EPSILON} = {epsilon:g}", replace(arena, epsilon=epsilon))
        for epsilon in (0.2, 1.0, 10.0)
    )
    return Figure("fig1", f"Three privacy levels, d = {arena.dim}, {_setting(arena)}", panels)


def fig2(arena: Arena) -> Figure:
    """Regret in higher dimensions (figure ``fig:all_algos_extra``)."""
    panels = tuple(_lines(f"d = {dim}", replace(arena, dim=dim)) for dim in (10, 15))
    return Figure("fig2", f"Higher dimensions, {epsilon_words(arena)}, {_setting(arena)}", panels)


def batch_size(arena: Arena) -> Figure:
    """Regret of the shuffle protocols against the batch size; the others as level lines."""
    fixed = replace(arena, batches=FixedBatches.name)
    sizes = sorted({min(size, arena.horizon) for size in BATCH_SIZES})
    panel = PointPanel(
        f"d = {arena.dim}, {epsilon_words(arena)}, {noise_words(arena)}",
        "batch size B",
        tuple(_sized(entry, fixed, sizes) for entry in (VECTOR, AMPLIFIED)),
        tuple(_sequential(entry, fixed) for entry in (LINUCB, CENTRAL, LOCAL)),
    )
    return Figure("batch-size", f"Batch size, policy {arena.policy_name}", (panel,))


def returning(arena: Arena) -> Figure:
    """Users who come back: regret when one user may be in 1, 10 or 100 batches."""
    base = replace(
        arena,
        problem="returning",
        batches=FixedBatches.name,
        batch_size=max(1, arena.horizon // 100),
        arms=20,
    )
    panels = tuple(
        _lines(f"reports per user: {times}", replace(base, max_participations=times))
        for times in PARTICIPATIONS
    )
    setting = f"d = {arena.dim}, {epsilon_words(arena)}, {_setting(base)}"
    return Figure("returning", f"Users who come back, {setting}", panels)


def comparison(arena: Arena) -> Figure:
    """Every algorithm of the paper in one panel."""
    jobs = tuple(line_up(ALL_ENTRIES, arena))
    title = f"d = {arena.dim}, {arena.arms} arms, {noise_words(arena)}"
    heading = f"The paper's algorithms, {batches_words(arena)}"
    return Figure("compare", heading, (CurvePanel(title, jobs, log=_spread(arena)),))


def _lines(title: str, arena: Arena) -> CurvePanel:
    entries = FAIR_ENTRIES if _spread(arena) else FIGURE_ENTRIES
    return CurvePanel(title, tuple(line_up(entries, arena)), log=_spread(arena))


def _spread(arena: Arena) -> bool:
    """Whether the best and the worst are too far apart for a linear axis: not with the paper's."""
    return arena.policy_name != Ucb.name


def _sized(entry: Entry, arena: Arena, sizes: list[int]) -> Series:
    jobs = tuple(enter(entry, replace(arena, batch_size=size)) for size in sizes)
    return Series(entry.named(arena), jobs, tuple(sizes))


def _sequential(entry: Entry, arena: Arena) -> SweepJob:
    return enter(entry, arena, f"{entry.named(arena)}, B = 1")


def _setting(arena: Arena) -> str:
    return f"{noise_words(arena)}, {batches_words(arena)}"
