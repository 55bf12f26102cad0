"""Real services on loopback, and what anybody can do to them over HTTP."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from secrets import token_bytes
from typing import Any

import httpx
import numpy as np

from croupier.client import Client
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.demo.local_services import LocalServices, end_process
from croupier.service.messages.records import Address, make_record
from croupier.service.messages.sealing import NO_PUBLIC_KEY, Binding
from croupier.wire import Transport

USERS, BATCHES = 300, 5
PATIENCE = 60.0


@cache
def attacked_plan() -> Plan:
    return Plan.calibrate(
        "vector-sum",
        epsilon=1.0,
        delta=1e-4,
        dim=3,
        batch_size=USERS,
        horizon=USERS * BATCHES,
        batches="fixed",
        honest_fraction=0.8,
    )


class Laboratory:
    """Both services as processes of their own, and a crowd around them."""

    def __init__(
        self,
        directory: Path,
        plan: Plan | None = None,
        transport: Transport = Transport.BITS,
    ) -> None:
        self.plan = plan or attacked_plan()
        self.services = LocalServices(directory, self.plan, transport)
        self.http = httpx.Client(trust_env=False, timeout=30.0)
        self._models: dict[str, Model] = {}

    # The services

    def directory(self, role: str) -> Path:
        return self.services.directory / role

    def database(self, role: str) -> Path:
        return self.directory(role) / f"{role}.db"

    def kill(self, role: str) -> None:
        self.services.processes[role].send_signal(signal.SIGKILL)
        self.services.processes[role].wait()

    def end(self, role: str) -> None:
        end_process(self.services.processes[role])

    def start(self, role: str, ready: bool = True) -> None:
        self.services._start(role)
        if ready:
            self.services._await_ready(role)

    def command(self, name: str, *options: str, role: str = "shuffler") -> tuple[int, str]:
        """A command of ours in a process of its own."""
        config = str(self.directory(role) / "settings.toml")
        done = subprocess.run(
            [sys.executable, "-m", "croupier.cli.main", name, "--config", config, *options],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def look(self, role: str) -> None:
        """A shell of somebody else opens the database and closes it."""
        query = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); "
        query += "c.execute('SELECT * FROM batches').fetchall(); c.close()"
        subprocess.run([sys.executable, "-c", query, str(self.database(role))], check=True)

    def back_up(self, role: str, copy: Path) -> None:
        """The documented online backup, in a process of its own."""
        code = "import sqlite3, sys; a, b = map(sqlite3.connect, sys.argv[1:]); a.backup(b); "
        code += "a.close(); b.close()"
        subprocess.run(
            [sys.executable, "-c", code, str(self.database(role)), str(copy)], check=True
        )

    def restore(self, role: str, copy: Path) -> None:
        for file in self.directory(role).glob(f"{role}.db*"):
            file.unlink()
        os.link(copy, self.database(role))
        self.database(role).chmod(0o600)

    # What anybody sees

    def get(self, place: str, role: str = "shuffler") -> httpx.Response:
        return self.http.get(f"{self.services.url(role)}{place}")

    def offer(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/plans/{self.plan.id}/batch").json()
        return found

    def ready(self, role: str = "shuffler") -> dict[str, Any]:
        found: dict[str, Any] = self.get("/readyz", role).json()
        return found

    def await_batch(self, index: int) -> dict[str, Any]:
        """The offer, once the batch is open."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self.get(f"/v1/plans/{self.plan.id}/batch")
            if answer.is_success:
                told: dict[str, Any] = answer.json()
                if told["state"] == "open" and told["batch"] >= index:
                    return told
            time.sleep(0.05)
        raise TimeoutError(answer.text)

    def await_answer(self, role: str) -> None:
        """Until the service answers at all."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(httpx.HTTPError):
                if self.get("/healthz", role).is_success:
                    return
            time.sleep(0.05)
        raise TimeoutError(role)

    def await_blocked(self, role: str) -> None:
        """Until the service says that it or the other one was set back."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if any("rolled-back" in one for one in self.ready(role)["waiting_for"]):
                return
            time.sleep(0.05)
        raise TimeoutError(str(self.ready(role)))

    def learnt(self) -> int:
        """From how many batches the analyzer has learnt."""
        told = self.get(f"/v1/plans/{self.plan.id}/ledger", "analyzer").json()
        return len(told["entries"])

    def filled(self) -> int:
        with sqlite3.connect(f"file:{self.database('shuffler')}?mode=ro", uri=True) as found:
            ((count,),) = found.execute("SELECT filled FROM batches ORDER BY batch DESC LIMIT 1")
        found.close()
        return int(count)

    # What anybody sends

    def record(self, offer: dict[str, Any], account: bytes | None = None) -> bytes:
        inner = bytes.fromhex(offer["inner_key"]) if offer["inner_key"] else NO_PUBLIC_KEY
        place = (self.plan.id, offer["batch"], offer["model_version"], offer["model_hash"])
        binding = Binding(Transport[offer["transport"].upper()], *place, inner)
        address = Address(binding, bytes.fromhex(offer["key"]), account or token_bytes(32))
        client = Client(self.plan)
        client.update(self.model(offer["model_hash"]), offer["batch"])
        messages = client.report(np.array([0.6, 0.2, 0.1]), 1.0).messages
        return make_record(self.plan, messages, address)

    def model(self, name: str) -> Model:
        if name not in self._models:
            told = self.get(f"/v1/models/{name}").json()["content"]["model"]
            self._models[name] = Model.from_json(json.dumps(told))
        return self._models[name]

    def post(self, records: bytes) -> httpx.Response:
        place = f"{self.services.url('shuffler')}/v1/plans/{self.plan.id}/reports"
        return self.http.post(place, content=records)

    def send(self, count: int, at_once: int = 50) -> int:
        """Reports of new users for the open batch; how many were acknowledged."""
        offer, taken = self.offer(), 0
        if "batch" not in offer:
            return 0
        for start in range(0, count, at_once):
            few = min(at_once, count - start)
            answer = self.post(b"".join(self.record(offer) for _ in range(few)))
            taken += answer.json().get("accepted", 0) if answer.status_code == 201 else 0
        return taken


@contextmanager
def laboratory(directory: Path) -> Iterator[Laboratory]:
    made = Laboratory(directory / "deployment")
    with made.services, made.http:
        yield made
