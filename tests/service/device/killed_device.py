"""A device that is killed at every step in turn; run by a test, in a process without threads.

Prints how many steps there were. After every kill: what left the device was counted before, and
whatever is sent later for the batch are the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from croupier.service.device.device import Device
from croupier.service.device.ledger import ParticipationLedger
from croupier.service.device.settings import DeviceSettings
from croupier.service.device.store import DeviceFiles
from croupier.service.device.upload import UploadOutcome
from croupier.wire import Transport

ARMS = [[0.6, 0.0], [0.0, 0.6]]


class Canned(httpx.BaseTransport):
    """Answers as the services did; what is uploaded goes to a file."""

    def __init__(self, answers: dict[str, str], left: Path) -> None:
        self._answers = answers
        self._left = left

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            with self._left.open("a") as file:
                file.write(request.content.hex() + "\n")
            return httpx.Response(201, json={"accepted": 1, "failures": []})
        return httpx.Response(200, text=self._answers[f"GET {request.url}"])


class Steps:
    """Counts the moments at which a process may be killed, and kills it at one of them."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def moment(self) -> None:
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    def around(self, owner: type, name: str) -> None:
        """A moment before and one after every call."""
        call: Callable[..., Any] = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            self.moment()
            found = call(*arguments, **options)
            self.moment()
            return found

        setattr(owner, name, watched)


def live(home: Path, settings: DeviceSettings, transport: Canned) -> None:
    """Play, have the reward, report."""
    with httpx.Client(transport=transport) as http, device(home, settings, http) as one:
        one.reward(one.choose(ARMS), 1.0)
        one.flush()


def device(home: Path, settings: DeviceSettings, http: httpx.Client) -> Device:
    return Device(settings, bytes(32), home, http=http, sleep=lambda _: None)


def killed_at(step: int, home: Path, settings: DeviceSettings, transport: Canned) -> bool:
    """Whether a device was killed at that step; False if it had ended before."""
    child = os.fork()
    if child == 0:
        steps = Steps(step)
        steps.around(DeviceFiles, "write_text")
        steps.around(ParticipationLedger, "_append_line")
        steps.around(Canned, "handle_request")
        live(home, settings, transport)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def examine(home: Path, settings: DeviceSettings, transport: Canned, left: Path) -> None:
    """What a device that was killed does when it is started again."""
    before = sent(left)
    counted = ParticipationLedger(home).batches(settings.plan_id)
    require(not before or counted == [0], "bytes left a device that had not counted them")
    with httpx.Client(transport=transport) as http, device(home, settings, http) as again:
        outcome = again.flush()
        require(outcome in (UploadOutcome.ACCEPTED, UploadOutcome.NOTHING), f"flushed: {outcome}")
        require(again.participations == ([0] if sent(left) else []), "the ledger is wrong")
    require(len(set(sent(left))) <= 1, "other bytes were sent for the same batch")


def sent(left: Path) -> list[str]:
    return left.read_text().split() if left.exists() else []


def require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)


def main() -> None:
    home, told = Path(sys.argv[1]), json.loads(sys.argv[2])
    fixed = told["settings"]
    for name in ("shuffler_keys", "analyzer_keys", "witness_keys"):
        fixed[name] = tuple(fixed[name])
    settings = DeviceSettings(**{**fixed, "transport": Transport(fixed["transport"])})
    left = home.parent / "left"
    transport = Canned(told["answers"], left)
    step = 0
    while killed_at(step, home, settings, transport):
        examine(home, settings, transport, left)
        shutil.rmtree(home, ignore_errors=True)
        left.unlink(missing_ok=True)
        step += 1
    print(step)


if __name__ == "__main__":
    main()
