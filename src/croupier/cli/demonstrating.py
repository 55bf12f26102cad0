"""The command ``demo``: the three roles live on this machine."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from croupier.cli import options, screen
from croupier.errors import MissingExtraError

if TYPE_CHECKING:
    from croupier.service.demo.demo import DemoReport

EXTRA = "service"
MEMORY = Path("/dev/shm")  # noqa: S108 - the directory in it is made by mkdtemp


def demo(
    devices: Annotated[int, typer.Option(help="Simulated users, each with a device.")] = 2000,
    seed: Annotated[int, typer.Option(help="Of the users; devices draw their own noise.")] = 0,
    keep: Annotated[bool, typer.Option("--keep", help="Keep databases, logs and devices.")] = False,
    as_json: options.Json = False,
) -> None:
    """Start a shuffler and an analyzer here, send devices through them, and show what was learnt.

    Example: croupier demo --devices 2000
    """
    service = _service()
    directory = Path(tempfile.mkdtemp(prefix="croupier-demo-", dir=_disk(keep)))
    try:
        with screen.progress_bar("devices, a round each") as progress:
            report = service.run_demo(directory, devices, seed, progress, _announce)
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
    document = report.content | {"directory": report.directory if keep else None}
    screen.emit(document, demo_words(report, keep), as_json)


def _announce(role: str, url: str) -> None:
    screen.note(f"The {role}'s page, while this runs: {url}/")


def _disk(keep: bool) -> Path | None:
    """Thousands of devices share this machine's disk; what is deleted anyway can be in memory."""
    in_memory = not keep and "TMPDIR" not in os.environ and MEMORY.is_dir()
    return MEMORY if in_memory and os.access(MEMORY, os.W_OK) else None


def demo_words(report: DemoReport, kept: bool) -> str:
    """The table, and what it cost."""
    head = f"{'batch':>5} {'users':>6} {'croupier':>9} {'not private':>12} {'at random':>10}"
    rows = [
        f"{one.batch:>5} {one.users:>6} {one.private:>9.3f} {one.not_private:>12.3f} "
        f"{one.uniform:>10.3f}"
        for one in report.batches
    ]
    return "\n".join(["Mean reward of every batch's users", head, *rows, "", *_facts(report, kept)])


def _facts(report: DemoReport, kept: bool) -> list[str]:
    files = f"{report.directory}" if kept else "deleted; --keep keeps them"
    return [
        f"certified   epsilon {report.epsilon_certified:.4f} at delta {report.delta:g} "
        f"(asked for {report.epsilon:g}); a user is in one batch",
        f"reports     {report.accepted} of {report.devices} devices, "
        f"{report.record_bytes} bytes each in the first batch",
        f"ledger      {report.ledger_entries} entries, head {report.ledger_head[:16]}",
        f"model       version {report.model_version} of plan {report.plan}",
        f"files       {files}",
        f"time        {report.seconds:.0f} seconds",
    ]


def _service() -> Any:
    """The demo, where its dependencies are installed."""
    try:
        from croupier.service.demo import demo as service
    except ImportError as missing:
        raise MissingExtraError(missing.name or "starlette", EXTRA) from missing
    return service
