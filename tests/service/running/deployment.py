"""Both services in one process: real applications, spoken to over ASGI, driven step by step."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from croupier import wire
from croupier.client import Client
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.account_settings import AccountPolicy
from croupier.service.admin.deployment_files import write_deployment
from croupier.service.analyzer.app import AnalyzerApp
from croupier.service.analyzer.parts import AnalyzerParts, assemble_analyzer
from croupier.service.console import analyzer_console, shuffler_console
from croupier.service.messages.records import Address, make_record
from croupier.service.messages.sealing import NO_PUBLIC_KEY, Binding
from croupier.service.messages.signed_documents import sign_batch, sign_model, verify_model
from croupier.service.messages.transports import plan_transport
from croupier.service.settings import Settings, read_settings
from croupier.service.shuffler.app import ShufflerApp
from croupier.service.shuffler.parts import ShufflerParts, assemble_shuffler
from croupier.service.storage.database import Database
from croupier.shuffler import Report
from croupier.wire import Record, Transport

from ..beside_the_keys import analyzer_store, beside, shuffler_store

USERS, BATCHES = 6, 3


def made_plan(protocol: str = "vector-sum", **changes: object) -> Plan:
    """A small plan that keeps what it claims."""
    given: dict[str, Any] = {
        "dim": 2, "batch_size": USERS, "horizon": USERS * BATCHES, "epsilon": 8.0, "delta": 1e-2,
        "batches": "fixed", "max_participations": 2, "honest_fraction": 1.0,
    }  # fmt: skip
    return Plan.calibrate(protocol, **{**given, **changes})


@dataclass(frozen=True)
class Roles:
    """The parts of both roles, as made from their directories; keys are slow to unlock."""

    directory: Path
    shuffler: ShufflerParts
    analyzer: AnalyzerParts

    @classmethod
    def make(
        cls,
        directory: Path,
        plan: Plan,
        transport: Transport,
        accounts: AccountPolicy = AccountPolicy.ANYONE,
    ) -> Roles:
        layout = write_deployment(directory, plan, transport, accounts=accounts)
        analyzer = assemble_analyzer(read_settings(layout.analyzer))
        return cls(directory, assemble_shuffler(read_settings(layout.shuffler)), analyzer)

    @property
    def plan(self) -> Plan:
        return self.shuffler.plan

    def close(self) -> None:
        self.shuffler.database.close()
        self.analyzer.database.close()


def account(user: int) -> bytes:
    return hashlib.sha256(f"account of user {user}".encode()).digest()


class Deployment:
    """Both applications on databases of their own; the courier moves when it is told to."""

    def __init__(
        self,
        roles: Roles,
        place: Callable[[], str],
        change: Callable[[Settings], Settings] = lambda settings: settings,
    ) -> None:
        self.plan = roles.plan
        self.runner = asyncio.Runner()
        self.urls = {"shuffler": place(), "analyzer": place()}
        self.analyzer = AnalyzerApp(
            self._analyzer_parts(roles.analyzer),
            transport=Later(lambda: self.shuffler),
            pages=analyzer_console,
        )
        self.sent: list[httpx.Request] = []
        self.shuffler = self.another_shuffler(roles, change)

    def another_shuffler(
        self, roles: Roles, change: Callable[[Settings], Settings] = lambda settings: settings
    ) -> ShufflerApp:
        """One more front end over the same database; without helpers, unless told."""
        database = Database.open(self.urls["shuffler"], "shuffler")
        parts = roles.shuffler
        alone = replace(parts.settings.limits, openers=0)
        kept = replace(parts.settings.keys, never_back_up=beside(database))
        settings = change(replace(parts.settings, limits=alone, keys=kept))
        store = shuffler_store(
            database,
            transport=partial(plan_transport, settings.transport),
            sign=lambda body: sign_batch(body, parts.keyring.signer),
        )
        made = replace(parts, settings=settings, database=database, store=store)
        way = Noting(self.sent, httpx.ASGITransport(self.analyzer))
        return ShufflerApp(made, transport=way, pages=shuffler_console)

    def _analyzer_parts(self, parts: AnalyzerParts) -> AnalyzerParts:
        database = Database.open(self.urls["analyzer"], "analyzer")
        store = analyzer_store(
            database, publish=lambda model, entry: sign_model(model, entry, parts.keyring.signer)
        )
        store.open_plan(parts.plan)
        return replace(parts, database=database, store=store)

    # Requests

    def ask(self, app: Any, method: str, path: str, **more: Any) -> httpx.Response:
        async def call() -> httpx.Response:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, path, **more)

        return self.runner.run(call())

    def get(self, path: str, **more: Any) -> httpx.Response:
        """From the shuffler."""
        return self.ask(self.shuffler, "GET", path, **more)

    def read(self, path: str, **more: Any) -> httpx.Response:
        """From the analyzer."""
        return self.ask(self.analyzer, "GET", path, **more)

    def post(self, *records: bytes, **more: Any) -> httpx.Response:
        """Records in one upload."""
        content = b"".join(records)
        return self.ask(self.shuffler, "POST", self.reports, content=content, **more)

    @property
    def reports(self) -> str:
        return f"/v1/plans/{self.plan.id}/reports"

    def carry(self) -> None:
        """Every step that the courier can take."""
        self.runner.run(self.shuffler.courier.settle())

    def begin(self) -> Deployment:
        self.carry()
        return self

    # Devices

    def batch(self) -> dict[str, Any]:
        answer = self.get(f"/v1/plans/{self.plan.id}/batch")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def batch_filled(self) -> int:
        """Reports in the newest batch."""
        return self.shuffler.parts.store.current(self.plan.id).filled

    def model(self) -> Model:
        text = self.read(f"/v1/plans/{self.plan.id}/model").content
        return verify_model(text, self.shuffler.parts.trusted).model

    def report(self, reward: float = 1.0, feature: Sequence[float] = (0.6, 0.2)) -> Report:
        """What a device randomises for the open batch."""
        device = Client(self.plan)
        device.update(self.model(), self.batch()["batch"])
        return device.report(np.array(feature), reward)

    def record(self, user: int, report: Report | None = None, **changes: Any) -> bytes:
        """A user's upload for the open batch; ``changes`` are to what it is bound to."""
        told = self.batch()
        inner = bytes.fromhex(told["inner_key"]) if told["inner_key"] else NO_PUBLIC_KEY
        place = (self.plan.id, told["batch"], told["model_version"], told["model_hash"])
        binding = Binding(Transport[told["transport"].upper()], *place, inner)
        address = Address(replace(binding, **changes), bytes.fromhex(told["key"]), account(user))
        return make_record(self.plan, (report or self.report()).messages, address)

    def fill(self, users: Iterable[int]) -> list[Report]:
        """One batch of these users; what each of them reported."""
        sent = []
        for user in users:
            sent.append(self.report(reward=user % 2, feature=(0.1 * (user % 5), 0.3)))
            answer = self.post(self.record(user, sent[-1]))
            assert answer.status_code == 201, answer.text
        return sent

    def close_shuffler(self) -> None:
        self.runner.run(self.shuffler.close())
        self.shuffler.parts.database.close()

    def close(self) -> None:
        self.close_shuffler()
        self.runner.run(self.analyzer.close())
        self.runner.close()
        self.analyzer.parts.database.close()


class Noting(httpx.AsyncBaseTransport):
    """Passes requests on and keeps them."""

    def __init__(self, sent: list[httpx.Request], inner: httpx.AsyncBaseTransport) -> None:
        self._sent, self._inner = sent, inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._sent.append(request)
        return await self._inner.handle_async_request(request)


class Later(httpx.AsyncBaseTransport):
    """A way to an application that is made afterwards."""

    def __init__(self, app: Callable[[], Any]) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await httpx.ASGITransport(self._app()).handle_async_request(request)


def altered(record: bytes, **changes: Any) -> bytes:
    """A record with some of its fields changed."""
    length = len(record) - wire.record_length(0)
    (decoded,) = wire.decode_records(record, length)
    return wire.encode_records([Record(**{**vars(decoded), **changes})])


def reason(response: httpx.Response) -> str:
    """The problem that an answer names, after checking that it is a proper one."""
    assert response.headers["content-type"] == "application/problem+json"
    told = response.json()
    assert told["status"] == response.status_code
    assert told["title"]
    return str(told["type"]).removeprefix("urn:croupier:problem:")
