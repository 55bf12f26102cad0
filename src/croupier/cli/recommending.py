"""``plan --auto``: which options go with it, and a recommendation in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import typer

from croupier.cli import screen, words
from croupier.figures.draw import draw
from croupier.figures.frontier import frontier
from croupier.simulation import sweep
from croupier.simulation.compare import Arena
from croupier.simulation.planner import Need, Recommendation, recommend
from croupier.simulation.planner.candidates import Candidate, report_bytes
from croupier.simulation.planner.expectations import Expectation
from croupier.simulation.planner.recommendation import Alternative, Needed
from croupier.simulation.results import write_whole

OF_AUTO = ("users", "max_report_bytes", "action_sets", "arms", "seed", "picture")
CHOSEN_BY_AUTO = (
    "protocol", "batch_size", "horizon", "calibration", "batches", "policy", "regularizer",
    "exploration", "overhead", "strategy", "levels", "publication", "growth",
)  # fmt: skip
WITHOUT_AUTO = ("blocks",)
PICTURES = {".png", ".svg"}
PICTURE_TRIALS = 4
MOST_DRAWN = 10**6
"""A picture plays every user of two dozen plans."""

SHOWN_SIZES = 8


def refuse_mixture(context: typer.Context, auto: bool) -> None:
    """Refuse options that the planner chooses, and without it those that only it reads."""
    for name in (*CHOSEN_BY_AUTO, *WITHOUT_AUTO) if auto else OF_AUTO:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option, value = name.replace("_", "-"), context.params[name]
            named = "is not known to" if name in WITHOUT_AUTO else "is chosen by"
            why = f"{named} --auto" if auto else "is for --auto"
            raise ValueError(f"--{option} {why}, got {str(value)!r}")


def answer(need: Need, out: Path | None, picture: Path | None, as_json: bool) -> None:
    """Recommend a plan, write it, draw what privacy costs; exits 1 where there is no plan."""
    if picture is not None:
        _check_picture(picture, need)
    with screen.progress_bar("trying plans", screen.COMPILES) as progress:
        found = recommend(need, progress)
    if out is not None and found.plan is not None:
        write_whole(out, found.plan.to_json())
    files = [] if picture is None else draw_frontier(found, picture)
    document = {**found.document(), "files": files}
    screen.emit(document, recommendation_words(found), as_json)
    if files and not as_json:
        print(f"Picture: {files[0]}, {files[1]}; numbers: {files[2]}")
    if found.plan is None:
        raise typer.Exit(1)


def _check_picture(picture: Path, need: Need) -> None:
    if picture.suffix not in PICTURES:
        raise ValueError(f"picture must end in .png or .svg, got {str(picture)!r}")
    if need.users > MOST_DRAWN:
        raise ValueError(f"users must be at most {MOST_DRAWN} for a picture, got {need.users}")


def draw_frontier(found: Recommendation, picture: Path) -> list[str]:
    """Regret against epsilon in the three trust models, with the users and policy in question."""
    need = found.need
    choice = found.choice or Candidate(need, "growing", "sampling")
    arena = Arena(
        need.dim, need.users, need.epsilon, need.delta,
        arms=need.arms, problem=need.problem.name, policy=choice.policy, batches=choice.batches,
        max_participations=choice.participations,
        constant_feature=choice.layout.constant,
    )  # fmt: skip
    figure = replace(frontier(arena), name=picture.stem)
    with screen.progress_bar("drawing", screen.COMPILES) as progress:
        outcomes = sweep.sweep(
            figure.jobs,
            trials=PICTURE_TRIALS,
            seed=need.seed,
            workers=sweep.available_workers(),
            progress=progress,
        )
    by_job = dict(zip(figure.jobs, outcomes, strict=True))
    return [str(path) for path in draw(figure, by_job, picture.parent)]


def recommendation_words(found: Recommendation) -> str:
    """The choice with what to expect, or why there is none and what it would take."""
    parts = (_choice(found), _expected(found), _costs(found), _changes(found), _considered(found))
    return "\n".join(line for part in parts for line in part)


def _row(name: str, text: str) -> str:
    return f"  {name:<16}{text}"


def _choice(found: Recommendation) -> Iterator[str]:
    if found.choice is None or found.plan is None:
        yield f"No plan. {found.reason}."
    else:
        overhead = f"overhead {found.choice.overhead:g}"
        yield f"Suggested: {found.choice.label}, {overhead} (plan {found.plan.id})"


def _needed(needed: Needed, need: Need) -> Iterator[str]:
    enough = []
    if needed.users is not None:
        enough.append(f"about {needed.users:,} users")
    if needed.epsilon is not None:
        enough.append(f"epsilon about {needed.epsilon:g}")
    if needed.report_bytes is not None:
        enough.append(f"reports of {needed.report_bytes:,} bytes")
    yield (
        f"It would take {', or '.join(enough)}." if enough else "Nothing that was tried is enough."
    )
    if needed.epsilon is None and needed.report_bytes is None:
        yield f"At {need.users:,} users no epsilon is enough: without noise it is too little, too."


def _expected(found: Recommendation) -> Iterator[str]:
    if found.expected is None:
        return
    yield _row("regret", _regret(found.expected))
    yield _row("", _shares(found, found.expected))
    yield _row("tried on", _tried_on(found.need, found.expected))


def _costs(found: Recommendation) -> Iterator[str]:
    """What the plan takes to run, and what it is worth."""
    plan = found.plan
    if plan is None or plan.budget is None:
        return
    first, largest = report_bytes(plan)
    yield _row("reports", f"{first:,} bytes in the first batch, {largest:,} at most")
    yield _row("models", f"{plan.schedule.batches} to download, one after every batch")
    yield _row("batches", f"{_sizes(plan.schedule.sizes())} users")
    asked = f"({plan.budget.epsilon:g}, {plan.budget.delta:g})"
    yield _row("privacy", f"{asked}: {words.verdict(plan.promise, plan.budget)}")


def _changes(found: Recommendation) -> Iterator[str]:
    if found.needed is not None:
        yield from _needed(found.needed, found.need)
    if found.what_if:
        yield "What would change (estimates, from a few simulated trials each)"
    for one in found.what_if:
        yield f"  {one.change:<24}regret {one.regret:,.0f}, {one.share:.2%} of uniform play"


def _regret(expected: Expectation) -> str:
    return f"{expected.mean:,.0f} expected ({expected.low:,.0f} to {expected.high:,.0f}, 99 %)"


def _shares(found: Recommendation, expected: Expectation) -> str:
    share = (
        f"{expected.share:.2%} of uniform play "
        f"({expected.share_low:.2%} to {expected.share_high:.2%})"
    )
    if found.non_private is None:
        return share
    return f"{share}; about {expected.mean / found.non_private:.2g} times non-private learning"


def _tried_on(need: Need, expected: Expectation) -> str:
    whose = "in common" if need.action_sets == "common" else "of their own"
    return (
        f"{need.users:,} synthetic users with {need.arms} arms {whose} "
        f"(problem {need.problem.name!r}), {expected.trials} trials, seed {need.seed}"
    )


def _sizes(sizes: tuple[int, ...]) -> str:
    shown = ", ".join(f"{size:,}" for size in sizes[:SHOWN_SIZES])
    more = f", ... up to {max(sizes):,}" if len(sizes) > SHOWN_SIZES else ""
    return f"{len(sizes)} of {shown}{more}"


def _considered(found: Recommendation) -> Iterator[str]:
    yield "Considered"
    for one in found.alternatives:
        yield f"  {one.label}: {_numbers(one)}"


def _numbers(one: Alternative) -> str:
    parts = []
    if one.expected is not None:
        parts.append(f"regret {one.expected.mean:,.0f} in {one.expected.trials} trials")
    if one.report_bytes is not None:
        parts.append(f"{one.report_bytes:,} bytes")
    if one.overhead is not None:
        parts.append(f"overhead {one.overhead:g}")
    return "; ".join([*parts, *([one.ruled_out] if one.ruled_out else [])])
