"""Durable reports per second of the shuffler, as a ratio to a bare server on the same machine.

The bare server is Starlette with one route. It commits the bytes of a report to SQLite, in the same
group commit, and does nothing else: no decryption, no checks, no deduplication. Both run in
processes of their own, in turns, under the same load: keep-alive connections, each with one
request in flight.

Goals are judged by medians of the rounds, and for each the other measure is printed beside. One
report against the bare server: per second of processor time, since both do everything in one
process and the clock depends on the disk and on what else runs. Many in a request against one:
reports per second by the clock, since helper processes open their seals on other cores, which is
faster and not less work. Processor time is that of a server and of its helpers. How fast seals are
opened with nothing around it is printed too.

Then the gap: both services run, one batch of ``--users`` reports is filled, and the time from the
last accepted report until the next batch is open is printed, with the shuffler's peak of memory.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import secrets
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from croupier import wire
from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.plan import Plan
from croupier.service.account_settings import AccountPolicy
from croupier.service.admin.deployment_files import DeploymentFiles, write_deployment
from croupier.service.demo.local_services import LocalServices
from croupier.service.http import server
from croupier.service.http.connections import ConnectionLimits
from croupier.service.messages import sealing
from croupier.service.messages.signed_documents import key_id
from croupier.service.settings import read_settings, spare_cores
from croupier.service.shuffler.app import ShufflerApp
from croupier.service.shuffler.group_commit import GroupCommit
from croupier.service.shuffler.parts import assemble_shuffler
from croupier.service.shuffler.rows import Basis
from croupier.service.startup import open_keyring
from croupier.wire import Record, Transport

PER_REQUEST = 32
LEAST_OF_BARE, LEAST_BATCHED = 0.55, 4.0
LONGEST_GAP, MOST_MEMORY = 2.0, 300.0
"""Seconds without an open batch, and megabytes of the shuffler."""
UPLOADED_AT_ONCE = 250
LONGEST = 120.0
"""Seconds after which a load is given up."""


@dataclass(frozen=True)
class Measured:
    """One load: reports and seconds, by the clock and of the server's processors."""

    reports: int
    seconds: float
    processor: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Reports per second."""
        return self.reports / self.seconds

    @property
    def processor_rate(self) -> float:
        """Reports per second of the server's processor time."""
        return self.reports / self.processor


# The two servers


def serve_bare(database: Path) -> None:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    connection = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    for setting in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute("CREATE TABLE reports (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def commit(bodies: Sequence[bytes]) -> list[None]:
        connection.execute("BEGIN IMMEDIATE")
        rows = [(body,) for body in bodies]
        connection.executemany("INSERT INTO reports (body) VALUES (?)", rows)
        connection.execute("COMMIT")
        return [None] * len(bodies)

    commits = GroupCommit(commit, 4096)

    async def report(request: Request) -> JSONResponse:
        await commits.submit([await request.body()])
        return JSONResponse({"accepted": 1, "failures": []}, 201)

    _serve(Starlette(routes=[Route("/v1/plans/{plan}/reports", report, methods=["POST"])]))


def serve_shuffler(settings: Path) -> None:
    app = ShufflerApp(assemble_shuffler(read_settings(settings)))
    app.courier.stop()  # only uploads are measured
    _serve(app)


def _serve(app: Any) -> None:
    bound = server.listen("127.0.0.1", 0)
    print(bound.getsockname()[1], flush=True)
    server.run(app, bound, lambda: None, ConnectionLimits(512, 10.0, 60.0))


# The load


class Connection(asyncio.Protocol):
    """Sends one request after the other, as long as there are any."""

    def __init__(self, requests: list[bytes], latencies: list[float]) -> None:
        self._requests, self._latencies = requests, latencies
        self._answer = b""
        self._sent = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport: Any = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        """Note an answer that is complete, and go on."""
        self._answer += data
        head, found, body = self._answer.partition(b"\r\n\r\n")
        if not found or len(body) < _length(head):
            return
        if not head.startswith(b"HTTP/1.1 201") or json.loads(body)["failures"]:
            self.done.set_exception(RuntimeError(f"refused: {self._answer[:300]!r}"))
            return
        self._latencies.append(time.perf_counter() - self._sent)
        self._answer = b""
        self._next()

    def connection_lost(self, _error: Exception | None) -> None:
        """A server that hangs up early has failed."""
        if not self.done.done():
            self.done.set_exception(RuntimeError("the server closed the connection"))

    def _next(self) -> None:
        if not self._requests:
            self.done.set_result(None)
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(self._requests.pop())


def _length(head: bytes) -> int:
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return int(fields[b"content-length"])


async def send(port: int, requests: list[bytes], connections: int) -> tuple[float, list[float]]:
    loop = asyncio.get_running_loop()
    latencies: list[float] = []
    start = time.perf_counter()
    opened = [
        await loop.create_connection(lambda: Connection(requests, latencies), "127.0.0.1", port)
        for _ in range(connections)
    ]
    await asyncio.wait_for(asyncio.gather(*(one.done for _, one in opened)), LONGEST)
    return time.perf_counter() - start, latencies


def load(port: int, path: str, bodies: Path, size: int, connections: int) -> None:
    """Run in a process of its own; ``size`` is the length of one body."""
    data = bodies.read_bytes()
    head = f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: {size}\r\n\r\n".encode()
    requests = [head + data[start : start + size] for start in range(0, len(data), size)]
    seconds, latencies = asyncio.run(send(port, requests, connections))
    print(json.dumps({"seconds": seconds, "latencies": latencies}))


# Putting them together


def made_plan() -> Plan:
    return Plan.calibrate(
        "vector-sum", dim=5, batch_size=200_000, horizon=200_000, epsilon=1.0, delta=1e-6,
        batches="fixed",
    )  # fmt: skip


def begin(layout: DeploymentFiles) -> tuple[Plan, Basis, bytes]:
    """Open the plan as the courier would; the shuffler's public key."""
    parts = assemble_shuffler(read_settings(layout.shuffler))
    model = Analyzer(parts.plan).model
    basis = Basis(model.version, model.hash)
    parts.store.open_plan(parts.plan, basis)
    parts.database.close()
    return parts.plan, basis, parts.keyring.sealing_key.public_bytes_raw()


def binding(plan: Plan, basis: Basis) -> sealing.Binding:
    return sealing.Binding(Transport.BITS, plan.id, 0, basis.model_version, basis.model_hash)


def openings(settings: Path, bound: sealing.Binding, bodies: Sequence[bytes]) -> float:
    """Seals per second of processor time, opened one after the other."""
    length = len(bodies[0]) - wire.record_length(0)
    found = wire.decode_records(b"".join(bodies), length)
    key = open_keyring(read_settings(settings)).opener(found[0].key_id)
    assert key is not None
    start = time.process_time()
    for one in found:
        sealing.open_report(one.sealed, key, bound, one.report_id)
    return len(found) / (time.process_time() - start)


def records(plan: Plan, basis: Basis, public: bytes, count: int) -> Iterator[bytes]:
    """Reports of ``count`` users, sealed one by one."""
    device = Client(plan)
    device.update(Analyzer(plan).model)
    messages = device.report(np.full(plan.layout.dim, 0.9 / plan.layout.dim**0.5), 1.0).messages
    payload = wire.encode_report(plan.shapes(0), messages)
    bound = binding(plan, basis)
    key = X25519PublicKey.from_public_bytes(public)
    for _ in range(count):
        name = secrets.token_bytes(wire.REPORT_ID)
        sealed = sealing.seal_report(payload, key, bound, name)
        account = secrets.token_bytes(wire.ACCOUNT)
        fields = (Transport.BITS, key_id(public), 0, basis.model_hash, name, account, sealed)
        yield wire.encode_records([Record(*fields)])


@contextmanager
def running(*arguments: str) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its process and port."""
    process = subprocess.Popen([sys.executable, __file__, *arguments], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def processor_seconds(pid: int) -> float:
    """Of a process and its helpers, those that have ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    helpers = [int(child) for one in lists for child in one.read_text().split()]
    return own + sum(processor_seconds(helper) for helper in helpers)


def measure(
    place: tuple[int, int], path: str, bodies: Sequence[bytes], connections: int, reports: int
) -> Measured:
    pid, port = place
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(bodies))
        file.flush()
        size = len(bodies[0])
        before = processor_seconds(pid)
        told = [str(one) for one in (port, path, file.name, size, connections)]
        command = [sys.executable, __file__, "load", *told]
        done = subprocess.run(command, check=True, capture_output=True, timeout=2 * LONGEST)
        spent = processor_seconds(pid) - before
    found = json.loads(done.stdout)
    return Measured(reports, found["seconds"], spent, found["latencies"])


def bench(arguments: argparse.Namespace) -> int:
    count, rounds, connections = arguments.reports, arguments.rounds, arguments.connections
    found: dict[str, list[Measured]] = {"bare": [], "single": [], "batched": []}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        layout = write_deployment(
            Path(directory) / "roles", made_plan(), Transport.BITS, accounts=AccountPolicy.ANYONE
        )
        with layout.shuffler.open("a") as file:
            file.write(f"[limits]\nopeners = {arguments.openers}\n")
        plan, basis, public = begin(layout)
        print(f"sealing {rounds * count * 3:,} reports ...", flush=True)
        sealed = records(plan, basis, public, rounds * count * 3)
        path = f"/v1/plans/{plan.id}/reports"
        with (
            running("bare", f"{directory}/bare.db") as bare,
            running("shuffler", str(layout.shuffler)) as ours,
        ):
            for _ in range(rounds):
                singles = [next(sealed) for _ in range(count)]
                joined = [
                    b"".join(next(sealed) for _ in range(PER_REQUEST))
                    for _ in range(2 * count // PER_REQUEST)
                ]
                found["bare"].append(measure(bare, path, singles, connections, count))
                found["single"].append(measure(ours, path, singles, connections, count))
                many = len(joined) * PER_REQUEST
                found["batched"].append(measure(ours, path, joined, connections // 4, many))
        opened = openings(layout.shuffler, binding(plan, basis), singles)
    print(f"{len(singles[0])} bytes per record, {connections} connections, {rounds} rounds")
    print(f"{arguments.openers} helper processes to open seals")
    print(f"seals alone: {opened:,.0f} opened per CPU-s\n")
    return report(found)


def report(found: dict[str, list[Measured]]) -> int:
    names = {
        "bare": "bare server, one report",
        "single": "shuffler, one report",
        "batched": f"shuffler, {PER_REQUEST} reports",
    }
    print(f"{'per request':<26}{'reports/CPU-s':>14}{'reports/s':>11}{'p50 ms':>9}{'p99 ms':>9}")
    for kind, runs in found.items():
        every = sorted(second for run in runs for second in run.latencies)
        p50, p99 = (1000 * every[int(part * (len(every) - 1))] for part in (0.5, 0.99))
        rates = f"{_middle(runs):>14,.0f}{_clock(runs):>11,.0f}"
        print(f"{names[kind]:<26}{rates}{p50:>9.1f}{p99:>9.1f}")
    bare, single, batched = found["bare"], found["single"], found["batched"]
    ratio, gain = _middle(single) / _middle(bare), _clock(batched) / _clock(single)
    print(f"\none report against the bare server, by CPU: {_verdict(ratio, LEAST_OF_BARE)}")
    print(f"  the same by the clock: {_clock(single) / _clock(bare):.2f}")
    print(f"{PER_REQUEST} per request against one, by the clock: {_verdict(gain, LEAST_BATCHED)}")
    print(f"  the same by CPU: {_middle(batched) / _middle(single):.2f}")
    return 0 if ratio >= LEAST_OF_BARE and gain >= LEAST_BATCHED else 1


# The gap


def gap_plan(users: int, dim: int) -> Plan:
    return Plan.calibrate(
        "vector-sum", dim=dim, batch_size=users, horizon=2 * users, epsilon=1.0, delta=1e-6,
        batches="fixed",
    )  # fmt: skip


def bench_gap(users: int, dim: int, directory: str | None) -> int:
    """Seconds from the last accepted report to the next open batch, with real processes."""
    made = gap_plan(users, dim)
    with (
        tempfile.TemporaryDirectory(dir=directory) as place,
        LocalServices(Path(place), made, more="", first="") as services,
        httpx.Client(base_url=services.url("shuffler"), trust_env=False, timeout=LONGEST) as http,
    ):
        asked = f"/v1/plans/{made.id}/batch"
        offer = _await_open(http, asked, 0)
        basis = Basis(offer["model_version"], offer["model_hash"])
        sealed = records(made, basis, bytes.fromhex(offer["key"]), users)
        bodies = _joined(sealed, UPLOADED_AT_ONCE)
        for body in bodies:
            answer = http.post(f"/v1/plans/{made.id}/reports", content=body).raise_for_status()
            if answer.json()["failures"]:
                raise RuntimeError(f"refused: {answer.text[:300]}")
        accepted = time.perf_counter()
        _await_open(http, asked, 1)
        seconds = time.perf_counter() - accepted
        memory = {role: _peak(process.pid) for role, process in services.processes.items()}
    print(f"\nbetween two batches of {users:,} reports, dim {dim}:")
    print(f"  no batch open: {_at_most(seconds, LONGEST_GAP, 's')}")
    print(f"  peak of the shuffler: {_at_most(memory['shuffler'], MOST_MEMORY, 'MB')}")
    print(f"  peak of the analyzer: {memory['analyzer']:.0f} MB")
    return 0 if seconds <= LONGEST_GAP and memory["shuffler"] <= MOST_MEMORY else 1


def _joined(sealed: Iterator[bytes], count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while body := b"".join(itertools.islice(sealed, count)):
        bodies.append(body)
    return bodies


def _await_open(http: httpx.Client, place: str, index: int) -> dict[str, Any]:
    """What devices are told of the batch, once it is open."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        answer = http.get(place)
        if answer.is_success and answer.json()["batch"] >= index:
            told: dict[str, Any] = answer.json()
            return told
        time.sleep(0.01)
    raise RuntimeError(f"batch {index} does not open: {answer.text[:300]}")


def _peak(pid: int) -> float:
    """Megabytes that a process has had at most."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(line) / 1024


def _at_most(found: float, goal: float, unit: str) -> str:
    verdict = "met" if found <= goal else "MISSED"
    return f"{found:.3g} {unit} (goal: at most {goal:g} {unit}, {verdict})"


def _verdict(found: float, goal: float) -> str:
    return f"{found:.2f} (goal: at least {goal:g}, {'met' if found >= goal else 'MISSED'})"


def _middle(runs: list[Measured]) -> float:
    return statistics.median(run.processor_rate for run in runs)


def _clock(runs: list[Measured]) -> float:
    return statistics.median(run.rate for run in runs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command")
    for name, number in (("bare", 1), ("shuffler", 1), ("load", 5)):
        commands.add_parser(name).add_argument("told", nargs=number)
    commands.add_parser("gap", help="only the time without an open batch")
    parser.add_argument("--users", type=int, default=20_000, help="reports of a batch, for the gap")
    parser.add_argument("--dim", type=int, default=20, help="of the plan, for the gap")
    parser.add_argument("--reports", type=int, default=2400, help="single posts in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--openers", type=int, default=spare_cores(), help="helper processes")
    parser.add_argument("--directory", help="where the databases are; a disk worth measuring")
    arguments = parser.parse_args()
    if arguments.command == "bare":
        serve_bare(Path(arguments.told[0]))
    elif arguments.command == "shuffler":
        serve_shuffler(Path(arguments.told[0]))
    elif arguments.command == "load":
        port, path, bodies, size, connections = arguments.told
        load(int(port), path, Path(bodies), int(size), int(connections))
    elif arguments.command == "gap":
        return bench_gap(arguments.users, arguments.dim, arguments.directory)
    else:
        met = bench(arguments), bench_gap(arguments.users, arguments.dim, arguments.directory)
        return max(met)
    return 0


if __name__ == "__main__":
    sys.exit(main())
