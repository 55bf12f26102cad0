"""The commands ``simulate``, ``compare`` and ``figure``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from croupier.cli import options, screen
from croupier.figures import paper
from croupier.figures.draw import draw, privacy_label
from croupier.figures.paper import Figure, Panel
from croupier.plan import Plan
from croupier.simulation import compare as lineup
from croupier.simulation import problems, sweep
from croupier.simulation.sweep import Job, Outcome

Out = Annotated[Path | None, typer.Option(help="Directory for rows; a killed run goes on there.")]


def simulate(
    file: options.PlanFile,
    problem: options.Problem = "sphere",
    arms: options.Arms = 100,
    trials: options.Trials = 50,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Play a plan on simulated users and print its regret.

    Example: croupier simulate plan.json --problem sphere --trials 50 --out results/
    """
    plan = screen.read_plan(file)
    world = problems.find(problem).for_plan(plan, arms)
    _warn_about_norms(plan, world)
    with screen.progress_bar(plan.protocol) as progress:
        outcome = sweep.simulate(
            plan,
            world,
            trials=trials,
            seed=seed,
            workers=workers or sweep.available_workers(),
            out=out,
            progress=progress,
        )
    screen.emit(outcome.document(), outcome_table([outcome]), as_json)


def _warn_about_norms(plan: Plan, world: problems.Problem) -> None:
    if world.feature_norm > plan.layout.feature_norm:
        screen.warn(
            f"problem {world.name!r} has features of norm {world.feature_norm:.4g} and does not "
            "clip them; radius and guarantees are those for that norm"
        )


def compare(
    epsilon: options.Epsilon,
    delta: options.Delta,
    dim: options.Dim,
    horizon: options.Horizon,
    calibration: options.Calibration = "certified",
    arms: options.Arms = 100,
    batch_size: options.BatchSize = 20,
    problem: options.Problem = "sphere",
    policy: options.Policy = "ucb",
    max_participations: options.Participations = 1,
    trials: options.Trials = 10,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: Annotated[Path, typer.Option(help="Directory for the picture and rows.")] = Path(
        "figures"
    ),
    as_json: options.Json = False,
) -> None:
    """Every algorithm of the paper on the same users: a table and a picture.

    Example: croupier compare --epsilon 1 --delta 1e-5 --dim 5 --horizon 20000
    """
    arena = lineup.Arena(
        dim=dim,
        horizon=horizon,
        batch_size=batch_size,
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,
        arms=arms,
        problem=problem,
        policy=policy,
        max_participations=max_participations,
    )
    jobs = tuple(lineup.line_up(lineup.ALL_ENTRIES, arena))
    title = f"d = {dim}, {arms} arms, B = {batch_size}, {paper.DELTA} = {delta:g}"
    heading = f"The paper's algorithms, {calibration} constants"
    figure = Figure("compare", heading, (Panel(title, jobs),))
    _make(figure, out, as_json, trials=trials, seed=seed, workers=workers)


def figure(
    name: Annotated[str, typer.Argument(help="fig1, fig2, batch-size or returning.")],
    calibration: options.Calibration = "certified",
    policy: options.Policy = "ucb",
    problem: Annotated[
        str | None, typer.Option(help="`released` for the authors' constants, else `sphere`.")
    ] = None,
    horizon: options.Horizon = 20000,
    trials: options.Trials = 50,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    out: Annotated[Path, typer.Option(help="Directory for pictures and rows.")] = Path("figures"),
    as_json: options.Json = False,
) -> None:
    """Draw a figure of the paper, or one beside it, as PNG, SVG and CSV.

    Example: croupier figure fig1 --calibration certified --out figures/
    """
    chosen = problem or ("released" if calibration == "released" else "sphere")
    arena = replace(
        paper.PAPER, calibration=calibration, policy=policy, problem=chosen, horizon=horizon
    )
    made = paper.find(name)(arena)
    _make(made, out, as_json, trials=trials, seed=seed, workers=workers)


def _make(
    figure: Figure, out: Path, as_json: bool, *, trials: int, seed: int, workers: int | None
) -> None:
    """Run a figure's jobs, draw it and print its table."""
    for job in figure.jobs:
        if job.refused:
            screen.warn(f"{job.label} is outside its theorem and drawn dashed: {job.refused}")
    with screen.progress_bar(figure.name) as progress:
        outcomes = sweep.sweep(
            figure.jobs,
            trials=trials,
            seed=seed,
            workers=workers or sweep.available_workers(),
            out=out / "rows" / _folder(figure, trials, seed),
            progress=progress,
        )
    by_job = dict(zip(figure.jobs, outcomes, strict=True))
    files = [str(path) for path in draw(figure, by_job, out)]
    document = {"figure": figure.name, "files": files, "panels": _panels(figure, by_job)}
    screen.emit(document, figure_table(figure, by_job), as_json)
    if not as_json:
        print(f"Picture: {files[0]}, {files[1]}; numbers: {files[2]}")


def _folder(figure: Figure, trials: int, seed: int) -> str:
    """A directory per question, so that another question does not meet foreign rows."""
    return f"{figure.name}-{sweep.fingerprint(figure.jobs, trials, seed)}"


def _panels(figure: Figure, outcomes: dict[Job, Outcome]) -> list[dict[str, object]]:
    return [
        {
            "title": panel.title,
            "rows": [
                {**outcomes[job].document(), "batch_size": job.plan.schedule.first}
                for job in (*panel.curves, *panel.points)
            ],
        }
        for panel in figure.panels
    ]


def figure_table(figure: Figure, outcomes: dict[Job, Outcome]) -> Table:
    """The last regret of every line of a figure."""
    rows = [
        (panel.title, outcomes[job])
        for panel in figure.panels
        for job in (*panel.curves, *panel.points)
    ]
    return outcome_table([outcome for _, outcome in rows], [title for title, _ in rows])


def outcome_table(outcomes: Sequence[Outcome], panels: Sequence[str] = ()) -> Table:
    """Algorithms with batch size, privacy, regret and repairs."""
    table = Table(box=None, header_style="bold")
    if len(set(panels)) > 1:
        table.add_column("panel")
    for name in ("algorithm", "B", "privacy", "regret at T", "+-", "repairs", "CPU s"):
        right = name in {"B", "regret at T", "+-", "repairs", "CPU s"}
        table.add_column(name, justify="right" if right else "left")
    for position, outcome in enumerate(outcomes):
        lead = [panels[position]] if len(set(panels)) > 1 else []
        table.add_row(*lead, *_cells(outcome))
    return table


def _cells(outcome: Outcome) -> list[str]:
    job, error = outcome.job, float(outcome.standard_error[-1])
    outside = ", outside the theorem" if job.refused else ""
    return [
        job.label,
        str(job.plan.schedule.first),
        privacy_label(job) + outside,
        f"{outcome.mean[-1]:.0f}",
        "" if math.isnan(error) else f"{error:.0f}",
        str(outcome.repairs),
        f"{outcome.seconds:.1f}",
    ]
