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
BatchSize = Annotated[int, typer.Option(help="Users per batch; 1 is sequential.")]
Arms = Annotated[int, typer.Option(help="Arms offered in every round.")]
Calibration = Annotated[
    str,
    typer.Option(
        help="How noise is chosen: certified, theorem (the paper's), released (its script's)."
    ),
]
Policy = Annotated[str, typer.Option(help="How released sums become choices: ucb or sampling.")]
Problem = Annotated[str, typer.Option(help="sphere, released, contextual or returning.")]
Trials = Annotated[int, typer.Option(help="Independent instances to average over.")]
Seed = Annotated[int, typer.Option(help="One seed reproduces everything.")]
Workers = Annotated[
    int | None, typer.Option(help="Processes; all processors unless given. Changes only the time.")
]
Participations = Annotated[int, typer.Option(help="Batches that one user may be in.")]
