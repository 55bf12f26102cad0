"""The entry point: commands, exit codes, and errors as one clear line."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from croupier import __version__
from croupier.errors import CroupierError, MissingExtraError

try:
    import rich  # noqa: F401 - every command prints with it
    import typer
except ImportError as error:  # pragma: no cover - depends on what is installed
    sys.exit(f"croupier: {MissingExtraError(str(error.name), 'cli')}")

from croupier.cli import (
    auditing,
    demonstrating,
    interrupts,
    issuing,
    keys,
    planning,
    serving,
    simulating,
)
from croupier.cli.interrupts import STOPPED

BAD_INPUT = 2

app = typer.Typer(
    help="Private contextual bandits in the shuffle model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    planning.plan,
    planning.show,
    planning.epsilon,
    auditing.audit,
    simulating.simulate,
    simulating.compare,
    simulating.figure,
    planning.protocols,
    serving.init,
    serving.serve,
    serving.witness,
    serving.status,
    serving.quarantine,
    serving.retire,
    serving.adopt,
    serving.doctor,
    issuing.issue,
    demonstrating.demo,
):
    app.command()(command)
app.add_typer(keys.app, name="keys")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"croupier {__version__}")
        raise typer.Exit


@app.callback()
def options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Private contextual bandits in the shuffle model."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command: 0 if it succeeded, 1 if the answer is no, 2 on bad input."""
    try:
        code = int(app(arguments, standalone_mode=False) or 0)
    except typer.TyperException as error:
        return _refuse(_usage(error))
    except (CroupierError, ValueError, OverflowError, OSError) as error:
        return _refuse(str(error))
    except MemoryError as error:
        return _refuse(f"not enough memory for this size: {error}")
    except (KeyboardInterrupt, typer.Abort):
        code = STOPPED
    if code == STOPPED:  # typer's word for an interrupt that it met first
        print("croupier: stopped; what was written stays", file=sys.stderr)
    return code


def _usage(error: Any) -> str:
    """Typer's sentence, with the value where it leaves it out."""
    details: list[Any] = getattr(error.__cause__, "errors", list)()
    given = f", got {details[0]['input']!r}" if details else ""
    text: str = error.format_message() or "no command was given; see croupier --help"
    return text + given


def _refuse(text: str) -> int:
    line = " ".join(text.split())
    print(f"croupier: {line}", file=sys.stderr)
    return BAD_INPUT


def run() -> None:
    """What the installed command calls."""
    interrupts.listen()
    sys.exit(main())


if __name__ == "__main__":
    run()
