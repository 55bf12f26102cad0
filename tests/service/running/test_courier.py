"""The courier: whatever is lost on the way, a batch arrives once, and the same bytes each time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from croupier.errors import CroupierError
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keylist import KeyList
from croupier.service.keys.peer_keys import PAUSE
from croupier.service.messages.signed_documents import sign_batch, verify_model
from croupier.service.settings import BatchSettings, CourierSettings, Settings, ShortBatchPolicy
from croupier.service.shuffler.analyzer_client import UndeliveredError
from croupier.service.shuffler.courier import Courier
from croupier.service.shuffler.rows import BatchState
from croupier.wire import Transport

from .conftest import Deploy
from .deployment import USERS, Deployment, Roles, made_plan, reason

Answering = Callable[[httpx.Request, httpx.Response], httpx.Response]


class Unreliable(httpx.AsyncBaseTransport):
    """A network to the analyzer that fails as it is told to; ``failures`` are used up."""

    def __init__(self, app: Any, *failures: Answering | Exception) -> None:
        self._inner = httpx.ASGITransport(app)
        self.failures = list(failures)
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            self.bodies.append(request.content)
        failure = self.failures.pop(0) if self.failures and request.method == "POST" else None
        if isinstance(failure, Exception):
            raise failure
        response = await self._inner.handle_async_request(request)
        return response if failure is None else failure(request, response)


def lost(_request: httpx.Request, _response: httpx.Response) -> httpx.Response:
    """The analyzer has done it, and nobody hears of it."""
    raise httpx.ReadTimeout("lost")


def answering(status: int, content: bytes) -> Answering:
    return lambda _request, _response: httpx.Response(status, content=content)


def courier(services: Deployment, transport: httpx.AsyncBaseTransport) -> Courier:
    """Another courier of the same shuffler, over another network."""
    app = services.shuffler
    return Courier(app.parts, app.open_batch, app.metrics, transport)


def state(services: Deployment) -> tuple[int, BatchState]:
    batch = services.shuffler.parts.store.current(services.plan.id)
    return batch.index, batch.state


FAILURES = [
    httpx.ConnectError("refused"),
    lost,
    answering(500, b"oops"),
    answering(200, b"no json"),
    answering(200, b'{"model_version": 1}'),
    answering(200, b'{"model_version": 1, "model_hash": "' + b"00" * 32 + b'"}'),
    answering(503, b'{"type": "urn:croupier:problem:draining", "title": "", "status": 503}'),
]


@pytest.mark.parametrize("transport", [Transport.BITS, Transport.SHARES])
@pytest.mark.parametrize("failure", FAILURES)
def test_a_batch_arrives_once_whatever_happens_to_the_first_try(
    deploy: Deploy, transport: Transport, failure: Any
) -> None:
    services = deploy(transport)
    services.fill(range(USERS))
    network = Unreliable(services.analyzer, failure)
    carrying = courier(services, network)
    with pytest.raises(CroupierError):
        services.runner.run(carrying.settle())
    assert state(services) == (0, BatchState.RELEASED)
    services.runner.run(carrying.settle())
    assert state(services) == (1, BatchState.OPEN)
    assert network.bodies[0] == network.bodies[1]
    assert services.model().version == 1
    assert len(services.analyzer.parts.store.ledger(services.plan.id)) == 1
    assert len(services.shuffler.parts.store.ledger(services.plan.id)) == 1
    services.runner.run(carrying.close())


def test_the_second_half_of_a_batch_of_shares_can_be_lost_too(deploy: Deploy) -> None:
    services = deploy(Transport.SHARES)
    services.fill(range(USERS))
    arrives: Answering = lambda _, answer: answer  # noqa: E731
    network = Unreliable(services.analyzer, arrives, lost, arrives, httpx.ConnectError("no"))
    carrying = courier(services, network)
    for _ in range(2):
        with pytest.raises(UndeliveredError, match="did not answer"):
            services.runner.run(carrying.settle())
    services.runner.run(carrying.settle())
    assert state(services) == (1, BatchState.OPEN)
    shares = {body for body in network.bodies if body != network.bodies[0]}
    assert len(shares) == 1
    services.runner.run(carrying.close())


def test_an_analyzer_that_names_another_set_gets_no_second_sum(deploy: Deploy) -> None:
    """The difference of two sums would be somebody's report."""
    services = deploy(Transport.SHARES)
    services.fill(range(USERS))
    fewer = answering(200, b'{"batch": 0, "opened": "Hw=="}')
    network = Unreliable(services.analyzer, lambda _, answer: answer, lost, fewer)
    carrying = courier(services, network)
    for words in ("did not answer", "another set"):
        with pytest.raises(CroupierError, match=words):
            services.runner.run(carrying.settle())
    services.runner.run(carrying.settle())
    assert state(services) == (1, BatchState.OPEN)
    services.runner.run(carrying.close())


def test_an_analyzer_that_names_few_reports_gets_no_sum(deploy: Deploy) -> None:
    """The batch begins again, and what the analyzer has of it will never say anything."""
    services = deploy(Transport.SHARES)
    services.fill(range(USERS))
    network = Unreliable(services.analyzer, answering(200, b'{"batch": 0, "opened": "AQ=="}'))
    carrying = courier(services, network)
    with pytest.raises(CroupierError, match="1 of 6 reports opened, at least 6 must"):
        services.runner.run(carrying.settle())
    services.runner.run(carrying.settle())
    assert state(services) == (0, BatchState.OPEN)
    assert len(network.bodies) == 1
    assert "croupier_batch_attempt 1.0" in services.get("/metrics").text
    refused = 'croupier_deliveries_total{reason="guarantee-not-met"} 1.0'
    assert refused in services.get("/metrics").text
    services.runner.run(carrying.close())


def test_a_model_that_the_analyzer_did_not_sign_opens_no_batch(
    deploy: Deploy, roles_of: Callable[[Transport], Roles]
) -> None:
    services = deploy(begun=False)
    stranger = {b"12345678": next(iter(services.analyzer.parts.trusted.values()))}
    parts = replace(services.shuffler.parts, trusted=stranger)
    app = services.shuffler
    carrying = Courier(parts, app.open_batch, app.metrics, httpx.ASGITransport(services.analyzer))
    with pytest.raises(CroupierError, match="not signed by a key that is trusted"):
        services.runner.run(carrying.settle())
    assert app.open_batch.batch is None
    services.runner.run(carrying.close())


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_processes_that_race_release_a_batch_once(
    deploy: Deploy, roles_of: Callable[[Transport], Roles], kind: str
) -> None:
    services = deploy(kind=kind)
    others = [services.another_shuffler(roles_of(Transport.BITS)) for _ in range(3)]

    async def race() -> None:
        couriers = [services.shuffler.courier, *(app.courier for app in others)]
        for _ in range(4):
            await asyncio.gather(*(one.step() for one in couriers))

    for batch in range(2):
        services.fill(range(batch * USERS, (batch + 1) * USERS))
        services.runner.run(race())
        assert state(services) == (batch + 1, BatchState.OPEN)
    sent = [one.content for one in services.sent if one.url.path.endswith("/batches")]
    assert len(set(sent)) == 2
    entries = services.analyzer.parts.store.ledger(services.plan.id)
    assert [entry.batch for entry in entries] == [0, 1]
    for app in others:
        services.runner.run(app.close())
        app.parts.database.close()


def test_front_ends_that_missed_a_step_still_take_reports(
    deploy: Deploy, roles_of: Callable[[Transport], Roles]
) -> None:
    """Another process opened the next batch; this one hears of it from the first report."""
    services = deploy(kind="postgresql")
    other = services.another_shuffler(roles_of(Transport.BITS))
    late = services.record(100)
    assert services.ask(other, "POST", services.reports, content=late).status_code == 201
    services.fill(range(USERS - 1))
    services.carry()
    other.open_batch._seen -= 1.0
    sent = services.record(200)
    assert services.ask(other, "POST", services.reports, content=sent).status_code == 201
    services.runner.run(other.close())
    other.parts.database.close()


# Short batches


def short(policy: ShortBatchPolicy, **more: Any) -> Callable[[Settings], Settings]:
    return lambda settings: replace(
        settings, batches=BatchSettings(policy, after_seconds=0.0, **more)
    )


def test_a_short_batch_waits_by_default(services: Deployment) -> None:
    services.fill(range(USERS - 1))
    services.carry()
    assert state(services) == (0, BatchState.OPEN)


def test_a_short_batch_is_padded_where_that_is_the_policy(deploy: Deploy) -> None:
    services = deploy(change=short(ShortBatchPolicy.PAD, floor=0.5))
    services.fill(range(2))
    services.carry()
    assert state(services) == (0, BatchState.OPEN)
    services.fill(range(2, 3))
    services.carry()
    services.carry()
    assert state(services) == (1, BatchState.OPEN)


@pytest.mark.parametrize("transport", list(Transport))
def test_padding_looks_like_any_report(deploy: Deploy, transport: Transport) -> None:
    services = deploy(transport, change=short(ShortBatchPolicy.PAD, floor=0.1))
    services.fill(range(1))
    for _ in range(2):
        services.carry()
    assert state(services) == (1, BatchState.OPEN)
    assert services.model().version == 1


def test_a_short_batch_is_dropped_where_that_is_the_policy(deploy: Deploy) -> None:
    services = deploy(change=short(ShortBatchPolicy.DROP))
    services.fill(range(2))
    services.carry()
    batch = services.shuffler.parts.store.current(services.plan.id)
    assert (batch.index, batch.filled, batch.dropped) == (0, 0, 2)
    assert services.sent[-1].method == "GET"


# The loop


def test_the_loop_waits_out_trouble_and_then_carries_on(deploy: Deploy) -> None:
    quick = CourierSettings(every=0.01, first_wait=0.01, longest_wait=0.02, timeout=5, lease=6)
    services = deploy(change=lambda settings: replace(settings, courier=quick))
    services.fill(range(USERS))
    down = [httpx.ConnectError("down") for _ in range(3)]
    network = Unreliable(services.analyzer, *down)
    carrying = courier(services, network)

    async def watch() -> list[str]:
        running = asyncio.create_task(carrying.run())
        seen = []
        while state(services) != (1, BatchState.OPEN):
            seen.append(carrying.trouble)
            await asyncio.sleep(0.005)
        carrying.stop()
        await asyncio.wait_for(running, 10)
        return seen

    seen = services.runner.run(watch())
    assert "unreachable" in seen
    assert len(network.bodies) == 4
    assert len(set(network.bodies)) == 1
    services.runner.run(carrying.close())


@pytest.mark.parametrize("transport", [Transport.BITS, Transport.SHARES])
def test_keys_of_a_rotated_analyzer_are_followed(
    deploy: Deploy, tmp_path: Path, transport: Transport
) -> None:
    """The shuffler trusts the old signing key, which vouches for the new one."""
    roles = Roles.make(tmp_path / "roles", made_plan(), transport)
    services = deploy(roles=roles)
    ring = services.analyzer.parts.keyring
    first, report = services.batch()["inner_key"], services.report()
    ring.new()
    ring.rotate()
    for _ in range(2):
        services.post(*(services.record(user, report) for user in range(USERS)))
        services.carry()
    text = services.read("/v1/keys").content
    keys = KeyList.verify(text, "analyzer", services.shuffler.parts.trusted)
    newest = keys.sealing_key.public.hex()
    assert newest != first
    assert services.batch()["inner_key"] == (None if transport is Transport.BITS else newest)
    model = verify_model(
        services.read(f"/v1/plans/{services.plan.id}/model").content, keys.trusted()
    )
    assert model.model.version == 2
    roles.close()


def test_keys_of_a_rotated_shuffler_are_followed(deploy: Deploy, tmp_path: Path) -> None:
    """The analyzer asks for the list when a signature is by a key that it does not know."""
    roles = Roles.make(tmp_path / "roles", made_plan(), Transport.BITS)
    services = deploy(roles=roles)
    old = services.record(0)
    ring = services.shuffler.parts.keyring
    ring.new()
    ring.rotate()
    assert services.post(old).status_code == 201
    services.fill(range(1, USERS))
    services.carry()
    assert services.model().version == 1
    roles.close()


def test_an_analyzer_that_has_replaced_its_keys_still_gets_the_open_batch(
    deploy: Deploy, tmp_path: Path
) -> None:
    """Its newest model is signed by a key that is trusted no more, but was when we saw it."""
    roles = Roles.make(tmp_path / "roles", made_plan(), Transport.BITS)
    services = deploy(roles=roles)
    ring = services.analyzer.parts.keyring
    old = ring.signer
    services.fill(range(USERS))
    ring.new()
    ring.rotate(grace=60)
    services.runner.run(services.shuffler.courier.refresh_mirror())
    ring.retire(time.time() + 60)
    services.runner.run(services.shuffler.courier.refresh_mirror())
    trust = services.shuffler.courier._analyzer._trust
    assert set(trust.keys) == {ring.signer.id} != {old.id}
    services.carry()
    assert services.shuffler.parts.store.current(services.plan.id).index == 1
    roles.close()


def test_a_batch_on_its_way_is_signed_anew_when_the_shuffler_replaces_its_keys(
    deploy: Deploy, tmp_path: Path
) -> None:
    roles = Roles.make(tmp_path / "roles", made_plan(), Transport.BITS)
    services = deploy(roles=roles)
    store, ring = services.shuffler.parts.store, services.shuffler.parts.keyring
    services.fill(range(USERS))
    assert store.seal(services.plan.id)
    assert store.release(services.plan.id) is not None
    ring.new()
    ring.rotate(grace=60)
    # The analyzer hears of both keys, and a moment later of one of them only.
    signature = sign_batch(b"", ring.signer)
    trust = services.analyzer._peer_keys
    services.runner.run(trust.meet(signature))
    ring.retire(time.time() + 60)
    trust._asked[True] = -PAUSE
    services.carry()
    assert set(trust.keys) == {ring.signer.id}
    assert services.model().version == 1
    roles.close()


def test_a_retired_key_of_the_shuffler_signs_no_batch(deploy: Deploy, tmp_path: Path) -> None:
    roles = Roles.make(tmp_path / "roles", made_plan(), Transport.BITS)
    services = deploy(roles=roles)
    store, ring = services.shuffler.parts.store, services.shuffler.parts.keyring
    old, trust = ring.signer, services.analyzer._peer_keys
    services.fill(range(USERS))
    store.seal(services.plan.id)
    sent = store.release(services.plan.id)
    assert sent is not None
    ring.new()
    ring.rotate(grace=60)
    services.runner.run(trust.meet(sign_batch(b"", ring.signer)))
    ring.retire(time.time() + 60)
    place = f"/v1/plans/{services.plan.id}/batches"
    token = f"Bearer {services.shuffler.parts.peer_token}"
    headers = {"authorization": token, "croupier-signature": sign_batch(sent.body, old)}
    answer = services.ask(services.analyzer, "POST", place, content=sent.body, headers=headers)
    assert reason(answer) == "bad-signature"
    assert services.model().version == 0
    roles.close()


def test_a_successor_carries_on_what_users_have_spent(deploy: Deploy, tmp_path: Path) -> None:
    first = deploy()
    for batch in range(3):
        users = range(USERS) if batch < 2 else range(USERS, 2 * USERS)
        first.fill(users)
        first.carry()
    roles = Roles.make(tmp_path / "roles", made_plan(epsilon=9.0), Transport.BITS)
    urls = iter([first.urls["shuffler"], str(tmp_path / "analyzer.db")])
    second = Deployment(
        roles, lambda: next(urls), lambda settings: replace(settings, succeeds=first.plan.id)
    ).begin()
    assert reason(second.post(second.record(0))) == "participation-limit"
    assert second.post(second.record(USERS)).status_code == 201
    second.close()
    roles.close()


def test_the_end_of_a_plan_is_told_after_its_successor_too(deploy: Deploy, tmp_path: Path) -> None:
    first = deploy()
    record = first.record(0)
    for batch in range(3):
        first.fill(range(batch * USERS, (batch + 1) * USERS))
        first.carry()
    last = first.model()
    roles = Roles.make(tmp_path / "roles", made_plan(epsilon=9.0), Transport.BITS)
    urls = iter([first.urls["shuffler"], first.urls["analyzer"]])
    second = Deployment(
        roles, lambda: next(urls), lambda settings: replace(settings, succeeds=first.plan.id)
    ).begin()
    place = f"/v1/plans/{first.plan.id}"
    assert reason(second.get(f"{place}/batch")) == "plan-ended"
    posted = second.ask(second.shuffler, "POST", f"{place}/reports", content=record)
    assert reason(posted) == "plan-ended"
    unknown = f"/v1/plans/{'0' * 32}"
    posted = second.ask(second.shuffler, "POST", f"{unknown}/reports", content=record)
    assert reason(posted) == "wrong-plan"
    for more in ("", "/model", "/ledger"):
        mirrored, published = second.get(place + more), second.read(place + more)
        assert mirrored.status_code == published.status_code == 200
        assert mirrored.json() == published.json()
        assert reason(second.read(unknown + more)) == "wrong-plan"
    assert len(second.read(f"{place}/ledger?from=1").json()["entries"]) == 2
    assert second.read(f"{place}/model").json()["content"]["model"]["hash"] == last.hash
    second.close()
    roles.close()


def test_the_analyzer_is_asked_again_until_its_history_fits(services: Deployment) -> None:
    """It was set back, and its newest copy brought back: nobody has to restart the shuffler."""
    services.fill(range(USERS))
    services.carry()
    older = services.model().previous
    app, is_set_back = services.shuffler, [True]

    class Older(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            asked = httpx.ASGITransport(services.analyzer)
            if is_set_back[0] and request.url.path.endswith("/ledger"):
                empty = {"plan": services.plan.id, "entries": []}
                return httpx.Response(200, json=empty)
            if is_set_back[0] and request.url.path.endswith("/model"):
                place = f"http://test/v1/models/{older}"
                request = httpx.Request("GET", place)
            return await asked.handle_async_request(request)

    # A batch later than what is shown: of one only, the answer may be on its way.
    services.fill(range(USERS, 2 * USERS))
    services.carry()
    other = Courier(app.parts, app.open_batch, app.metrics, Older())
    app.courier, mine = other, app.courier
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            services.runner.run(other.step())
        assert refused.value.reason is Reason.ROLLED_BACK
        assert services.get("/readyz").json()["waiting_for"][0].startswith("rolled-back: ")
    is_set_back[0] = False
    assert not services.runner.run(other.step())
    assert services.get("/readyz").json()["ready"]
    services.runner.run(other.close())
    app.courier = mine
