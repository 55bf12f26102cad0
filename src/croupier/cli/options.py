"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from croupier.simulation.sweep import available_workers

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
PlanFile = Annotated[Path, typer.Argument(help="A plan, as written by `croupier plan --out`.")]
Epsilon = Annotated[float, typer.Option(help="Privacy loss asked for, above 0.")]
Delta = Annotated[float, typer.Option(help="Failure probability asked for, between 0 and 1.")]
Dim = Annotated[int, typer.Option(help="Dimension of the features.")]
Horizon = Annotated[int, typer.Option(help="Rounds, that is users, in all.")]
FirstSize = Annotated[
    int | None,
    typer.Option(help="Users per batch, 20 for fixed ones; or in the first of those that grow."),
]
Arms = Annotated[int, typer.Option(help="Arms offered in every round.")]
CALIBRATION = typer.Option(
    help="How noise is chosen: certified, theorem (the paper's), released (its script's)."
)
Calibration = Annotated[str, CALIBRATION]
Policy = Annotated[
    str | None,
    typer.Option(
        help="How released sums become choices: sampling, randucb (own action sets) or ucb. "
        "sampling unless named, ucb for the paper's constants."
    ),
]
Batches = Annotated[
    str | None,
    typer.Option(
        help="Sizes of the batches: growing, doubling or fixed. growing unless named, fixed for "
        "the paper's constants."
    ),
]
Problem = Annotated[
    str,
    typer.Option(
        help="sphere, released, contextual, pooled, returning, drifting, seasonal or disjoint; "
        "from data: movielens, adult, shuttle, segments or digits."
    ),
]
OfferedArms = Annotated[
    int | None, typer.Option(help="Arms offered in every round; 100, or what the data has.")
]
Data = Annotated[
    Path | None, typer.Option(help="A CSV or Parquet file to play on, instead of --problem.")
]
Context = Annotated[
    str | None, typer.Option(help="Of --data: columns that are known of a user, as age,region.")
]
Label = Annotated[
    str | None, typer.Option(help="Of --data: the column to guess; every value of it is an arm.")
]
LoggedArm = Annotated[
    str | None, typer.Option("--arm", help="Of logged --data: the column of arms that were played.")
]
LoggedReward = Annotated[
    str | None, typer.Option("--reward", help="Of logged --data: the column of rewards in [0, 1].")
]
Propensity = Annotated[
    str | None,
    typer.Option(help="Of logged --data: the column of chances with which arms were played."),
]
Bounds = Annotated[
    str | None,
    typer.Option(
        help="Of --data: NAME=LOW:HIGH,... of its numbers, known beforehand. Half of the rows are "
        "public and scale the others unless given."
    ),
]
MapMu = Annotated[
    float,
    typer.Option(
        "--map-mu",
        help="Of --bounds: scale by means and squares of the players, at this cost in Gaussian DP.",
    ),
]
Trials = Annotated[int, typer.Option(help="Independent instances to average over.")]
Seed = Annotated[int, typer.Option(help="One seed reproduces everything.")]
Workers = Annotated[
    int | None, typer.Option(help="Processes; all processors unless given. Changes only the time.")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A Dask scheduler, as tcp://host:8786, instead of --workers. Changes only the time.",
    ),
]
Participations = Annotated[int, typer.Option(help="Batches that one user may be in.")]
HonestFraction = Annotated[
    float | None,
    typer.Option(
        help="Share of every batch's users who are honest and keep their coins to themselves; "
        "0.8 unless named, 1 for the paper's constants."
    ),
]
FeatureNorm = Annotated[float, typer.Option(help="Features have at most this norm.")]
RewardRange = Annotated[
    str, typer.Option(metavar="LOW:HIGH", help="Rewards are between these two.")
]
Confidence = Annotated[
    float | None, typer.Option(help="The paper's alpha, of ucb's radius; 1/horizon unless given.")
]
ConstantFeature = Annotated[
    str | None,
    typer.Option(help="INDEX=VALUE of a feature that is the same for everybody, as 4=0.7071."),
]
Blocks = Annotated[
    int | None,
    typer.Option(
        help="Blocks of features outside one of which a user's are zero, as where arms have "
        "parameters of their own; INDEX of --constant-feature is then one within a block."
    ),
]
Auto = Annotated[bool, typer.Option("--auto", help="Choose everything for --users users.")]
Users = Annotated[int | None, typer.Option(help="Of --auto: users in all.")]
MaxReportBytes = Annotated[int | None, typer.Option(help="Of --auto: bytes that a report may be.")]
ActionSets = Annotated[
    str, typer.Option(help="Of --auto: common, or individual where every user has own arms.")
]
Picture = Annotated[
    Path | None,
    typer.Option(help="Of --auto: draw regret against epsilon to this PNG or SVG (a minute)."),
]


def processes(workers: int | None, scheduler: str | None) -> int:
    """How many ``--workers`` there are: all processors, unless given or the work is elsewhere."""
    if workers is None:
        return available_workers() if scheduler is None else 1
    if scheduler is not None:
        raise ValueError(f"workers must be left out with --scheduler, got {workers}")
    return workers


def interval(text: str) -> tuple[float, float]:
    """The two ends of ``--reward-range``."""
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError as error:
        raise ValueError(f"reward-range must be LOW:HIGH, as 0:1, got {text!r}") from error


def constant(text: str | None) -> tuple[int, float] | None:
    """The index and value of ``--constant-feature``."""
    if text is None:
        return None
    index, _, value = text.partition("=")
    try:
        return int(index), float(value)
    except ValueError as error:
        raise ValueError(f"constant-feature must be INDEX=VALUE, got {text!r}") from error
