"""Both real services in one process, with real devices around them and faults on the wires."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import httpx
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from croupier.plan import Plan
from croupier.service.account_settings import AccountPolicy
from croupier.service.admin.deployment_files import DeploymentFiles, write_deployment
from croupier.service.analyzer.app import AnalyzerApp
from croupier.service.analyzer.parts import assemble_analyzer
from croupier.service.console import analyzer_console, shuffler_console
from croupier.service.device.device import Device
from croupier.service.device.settings import DeviceSettings
from croupier.service.settings import read_settings
from croupier.service.shuffler.app import ShufflerApp
from croupier.service.shuffler.parts import assemble_shuffler
from croupier.wire import Transport

Answer = TypeVar("Answer")
Fault = Callable[[httpx.Request], httpx.Response | None]
"""Sees a device's request first: answers it, raises, or lets it pass."""

SHUFFLER, ANALYZER = 8101, 8102

MEMORY = Path("/dev/shm")


class Wire(httpx.AsyncBaseTransport):
    """From the shuffler to the analyzer and to ``others``; released batches are remembered."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner
        self.others: dict[int | None, httpx.AsyncBaseTransport] = {}
        self.batches: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/batches"):
            self.batches.append(request.content)
        way = self.others.get(request.url.port, self.inner)
        return await way.handle_async_request(request)


class Bridge(httpx.BaseTransport):
    """From devices, which wait for their answers, to applications on an event loop."""

    def __init__(self, town: Town) -> None:
        self._town = town
        self.requests: list[httpx.Request] = []
        self.fault: Fault | None = None
        self.after: Callable[[httpx.Request, httpx.Response], None] | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = None if self.fault is None else self.fault(request)
        if answer is None:
            answer = self._town.run(self._asked(request))
            if self.after is not None:
                self.after(request, answer)
        return answer

    async def _asked(self, request: httpx.Request) -> httpx.Response:
        assert request.url.port == SHUFFLER, "a device talks to the shuffler only"
        inner = httpx.ASGITransport(self._town.shuffler)
        found = await inner.handle_async_request(
            httpx.Request(
                request.method, request.url, headers=request.headers, content=request.content
            )
        )
        return httpx.Response(found.status_code, headers=found.headers, content=await found.aread())

    @property
    def uploads(self) -> list[bytes]:
        """What devices have sent, in order."""
        return [one.content for one in self.requests if one.method == "POST"]


class Town:
    """A shuffler and an analyzer over one plan; batches move when ``carry`` is called."""

    def __init__(
        self,
        directory: Path,
        plan: Plan,
        transport: Transport,
        accounts: AccountPolicy,
        configure: Callable[[DeploymentFiles], None] = lambda _: None,
    ) -> None:
        """``configure`` may change the settings' files before they are read."""
        self.plan = plan
        self.directory = directory
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        layout = write_deployment(
            directory / "services", plan, transport, (SHUFFLER, ANALYZER), accounts=accounts
        )
        configure(layout)
        self.settings = DeviceSettings.of_deployment(directory / "services")
        self.analyzer = AnalyzerApp(
            assemble_analyzer(read_settings(layout.analyzer)), pages=analyzer_console
        )
        self.wire = Wire(httpx.ASGITransport(self.analyzer))
        self.shuffler = ShufflerApp(
            assemble_shuffler(read_settings(layout.shuffler)),
            transport=self.wire,
            pages=shuffler_console,
        )
        self.bridge = Bridge(self)
        self.http = httpx.Client(transport=self.bridge)
        self.slept: list[float] = []
        self.carry()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def carry(self) -> None:
        """Every step that the courier can take."""
        self.run(self.shuffler.courier.settle())

    def restart_shuffler(self) -> None:
        """A new process of it, with the settings and keys that are there now."""
        self.run(self.shuffler.close())
        self.shuffler.parts.database.close()
        settings = read_settings(self._home("shuffler") / "settings.toml")
        self.shuffler = ShufflerApp(
            assemble_shuffler(settings), transport=self.wire, pages=shuffler_console
        )

    def succeed(self, plan: Plan) -> None:
        """Both services go on with a successor of the plan, which has ended; devices do not."""
        settings = self._home("shuffler") / "settings.toml"
        settings.write_text(f'succeeds = "{self.plan.id}"\n{settings.read_text()}')
        for role in ("shuffler", "analyzer"):
            (self._home(role) / "plan.json").write_text(plan.to_json())
        self.run(self.analyzer.close())
        self.analyzer.parts.database.close()
        parts = assemble_analyzer(read_settings(self._home("analyzer") / "settings.toml"))
        self.analyzer = AnalyzerApp(parts, pages=analyzer_console)
        self.wire.inner = httpx.ASGITransport(self.analyzer)
        self.restart_shuffler()
        self.carry()

    def trusting_new_keys(self) -> DeviceSettings:
        """Settings of an app that pins what the analyzer signs with now, and nothing else."""
        public = self.analyzer.parts.keyring.signer.public.hex()
        return replace(self.settings, analyzer_keys=(public,))

    def _home(self, role: str) -> Path:
        return self.directory / "services" / role

    def device(
        self, user: int, settings: DeviceSettings | None = None, name: str | None = None
    ) -> Device:
        """A user's device, by its directory's name the same as before or another one."""
        return Device(
            settings or self.settings,
            hashlib.sha256(f"user {user}".encode()).digest(),
            self.home(name or str(user)),
            http=self.http,
            sleep=self.slept.append,
        )

    def home(self, name: str) -> Path:
        """The directory of a device."""
        return self.directory / "devices" / name

    @property
    def filled(self) -> int:
        """Reports in the open batch."""
        return self.shuffler.parts.store.current(self.plan.id).filled

    @property
    def open_batch(self) -> int:
        return self.shuffler.parts.store.current(self.plan.id).index

    def close(self) -> None:
        self.run(self.shuffler.close())
        self.run(self.analyzer.close())
        self.http.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.shuffler.parts.database.close()
        self.analyzer.parts.database.close()


_written = Plan.to_json
_texts: dict[str, str] = {}


def _remembered(plan: Plan) -> str:
    """The plan's document, whose guarantees take a while to compute."""
    if plan.id not in _texts:
        _texts[plan.id] = _written(plan)
    return _texts[plan.id]


@contextmanager
def town(
    plan: Plan,
    transport: Transport = Transport.BITS,
    accounts: AccountPolicy = AccountPolicy.ANYONE,
    configure: Callable[[DeploymentFiles], None] = lambda _: None,
) -> Iterator[Town]:
    """A town for a while, in memory where there is such a disk, with passphrases soon unlocked."""

    def quick(**options: Any) -> Scrypt:
        return Scrypt(**{**options, "n": 2, "r": 1, "p": 1})

    with (
        mock.patch("croupier.service.keys.keystore.Scrypt", quick),
        mock.patch.object(Plan, "to_json", _remembered),
        tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.exists() else None) as directory,
    ):
        made = Town(Path(directory), plan, transport, accounts, configure)
        try:
            yield made
        finally:
            made.close()


@lru_cache
def two_users_plan(batches: int = 4) -> Plan:
    """Batches of two, in three of which a user may be."""
    return Plan.calibrate(
        "vector-sum",
        dim=2,
        batches="fixed",
        batch_size=2,
        horizon=2 * batches,
        epsilon=4.0,
        delta=1e-2,
        max_participations=3,
    )
