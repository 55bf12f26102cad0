"""Both services on this machine, each a process of its own, started and ended together."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import httpx

from croupier.errors import CroupierError
from croupier.plan import Plan
from croupier.service.account_settings import AccountPolicy
from croupier.service.admin.deployment_files import write_deployment
from croupier.service.device.settings import DeviceSettings
from croupier.service.environment import without_ours
from croupier.service.messages.public_ledger import read_public_ledger
from croupier.service.messages.signed_documents import LedgerEntry
from croupier.wire import Transport

ROLES = ("analyzer", "shuffler")
LOOK = 0.05
START_SECONDS = 60.0
END_SECONDS = 15.0

QUICK = """
[courier]
every = 0.05                        # looks for complete batches twenty times a second
first_wait = 0.1
longest_wait = 1.0
"""


class LocalError(CroupierError):
    """A service did not start, or ended when it should not have."""


def _nothing() -> None:
    pass


class LocalServices:
    """An analyzer and a shuffler on loopback, with keys, tokens and databases in a directory."""

    def __init__(
        self,
        directory: Path,
        plan: Plan,
        transport: Transport = Transport.BITS,
        *,
        accounts: AccountPolicy = AccountPolicy.ANYONE,
        more: str = QUICK,
        first: str = "",
        between: Callable[[], None] = _nothing,
    ) -> None:
        """``more`` ends the shuffler's settings, ``first`` begins the analyzer's.

        ``between`` may stop any waiting. Users on one machine are made up, so anyone may report.
        """
        self.directory = directory
        self.between = between
        ports = _free_ports()
        layout = write_deployment(directory, plan, transport, ports, accounts=accounts)
        self._ports = dict(zip(("shuffler", "analyzer"), ports, strict=True))
        with layout.shuffler.open("a") as file:
            file.write(more)
        layout.analyzer.write_text(first + layout.analyzer.read_text())
        self._configs = {"analyzer": layout.analyzer, "shuffler": layout.shuffler}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.settings = DeviceSettings.of_deployment(directory)

    def __enter__(self) -> Self:
        try:
            for role in ROLES:
                self._start(role)
            for role in ROLES:
                self._await_ready(role)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End both, the shuffler first; whatever happens, nothing is left running."""
        for role in reversed(ROLES):
            if role in self.processes:
                end_process(self.processes[role])

    def url(self, role: str) -> str:
        """Where a role listens."""
        return f"http://127.0.0.1:{self._ports[role]}"

    def log(self, role: str) -> Path:
        """What a role said."""
        return self.directory / f"{role}.log"

    def require_running(self) -> None:
        """Refuse to go on without one of them, or against the caller's will."""
        self.between()
        for role, process in self.processes.items():
            if process.poll() is not None:
                said = self.log(role).read_text().strip().splitlines()
                raise LocalError(f"the {role} ended: {said[-1] if said else 'it said nothing'}")

    def _start(self, role: str) -> None:
        command = ["serve", role, "--config", str(self._configs[role])]
        with self.log(role).open("wb") as log:
            self.processes[role] = start_process("croupier.cli.main", command, log)

    def _await_ready(self, role: str) -> None:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            self.require_running()
            with suppress(httpx.HTTPError):
                if httpx.get(f"{self.url(role)}/readyz", trust_env=False).is_success:
                    return
            time.sleep(LOOK)
        raise LocalError(f"the {role} was not ready within {START_SECONDS:.0f} seconds")


def start_process(
    module: str, arguments: list[str], output: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    """A module of ours in a session of its own, so that the terminal's Ctrl-C is only for us.

    It goes by its file: variables for a role in a container are not for a demonstration.
    """
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=without_ours(os.environ),
    )


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, with all that it started; then make it."""
    for signal_number, seconds in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, END_SECONDS)):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal_number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)


def fetch_ledger(settings: DeviceSettings) -> list[LedgerEntry]:
    """The public ledger of a plan, as the shuffler shows what the analyzer published."""
    return read_public_ledger(_fetch_public(settings, "ledger"), settings.plan_id)


def fetch_model_version(settings: DeviceSettings) -> int:
    """Of the newest model."""
    return int(json.loads(_fetch_public(settings, "model"))["content"]["model"]["version"])


def _fetch_public(settings: DeviceSettings, name: str) -> bytes:
    place = f"{settings.shuffler_url}/v1/plans/{settings.plan_id}/{name}"
    return httpx.get(place, trust_env=False).raise_for_status().content


def _free_ports() -> tuple[int, int]:
    """Two ports that nobody listens on now."""
    with socket.socket() as first, socket.socket() as second:
        for bound in (first, second):
            bound.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]
