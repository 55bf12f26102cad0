"""The commands ``plan``, ``show``, ``epsilon`` and ``protocols``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from croupier.cli import options, recommending, screen, words
from croupier.documents import finite_or_null, guarantee_document, plan_document
from croupier.errors import DocumentError
from croupier.figures.privacy_curve import draw_curve
from croupier.model import Model
from croupier.plan import Plan
from croupier.plan_defaults import DEFAULT_HONEST, DEFAULT_OVERHEAD
from croupier.plan_promises import composed_epsilons
from croupier.protocols import registry
from croupier.protocols.base import Protocol
from croupier.simulation.planner import Need
from croupier.simulation.planner.need import DEFAULT_ARMS
from croupier.simulation.results import write_whole

Number = TypeVar("Number", int, float)
PROVING = "computing what is proved"


def plan(
    context: typer.Context,
    dim: options.Dim,
    protocol: Annotated[
        str | None, typer.Option(help="A protocol or baseline; see `protocols`.")
    ] = None,
    auto: options.Auto = False,
    users: options.Users = None,
    batch_size: Annotated[
        int | None, typer.Option(help="Users per batch, or in the first; 1 is sequential.")
    ] = None,
    horizon: Annotated[int | None, typer.Option(help="Rounds, that is users, in all.")] = None,
    calibration: options.Calibration = "certified",
    epsilon: Annotated[float | None, typer.Option(help="Privacy loss asked for.")] = None,
    delta: Annotated[float | None, typer.Option(help="Failure probability asked for.")] = None,
    batches: options.Batches = None,
    policy: options.Policy = None,
    max_participations: options.Participations = 1,
    honest_fraction: options.HonestFraction = None,
    feature_norm: options.FeatureNorm = 1.0,
    reward_range: options.RewardRange = "0:1",
    confidence: options.Confidence = None,
    regularizer: Annotated[
        str | None, typer.Option(help="Of ucb: fixed (its default) or growing.")
    ] = None,
    exploration: Annotated[
        float | None, typer.Option(help="Of ucb: factor on the radius; 1 is theory.")
    ] = None,
    overhead: Annotated[
        float, typer.Option(help="Noise above the Gaussian floor, allowed to save bits.")
    ] = DEFAULT_OVERHEAD,
    strategy: Annotated[
        str | None, typer.Option(help="Of the central model: toeplitz, tree or fresh.")
    ] = None,
    levels: Annotated[
        int | None, typer.Option(help="Of concurrent-tree: nodes that one user is in.")
    ] = None,
    constant_feature: options.ConstantFeature = None,
    blocks: options.Blocks = None,
    publication: Annotated[
        str | None,
        typer.Option(help="When a model is replaced: every (batch), rare or determinant."),
    ] = None,
    growth: Annotated[
        float | None,
        typer.Option(help="Of rare publication: the factor C, above 3 (4 unless given)."),
    ] = None,
    drift: Annotated[
        float,
        typer.Option(help="How far preferences move per user and coordinate; 0 for not at all."),
    ] = 0.0,
    max_report_bytes: options.MaxReportBytes = None,
    action_sets: options.ActionSets = "common",
    arms: options.Arms = DEFAULT_ARMS,
    seed: options.Seed = 0,
    picture: options.Picture = None,
    out: Annotated[Path | None, typer.Option(help="Write the plan to this file.")] = None,
    as_json: options.Json = False,
) -> None:
    """Calibrate the noise for a budget and say what it is worth; --auto chooses the rest, too.

    Example: croupier plan --protocol vector-sum --epsilon 1 --delta 1e-5 --dim 5
    --batch-size 1000 --horizon 100000 --out plan.json

    Example: croupier plan --auto --users 200000 --dim 10 --epsilon 1 --delta 1e-6
    """
    recommending.refuse_mixture(context, auto)
    if auto:
        need = Need(
            users=_given("users", users),
            dim=dim,
            epsilon=_given("epsilon", epsilon),
            delta=_given("delta", delta),
            max_report_bytes=max_report_bytes,
            action_sets=action_sets,
            arms=arms,
            constant_feature=options.constant(constant_feature),
            max_participations=max_participations,
            honest_fraction=DEFAULT_HONEST if honest_fraction is None else honest_fraction,
            seed=seed,
        )
        return recommending.answer(need, out, picture, as_json)
    if protocol is None:
        raise ValueError("protocol must be given unless --auto is to choose it, got None")
    options_of_policy: dict[str, Any] = {"regularizer": regularizer, "exploration": exploration}
    made = Plan.calibrate(
        protocol,
        dim=dim,
        batch_size=batch_size,
        horizon=horizon,
        calibration=calibration,
        epsilon=epsilon,
        delta=delta,
        batches=batches,
        policy=policy,
        max_participations=max_participations,
        honest_fraction=honest_fraction,
        feature_norm=feature_norm,
        reward_range=options.interval(reward_range),
        confidence=confidence,
        overhead=overhead,
        strategy=strategy,
        levels=levels,
        constant_feature=options.constant(constant_feature),
        blocks=blocks,
        publication=publication,
        growth=growth,
        drift=drift,
        **{name: value for name, value in options_of_policy.items() if value is not None},
    )
    answer = _explained(made)
    _warnings(made, epsilon)
    if out is not None:
        write_whole(out, made.to_json())
    return screen.emit(*answer, as_json)


def _explained(made: Plan) -> tuple[dict[str, Any], str]:
    """A plan's document and the same in words, with a sign of life meanwhile."""
    with screen.waiting(PROVING):
        return plan_document(made), words.plan_words(made)


def _given(name: str, value: Number | None) -> Number:
    if value is None:
        raise ValueError(f"{name} must be given for --auto, got None")
    return value


def _warnings(made: Plan, epsilon: float | None) -> None:
    if made.budget is None and epsilon is not None:
        screen.warn(f"{made.protocol} adds no noise: the budget is not used")
    if made.calibration == "released":
        screen.warn("these are the constants of the authors' script, which no theorem backs")
    if made.budget is not None and not made.met:
        screen.warn(f"the budget: {words.verdict(made.promise, made.budget)}")


def show(
    file: Annotated[Path, typer.Argument(help="A plan or a model.")],
    as_json: options.Json = False,
) -> None:
    """Explain a plan or a model in words.

    Example: croupier show plan.json
    """
    text = screen.read_text(file)
    try:
        kind = json.loads(text).get("kind")
    except (json.JSONDecodeError, AttributeError) as error:
        raise DocumentError(f"{file} is neither a plan nor a model: {error}") from error
    if kind == "model":
        model = Model.from_json(text)
        screen.emit(json.loads(model.to_json()), words.model_words(model), as_json)
    else:
        screen.emit(*_explained(screen.read_plan(file)), as_json)


def epsilon(
    files: Annotated[
        list[Path], typer.Argument(help="Plans, as written by `croupier plan --out`.")
    ],
    delta: Annotated[float | None, typer.Option(help="At this delta; the plan's own.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw epsilon against delta to this PNG or SVG.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """What a plan is worth at any delta; exits 1 if its budget is not proved to be met.

    Several plans are what they are worth together to people who may take part in all of them, at
    the largest of their deltas unless one is given.

    Example: croupier epsilon plan.json --delta 1e-6

    Example: croupier epsilon spring.json summer.json
    """
    plans = [screen.read_plan(file) for file in files]
    if len(plans) > 1:
        if picture is not None:
            raise ValueError(f"picture is drawn of one plan alone, got {picture} for {len(plans)}")
        _together(plans, delta, as_json)
    else:
        _alone(plans[0], delta, picture, as_json)


def _alone(made: Plan, delta: float | None, picture: Path | None, as_json: bool) -> None:
    """Of one plan, whose budget is judged."""
    at = made.budget.delta if delta is None and made.budget else delta
    if at is None:
        raise ValueError("delta must be given for a plan without a budget, got None")
    if not 0 < at < 1:
        raise ValueError(f"delta must be between 0 and 1, got {at}")
    with screen.waiting(PROVING):
        if picture is not None:
            draw_curve(made, picture)
        document, text = _worth(made, at), _worth_words(made, at)
    screen.emit(document, text, as_json)
    if not made.met:
        raise typer.Exit(1)


def _together(plans: Sequence[Plan], delta: float | None, as_json: bool) -> None:
    """Of several plans on the same people."""
    budgets = [plan.budget.delta for plan in plans if plan.budget]
    at = max(budgets, default=None) if delta is None else delta
    if at is None or not 0 < at < 1:
        raise ValueError(f"delta must be between 0 and 1, got {at}")
    with screen.waiting(PROVING):
        found = composed_epsilons(plans, at)
    document = {
        "plans": [plan.id for plan in plans],
        "delta": at,
        "epsilons": {name: finite_or_null(value) for name, value in found.items()},
    }
    screen.emit(document, words.together_words(plans, found, at), as_json)
    if not all(plan.met for plan in plans):
        raise typer.Exit(1)


def _worth(made: Plan, delta: float) -> dict[str, Any]:
    return {
        "id": made.id,
        "protocol": made.protocol,
        "calibration": made.calibration,
        "delta": delta,
        "budget": made.content["budget"],
        "met": made.met,
        "guarantees": {
            name: guarantee_document(guarantee, delta)
            for name, guarantee in made.guarantees().items()
        },
    }


def _worth_words(made: Plan, delta: float) -> str:
    lines = [
        f"{name:<8} {words.guarantee_words(guarantee, delta)}"
        for name, guarantee in made.guarantees().items()
    ]
    if made.budget is not None:
        asked = f"({made.budget.epsilon:g}, {made.budget.delta:g})"
        lines.append(f"claim    {asked}: {words.verdict(made.promise, made.budget)}")
    return "\n".join(lines)


def protocols(as_json: options.Json = False) -> None:
    """List what is installed, third-party protocols included.

    Example: croupier protocols
    """
    rows = [_row(name) for name in sorted(registry.names())]
    table = Table("name", "kind", "trust model", "calibrations", "what it is", box=None)
    for row in rows:
        offered = ", ".join(row["calibrations"])
        table.add_row(row["name"], row["kind"], row["trust"], offered, row["summary"])
    screen.emit({"protocols": rows}, table, as_json)


def _row(name: str) -> dict[str, Any]:
    found = registry.find(name)
    return {
        "name": name,
        "kind": "protocol" if issubclass(found, Protocol) else "baseline",
        "built_in": name in registry.BUILT_IN,
        "trust": found.trust,
        "calibrations": list(found.calibrations),
        "summary": (found.__doc__ or "").strip().splitlines()[0],
    }
