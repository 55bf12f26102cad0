"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
Problem = Annotated[str, typer.Option(help="sphere, released, contextual or returning.")]
Trials = Annotated[int, typer.Option(help="Independent instances to average over.")]
Seed = Annotated[int, typer.Option(help="One seed reproduces everything.")]
Workers = Annotated[
    int | None, typer.Option(help="Processes; all processors unless given. Changes only the time.")
]
Participations = Annotated[int, typer.Option(help="Batches that one user may be in.")]
Centred = Annotated[
    bool, typer.Option(help="Report around a reward of 1/2; needs a constant feature.")
]
ConstantFeature = Annotated[
    str | None,
    typer.Option(help="INDEX=VALUE of a feature that is the same for everybody, as 4=0.7071."),
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


def constant(text: str | None) -> tuple[int, float] | None:
    """The index and value of ``--constant-feature``."""
    if text is None:
        return None
    index, _, value = text.partition("=")
    try:
        return int(index), float(value)
    except ValueError as error:
        raise ValueError(f"constant-feature must be INDEX=VALUE, got {text!r}") from error
