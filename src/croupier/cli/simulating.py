"""The commands ``simulate``, ``compare`` and ``figure``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from croupier.cli import data as on_data
from croupier.cli import options, screen
from croupier.figures import catalogue
from croupier.figures.data import Figure
from croupier.figures.draw import draw, slopes
from croupier.figures.paper import comparison
from croupier.figures.style import privacy_label
from croupier.plan import Plan
from croupier.simulation import compare as lineup
from croupier.simulation import registry, sweep
from croupier.simulation.jobs import SweepJob
from croupier.simulation.outcomes import SweepOutcome
from croupier.simulation.problem import Problem

Out = Annotated[Path | None, typer.Option(help="Directory for rows; a killed run goes on there.")]
Pictures = Annotated[Path, typer.Option(help="Directory for pictures and rows.")]


def simulate(
    file: options.PlanFile,
    problem: options.Problem = "sphere",
    arms: options.OfferedArms = None,
    data: options.Data = None,
    context: options.Context = None,
    label: options.Label = None,
    arm: options.LoggedArm = None,
    reward: options.LoggedReward = None,
    propensity: options.Propensity = None,
    bounds: options.Bounds = None,
    map_mu: options.MapMu = 0.0,
    trials: options.Trials = 50,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    scheduler: options.Scheduler = None,
    out: Out = None,
    as_json: options.Json = False,
) -> None:
    """Play a plan on simulated users, or on data, and print its regret.

    Example: croupier simulate plan.json --problem sphere --trials 50 --out results/

    Example: croupier simulate plan.json --data visits.csv --context age,region --label bought

    Example: croupier simulate plan.json --data log.csv --context age,region
    --arm shown --reward clicked --propensity chance
    """
    workers = options.processes(workers, scheduler)
    plan = screen.read_plan(file)
    named = on_data.Named(data, context, label, arm, reward, propensity, bounds, map_mu)
    if data is not None and problem != "sphere":
        raise ValueError(f"problem must be left out where --data is given, got {problem!r}")
    if named.logged:
        on_data.evaluate(named, plan, seed, as_json)
        return
    world = on_data.problem_of(named, plan, arms) if data else _problem(problem, plan, arms)
    _warn_about_norms(plan, world)
    with screen.progress_bar(plan.protocol, screen.COMPILES) as progress:
        outcome = sweep.simulate(
            plan,
            world,
            trials=trials,
            seed=seed,
            workers=workers,
            scheduler=scheduler,
            out=out,
            progress=progress,
        )
    more = on_data.document(outcome, map_mu)
    screen.emit({**outcome.document(), **more}, outcome_table([outcome]), as_json)
    if not as_json:
        on_data.print_rewards(outcome, map_mu)


def _problem(name: str, plan: Plan, arms: int | None) -> Problem:
    kind = registry.find(name)
    return kind.for_plan(plan, kind.usual_arms if arms is None else arms)


def _warn_about_norms(plan: Plan, world: Problem) -> None:
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
    batches: options.Batches = None,
    batch_size: options.FirstSize = None,
    problem: options.Problem = "sphere",
    policy: options.Policy = None,
    max_participations: options.Participations = 1,
    honest_fraction: Annotated[
        float, typer.Option(help="Users that guarantees rely on; all, as in the paper.")
    ] = 1.0,
    constant_feature: options.ConstantFeature = None,
    trials: options.Trials = 25,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    scheduler: options.Scheduler = None,
    out: Pictures = Path("figures"),
    as_json: options.Json = False,
) -> None:
    """Every algorithm of the paper on the same users: a table and a picture.

    Example: croupier compare --epsilon 1 --delta 1e-5 --dim 5 --horizon 20000
    """
    workers = options.processes(workers, scheduler)
    arena = lineup.Arena(
        dim=dim,
        horizon=horizon,
        epsilon=epsilon,
        delta=delta,
        calibration=calibration,
        arms=arms,
        problem=problem,
        policy=policy,
        batches=batches,
        batch_size=batch_size,
        max_participations=max_participations,
        constant_feature=options.constant(constant_feature),
        honest_fraction=honest_fraction,
    )
    made = comparison(arena)
    _make(made, out, as_json, trials=trials, seed=seed, workers=workers, scheduler=scheduler)


def figure(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(catalogue.FIGURES)}.")],
    calibration: Annotated[str | None, options.CALIBRATION] = None,
    batches: options.Batches = None,
    batch_size: options.FirstSize = None,
    policy: options.Policy = None,
    problem: Annotated[
        str | None, typer.Option(help="The figure's own; `released` for the authors' constants.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Users in all, or at most.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy loss asked for.")] = None,
    delta: Annotated[float | None, typer.Option(help="Failure probability asked for.")] = None,
    dim: Annotated[int | None, typer.Option(help="Dimension of the features.")] = None,
    arms: Annotated[int | None, typer.Option(help="Arms offered in every round.")] = None,
    trials: Annotated[
        int | None, typer.Option(help="Instances to average over; 50, or 20 for horizon.")
    ] = None,
    seed: options.Seed = 0,
    workers: options.Workers = None,
    scheduler: options.Scheduler = None,
    out: Pictures = Path("figures"),
    as_json: options.Json = False,
) -> None:
    """Draw a figure of the paper, or one beside it, as PNG, SVG and CSV.

    Options that are left out are the figure's own: the paper's setting with certified noise.

    Example: croupier figure fig1 --policy ucb --batches fixed --out figures/
    """
    workers = options.processes(workers, scheduler)
    made = catalogue.figure(
        name,
        calibration=calibration,
        batches=batches,
        batch_size=batch_size,
        policy=policy,
        problem=problem,
        horizon=horizon,
        epsilon=epsilon,
        delta=delta,
        dim=dim,
        arms=arms,
    )
    runs = catalogue.find(name).trials if trials is None else trials
    _make(made, out, as_json, trials=runs, seed=seed, workers=workers, scheduler=scheduler)


def _make(
    figure: Figure,
    out: Path,
    as_json: bool,
    *,
    trials: int,
    seed: int,
    workers: int,
    scheduler: str | None,
) -> None:
    """Run a figure's jobs, draw it and print its table."""
    for job in figure.jobs:
        if job.refused:
            screen.warn(f"{job.label} is outside its theorem and marked as such: {job.refused}")
    with screen.progress_bar(figure.name, screen.COMPILES) as progress:
        outcomes = sweep.sweep(
            figure.jobs,
            trials=trials,
            seed=seed,
            workers=workers,
            scheduler=scheduler,
            out=out / "rows" / _folder(figure, trials, seed),
            progress=progress,
        )
    by_job = dict(zip(figure.jobs, outcomes, strict=True))
    files = [str(path) for path in draw(figure, by_job, out)]
    document = {"figure": figure.name, "files": files, "panels": _panels(figure, by_job)}
    screen.emit(document, figure_table(figure, by_job), as_json)
    if not as_json:
        _print_slopes(figure, by_job)
        print(f"Picture: {files[0]}, {files[1]}; numbers: {files[2]}")


def _folder(figure: Figure, trials: int, seed: int) -> str:
    """A directory per question, so that another question does not meet foreign rows."""
    return f"{figure.name}-{sweep.fingerprint(figure.jobs, trials, seed)}"


def _panels(figure: Figure, outcomes: dict[SweepJob, SweepOutcome]) -> list[dict[str, object]]:
    return [
        {
            "title": panel.title,
            "rows": [
                {**outcomes[job].document(), "batch_size": job.plan.schedule.first}
                for job in panel.jobs
            ],
            "slopes": {name: slope.document() for name, slope in slopes(panel, outcomes).items()},
        }
        for panel in figure.panels
    ]


def _print_slopes(figure: Figure, outcomes: dict[SweepJob, SweepOutcome]) -> None:
    for panel in figure.panels:
        for name, slope in slopes(panel, outcomes).items():
            print(f"Slope: {name} {slope}")


def figure_table(figure: Figure, outcomes: dict[SweepJob, SweepOutcome]) -> Table:
    """The last regret of every line of a figure."""
    rows = [(panel.title, outcomes[job]) for panel in figure.panels for job in panel.jobs]
    return outcome_table([outcome for _, outcome in rows], [title for title, _ in rows])


def outcome_table(outcomes: Sequence[SweepOutcome], panels: Sequence[str] = ()) -> Table:
    """Algorithms with users, batches, privacy, regret and repairs."""
    table = Table(box=None, header_style="bold")
    if len(set(panels)) > 1:
        table.add_column("panel")
    for name in ("algorithm", "privacy"):
        table.add_column(name)
    for name in ("T", "B", "regret at T", "+-", "repairs", "CPU s"):
        table.add_column(name, justify="right")
    for position, outcome in enumerate(outcomes):
        lead = [panels[position]] if len(set(panels)) > 1 else []
        table.add_row(*lead, *_cells(outcome))
    return table


def _cells(outcome: SweepOutcome) -> list[str]:
    job, error = outcome.job, float(outcome.standard_error[-1])
    outside = ", outside the theorem" if job.refused else ""
    return [
        job.label,
        privacy_label(job) + outside,
        f"{job.plan.schedule.rounds}",
        _batches(job.plan),
        f"{outcome.mean[-1]:.0f}",
        "" if math.isnan(error) else f"{error:.0f}",
        str(outcome.repairs),
        f"{outcome.seconds:.1f}",
    ]


def _batches(plan: Plan) -> str:
    """The first size, and that others follow where they do."""
    return str(plan.schedule.first) + ("" if len(plan.schedule.sizes()) == 1 else "+")
