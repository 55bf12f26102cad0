"""The shuffler's mirror: what the analyzer published, byte for byte, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keylist import KeyList
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import LedgerEntry
from croupier.service.shuffler.courier import Courier
from croupier.service.shuffler.rows import BatchState
from croupier.wire import Transport

from .conftest import Deploy
from .deployment import BATCHES, USERS, Deployment, Roles, made_plan, reason

Alter = Callable[[httpx.Request, httpx.Response], httpx.Response]


class Altering(httpx.AsyncBaseTransport):
    """The analyzer, some of whose answers are another's."""

    def __init__(self, services: Deployment, alter: Alter) -> None:
        self._inner = httpx.ASGITransport(services.analyzer)
        self._alter = alter

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        return self._alter(request, answer)


def carry_with(services: Deployment, alter: Alter) -> None:
    """A courier's next step, over a network that alters answers."""
    app = services.shuffler
    other = Courier(app.parts, app.open_batch, app.metrics, Altering(services, alter))
    services.runner.run(other.step())
    services.runner.run(other.close())


def finish(services: Deployment, batch: int) -> None:
    services.fill(range(batch * USERS, (batch + 1) * USERS))
    services.carry()


def paths(services: Deployment) -> list[str]:
    plan = f"/v1/plans/{services.plan.id}"
    return [plan, f"{plan}/model", f"{plan}/ledger"]


def hashes(services: Deployment) -> list[str]:
    """Of every model, the newest first."""
    found, name = [], services.model().hash
    while name:
        found.append(name)
        text = services.read(f"/v1/models/{name}").content
        name = json.loads(text)["content"]["model"]["previous"]
    return found


def test_everything_is_mirrored_byte_for_byte_at_the_same_paths(deploy: Deploy, kind: str) -> None:
    services = deploy(kind=kind)
    for batch in range(BATCHES):
        models = [f"/v1/models/{name}" for name in hashes(services)]
        for path in [*paths(services), *models]:
            mirrored, original = services.get(path), services.read(path)
            assert mirrored.status_code == 200, path
            assert mirrored.content == original.content, path
            assert mirrored.headers["content-type"] == "application/json"
        assert len(models) == batch + 1
        finish(services, batch)


def test_the_analyzers_keys_are_beside_the_shufflers_own(services: Deployment) -> None:
    mirrored = services.get("/v1/analyzer/keys").content
    own = services.get("/v1/keys").content
    assert KeyList.verify(mirrored, "analyzer", services.shuffler.parts.trusted)
    assert KeyList.verify(own, "shuffler", services.analyzer.parts.trusted)


def test_what_was_published_stays_after_a_restart_and_after_the_plan(
    deploy: Deploy, roles_of: Callable[[Transport], Roles]
) -> None:
    roles = roles_of(Transport.BITS)
    services = deploy(roles=roles)
    for batch in range(BATCHES):
        finish(services, batch)
    assert reason(services.get(f"/v1/plans/{services.plan.id}/batch")) == "plan-ended"
    told = [*paths(services), *(f"/v1/models/{name}" for name in hashes(services))]
    before = [services.get(path).content for path in told]
    services.close_shuffler()
    services.shuffler = services.another_shuffler(roles)
    assert [services.get(path).content for path in told] == before
    assert len(told) == 3 + BATCHES + 1


def test_what_is_not_there_is_refused(services: Deployment) -> None:
    assert reason(services.get(f"/v1/plans/{'0' * 32}")) == "wrong-plan"
    assert reason(services.get(f"/v1/plans/{'0' * 32}/model")) == "not-found"
    assert reason(services.get(f"/v1/models/{'0' * 64}")) == "not-found"
    assert reason(services.get(f"/v1/plans/{services.plan.id}/witness")) == "not-found"
    assert reason(services.get("/v1/witness/keys")) == "not-found"


def test_a_rotation_is_mirrored_without_a_batch(deploy: Deploy, tmp_path: object) -> None:
    roles = Roles.make(tmp_path / "roles", made_plan(), Transport.BITS)  # type: ignore[operator]
    services = deploy(roles=roles)
    ring = services.analyzer.parts.keyring
    ring.new()
    ring.rotate()
    services.runner.run(services.shuffler.courier.refresh_mirror())
    found = KeyList.verify(
        services.get("/v1/analyzer/keys").content, "analyzer", services.shuffler.parts.trusted
    )
    assert found.sealing_key.public == ring.sealing_key.public_bytes_raw()
    roles.close()


def test_a_model_that_does_not_descend_from_the_one_before_opens_no_batch(
    services: Deployment,
) -> None:
    """An analyzer that learns on another branch is stopped before any device hears of it."""
    signer = services.analyzer.parts.keyring.signer
    first = services.model()
    other = replace(first, theta=first.theta + 1)
    evil = replace(first, version=1, users=USERS, previous=other.hash)
    texts = {one.hash: signed_documents.sign_model(one, "", signer) for one in (other, evil)}

    def alter(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        name = request.url.path.rpartition("/")[2]
        if request.method == "POST" and answer.is_success:
            told = {"batch": 0, "model_version": 1, "model_hash": evil.hash, "next_batch": 1}
            return httpx.Response(200, json=told)
        return httpx.Response(200, text=texts[name]) if name in texts else answer

    services.fill(range(USERS))
    with pytest.raises(Refusal) as refused:
        carry_with(services, alter)
    assert refused.value.reason is Reason.FORK
    now = services.shuffler.parts.store.current(services.plan.id)
    assert (now.index, now.state) == (0, BatchState.RELEASED)
    assert services.get(f"/v1/models/{evil.hash}").status_code == 404
    services.carry()
    assert services.batch()["model_hash"] == services.model().hash


def _cut(entries: list[LedgerEntry]) -> list[LedgerEntry]:
    return entries[:-1]


def _forge(entries: list[LedgerEntry]) -> list[LedgerEntry]:
    """Another history that ends in an entry for the newest batch."""
    first = replace(entries[0], digest="00" * 32)
    return [first, replace(entries[1], previous=first.hash)]


@pytest.mark.parametrize("history", [_cut, _forge])
def test_a_ledger_of_another_history_opens_no_batch(
    services: Deployment, history: Callable[[list[LedgerEntry]], list[LedgerEntry]]
) -> None:
    finish(services, 0)
    services.fill(range(USERS, 2 * USERS))

    def alter(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if not request.url.path.endswith("/ledger") or request.url.query:
            return answer
        entries = services.analyzer.parts.store.ledger(services.plan.id)
        told = [one.content | {"hash": one.hash} for one in history(entries)]
        return httpx.Response(200, json={"plan": services.plan.id, "entries": told})

    with pytest.raises(Exception, match="rests on another ledger"):
        carry_with(services, alter)
    assert services.shuffler.parts.store.current(services.plan.id).index == 1


def test_an_answer_of_the_analyzer_leaves_nothing_with_the_shuffler_but_its_document(
    services: Deployment,
) -> None:
    """Cookies and headers of the one do not reach the callers of the other, nor come back."""
    seen: list[httpx.Request] = []

    def alter(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        seen.append(request)
        answer.headers["set-cookie"] = "tag=analyzer; Max-Age=99999999; Path=/"
        answer.headers["x-tag"] = "analyzer"
        return answer

    services.fill(range(USERS))
    carry_with(services, alter)
    assert len(seen) > 3
    assert not any("cookie" in request.headers for request in seen)
    for path in [*paths(services), "/v1/analyzer/keys"]:
        headers = services.get(path).headers
        assert not {"set-cookie", "x-tag"} & set(headers)
