"""The three roles live on this machine: two services and a crowd of devices, all real processes."""

from __future__ import annotations

import itertools
import json
import math
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from croupier import wire
from croupier.arguments import whole
from croupier.plan import Plan
from croupier.service.demo import reward_file
from croupier.service.demo.comparison import BatchMeans, compare
from croupier.service.demo.local_services import (
    ROLES,
    LocalError,
    LocalServices,
    end_process,
    fetch_ledger,
    fetch_model_version,
    start_process,
)
from croupier.service.demo.reward_file import RewardFile
from croupier.service.demo.simulated_users import DeviceRound, SimulatedUsers, WorkerTask
from croupier.service.messages.sealing import OVERHEAD
from croupier.service.messages.signed_documents import LedgerEntry, verify_chain

DEVICES, LEAST_DEVICES = 2000, 100
DIM, ARMS = 3, 5
EPSILON, DELTA = 1.0, 1e-5
CONSTANT = math.sqrt(0.5)
"""The last feature of all simulated users."""
FIRST_BATCH = 100
WORKERS = 2
LOOK = 0.2
SETTLE_SECONDS = 30.0

Progress = Callable[[int, int], None]
Announce = Callable[[str, str], None]
"""Hears where each role's page is, once it answers."""


@dataclass(frozen=True)
class DemoReport:
    """What happened: mean rewards by batch, what was spent, and where it can be looked at."""

    plan: str
    devices: int
    accepted: int
    epsilon: float
    delta: float
    epsilon_certified: float
    record_bytes: int
    batches: list[BatchMeans]
    ledger_entries: int
    ledger_head: str
    model_version: int
    seconds: float
    directory: str

    @property
    def content(self) -> dict[str, Any]:
        """Plain values, for a document."""
        return {"kind": "demo", **asdict(self)}


class StopSignal:
    """Ctrl-C and its kin: noted when they come, heeded where no process is half started."""

    def __init__(self) -> None:
        self._asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def heed(self) -> None:
        """Stop here, if asked to."""
        if self._asked:
            raise KeyboardInterrupt

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True


def demo_plan(devices: int) -> Plan:
    """Growing batches at epsilon 1: enough for a few thousand users to be served well."""
    whole("devices", devices, LEAST_DEVICES)
    return Plan.calibrate(
        "vector-sum",
        dim=DIM,
        batch_size=FIRST_BATCH,
        horizon=devices,
        epsilon=EPSILON,
        delta=DELTA,
        constant_feature=(DIM - 1, CONSTANT),
    )


def run_demo(
    directory: Path, devices: int, seed: int, progress: Progress, announce: Announce
) -> DemoReport:
    """Run both services and all devices; whatever happens, no process is left running."""
    started = time.monotonic()
    plan = demo_plan(devices)
    with StopSignal() as stop, ExitStack() as stack:
        place = directory / "services"
        services = stack.enter_context(
            LocalServices(place, plan, first=reward_file.SETTING, between=stop.heed)
        )
        for role in ROLES:
            announce(role, services.url(role))
        known = RewardFile(place / "analyzer" / reward_file.FILE, plan)
        played = []
        for one in _start_workers(stack, services, directory / "devices", devices, seed, progress):
            known.add(one)
            played.append(one)
        entries = _settled_ledger(services, plan, played)
        version = fetch_model_version(services.settings)
    people = SimulatedUsers(DIM, ARMS, seed)
    return DemoReport(
        plan.id,
        devices,
        sum(one.batch is not None for one in played),
        EPSILON,
        DELTA,
        plan.promise.epsilon(DELTA),
        wire.record_length(wire.report_length(plan.shapes(0)) + OVERHEAD),
        compare(plan, played, people),
        len(entries),
        verify_chain(entries),
        version,
        time.monotonic() - started,
        str(directory),
    )


def _start_workers(
    stack: ExitStack,
    services: LocalServices,
    directory: Path,
    devices: int,
    seed: int,
    progress: Progress,
) -> Iterator[DeviceRound]:
    """Everything that the devices did, in worker processes."""
    lines: queue.Queue[str] = queue.Queue()
    for first in range(WORKERS):
        crowd = WorkerTask(
            services.settings, str(directory), DIM, ARMS, seed, devices, first, WORKERS
        )
        worker = start_process(
            "croupier.service.demo.simulated_users", [crowd.to_json()], subprocess.PIPE
        )
        stack.callback(end_process, worker)
        threading.Thread(target=_forward_lines, args=(worker, lines), daemon=True).start()
    return _collect_rounds(lines, services, devices, progress)


def _forward_lines(worker: subprocess.Popen[bytes], lines: queue.Queue[str]) -> None:
    """What a worker prints, line by line, and an empty line when it ends."""
    if worker.stdout is not None:
        for line in worker.stdout:
            lines.put(line.decode(errors="replace").strip())
    lines.put("")


def _collect_rounds(
    lines: queue.Queue[str], services: LocalServices, devices: int, progress: Progress
) -> Iterator[DeviceRound]:
    """The devices as they finish, until every worker has ended."""
    done, ended = 0, 0
    while ended < WORKERS:
        try:
            line = lines.get(timeout=LOOK)
        except queue.Empty:
            services.require_running()
            continue
        services.between()
        if not line:
            ended += 1
            continue
        yield _read_round(line)
        done += 1
        progress(done, devices)
    if done != devices:
        raise LocalError(f"only {done} of {devices} devices came back")


def _read_round(line: str) -> DeviceRound:
    try:
        return DeviceRound(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise LocalError(f"a worker said: {line}") from error


def _settled_ledger(
    services: LocalServices, plan: Plan, played: list[DeviceRound]
) -> list[LedgerEntry]:
    """The ledger once it has every batch that was completed."""
    accepted = sum(one.batch is not None for one in played)
    totals = itertools.accumulate(plan.schedule.sizes())
    complete = sum(total <= accepted for total in totals)
    end = time.monotonic() + SETTLE_SECONDS
    while len(entries := fetch_ledger(services.settings)) < complete:
        services.require_running()
        if time.monotonic() > end:
            raise LocalError(f"{len(entries)} of {complete} batches were learnt from in time")
        time.sleep(LOOK)
    return entries
