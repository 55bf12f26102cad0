"""The commands ``init``, ``serve``, ``witness``, ``status``, ``quarantine`` and others."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from croupier.cli import options, screen
from croupier.errors import MissingExtraError

if TYPE_CHECKING:
    from croupier.service.admin.doctor import CheckResult
    from croupier.service.admin.status import PlanStatus
    from croupier.service.analyzer.quarantine import JudgedBatch

EXTRA = "service"

Config = Annotated[Path, typer.Option(help="The role's settings, a TOML file.")]


def init(
    directory: Annotated[Path, typer.Argument(help="Where to make a directory for each role.")],
    plan: Annotated[Path, typer.Option(help="A plan, as written by `croupier plan --out`.")],
    transport: Annotated[
        str, typer.Option(help="How reports travel: bits, shares or sealed.")
    ] = "bits",
    accounts: Annotated[
        str,
        typer.Option(help="By whose word a report is of an account: signed, gateway or anyone."),
    ] = "signed",
    all_honest: Annotated[
        bool, typer.Option(help="Take a plan that relies on every user being honest.")
    ] = False,
    trust_devices: Annotated[
        bool, typer.Option(help="Take shares, with which one hostile device chooses the model.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Write settings, keys and tokens for all roles, ready to start on this machine.

    Example: croupier init deployment --plan plan.json
    """
    made = screen.read_plan(plan)
    layout = _serving().initialise(
        directory, made, transport, accounts, all_honest=all_honest, trust_devices=trust_devices
    )
    paths = {"shuffler": str(layout.shuffler), "analyzer": str(layout.analyzer)}
    words = "\n".join(
        ["Start the two services, each in its own terminal:"]
        + [f"  croupier serve {role} --config {path}" for role, path in reversed(paths.items())]
    )
    screen.emit({"kind": "layout", **paths}, words, as_json)


def serve(
    role: Annotated[str, typer.Argument(help="shuffler or analyzer")],
    config: Config,
    as_json: options.Json = False,
) -> None:
    """Run the shuffler or the analyzer until it is told to stop; then finish, and exit 0.

    Example: croupier serve shuffler --config deployment/shuffler/settings.toml
    """

    def announce(url: str) -> None:
        words = f"The {role} listens on {url}; Ctrl-C ends it."
        screen.emit({"kind": "serving", "role": role, "url": url}, words, as_json)
        sys.stdout.flush()  # whoever started us may be waiting for this line

    _serving().serve(role, config, announce)


def witness(config: Config, as_json: options.Json = False) -> None:
    """Follow both services as a third party and sign what they agree on, until told to stop.

    A fork that is seen is kept: nothing is signed any more. docs/deploy.md has the settings.

    Example: croupier witness --config witness/settings.toml
    """

    def announce(url: str) -> None:
        words = f"The witness listens on {url}; Ctrl-C ends it."
        screen.emit({"kind": "serving", "role": "witness", "url": url}, words, as_json)
        sys.stdout.flush()

    _serving().witness(config, announce)


def status(config: Config, as_json: options.Json = False) -> None:
    """Say where the plan stands and why its batch is not released; exits 1 if something is stuck.

    Example: croupier status --config deployment/shuffler/settings.toml
    """
    found = _serving().status(config)
    screen.emit(found.content, status_words(found), as_json)
    if not found.moving:
        raise typer.Exit(1)


def retire(
    config: Config,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Give up a batch that is stuck on its way as well.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """End the shuffler's plan before its last batch; reports of the open batch are dropped.

    Models stay published, and a successor takes over what users have spent. There is no way back.

    Example: croupier retire --config deployment/shuffler/settings.toml
    """
    found = _serving().retire(config, abandon)
    words = f"Plan {found.plan} has ended; {found.dropped} reports were dropped."
    document = {"kind": "retired", "plan": found.plan, "dropped": found.dropped}
    screen.emit(document, words, as_json)


def adopt(config: Config, as_json: options.Json = False) -> None:
    """Go on with a database whose directory never-back-up is lost, if it is the newest there is.

    A batch whose keys were lost with the directory is begun again. Only say this of a database
    that was never set back: nothing else would show that it was.

    Example: croupier adopt --config deployment/shuffler/settings.toml
    """
    found = _serving().adopt(config)
    words = (
        f"{len(found.plans)} plans go on from where the database is; {found.dropped} reports were "
        "dropped with the keys of their batch."
    )
    document = {"kind": "adopted", "plans": list(found.plans), "dropped": found.dropped}
    screen.emit(document, words, as_json)


def quarantine(
    config: Config,
    leave_out: Annotated[
        list[int] | None, typer.Option(help="A batch not to be learnt from; may be repeated.")
    ] = None,
    take_in: Annotated[
        list[int] | None, typer.Option(help="A batch to be learnt from; may be repeated.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show batches that honest users could hardly have added up to, and decide about them.

    The analyzer does not learn from such a batch until it is taken in. Any other may be left out.
    The model after the next batch follows. Exits 1 if there is a batch to decide about.

    Example: croupier quarantine --config deployment/analyzer/settings.toml --leave-out 7
    """
    found = _serving().judge(config, leave_out or [], take_in or [])
    batches = [vars(one) | {"standing": one.standing.value} for one in found]
    screen.emit({"kind": "quarantine", "batches": batches}, quarantine_words(found), as_json)
    if any(one.waits for one in found):
        raise typer.Exit(1)


def doctor(config: Config, as_json: options.Json = False) -> None:
    """Check settings, keys, database, clock, disk and the other role; exits 1 if one fails.

    Example: croupier doctor --config deployment/analyzer/settings.toml
    """
    found = _serving().examine(config)
    document: dict[str, Any] = {"kind": "doctor", "findings": [vars(one) for one in found]}
    screen.emit(document, doctor_words(found), as_json)
    if not all(one.ok for one in found):
        raise typer.Exit(1)


def status_words(found: PlanStatus) -> str:
    """The answer, then what is known of both services."""
    lines = [f"Plan {found.plan} on the {found.role}", f"  {found.answer}"]
    if found.advice:
        lines.append(f"  {found.advice}")
    for name, other in (("service", found.own), ("peer", found.peer)):
        if other is not None:
            lines.append(f"  {name:<9} {other.words}")
    if found.warning:
        lines.append(f"  warning   {found.warning}")
    return "\n".join(lines)


def quarantine_words(found: list[JudgedBatch]) -> str:
    """Batches that are not learnt from, and how many are."""
    out = [one for one in found if not one.is_in]
    lines = [f"{one.words[0].upper()}{one.words[1:]}." for one in out]
    lines.append(f"{len(found) - len(out)} of {len(found)} batches are learnt from.")
    if any(one.waits for one in out):
        lines.append("Decide with --take-in N or --leave-out N; see docs/deploy.md on quarantined.")
    return "\n".join(lines)


def doctor_words(found: list[CheckResult]) -> str:
    """A line for every check."""
    return "\n".join(f"{'ok  ' if one.ok else 'FAIL'} {one.check:<11} {one.words}" for one in found)


def _serving() -> Any:
    """The service, where its dependencies are installed."""
    try:
        from croupier.service.admin import commands
    except ImportError as missing:
        raise MissingExtraError(missing.name or "starlette", EXTRA) from missing
    return commands
