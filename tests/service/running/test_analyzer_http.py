"""The analyzer over HTTP: what it serves, and every batch that it refuses."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx
import pytest

from croupier import wire
from croupier.plan import Plan
from croupier.service.keys.keylist import KeyList
from croupier.service.messages.signed_documents import sign_batch, signed_share, verify_model
from croupier.wire import Transport

from .conftest import Deploy
from .deployment import USERS, Deployment, reason


def token(services: Deployment) -> dict[str, str]:
    return {"authorization": f"Bearer {services.shuffler.parts.peer_token}"}


def released(services: Deployment) -> Any:
    """A batch that is released and not handed on."""
    store = services.shuffler.parts.store
    services.fill(range(USERS))
    assert store.seal(services.plan.id)
    return store.release(services.plan.id)


def deliver(
    services: Deployment, body: bytes, signature: str | None = None, **more: str
) -> httpx.Response:
    signer = services.shuffler.parts.keyring.signer
    signed = sign_batch(body, signer) if signature is None else signature
    headers = {**token(services), "croupier-signature": signed, **more}
    path = f"/v1/plans/{services.plan.id}/batches"
    return services.ask(services.analyzer, "POST", path, content=body, headers=headers)


def test_a_batch_is_learnt_from_once_and_answered_alike(services: Deployment) -> None:
    sent = released(services)
    first, second = (deliver(services, sent.body, sent.signature) for _ in range(2))
    assert first.status_code == 200
    assert first.json() == second.json()
    assert first.json() == {
        "batch": 0,
        "model_version": 1,
        "model_hash": services.model().hash,
        "next_batch": 1,
    }
    assert len(services.analyzer.parts.store.ledger(services.plan.id)) == 1


def altered_header(body: bytes, plan: Plan, **changes: Any) -> bytes:
    header = wire.decode_batch_header(body)
    changed = wire.BatchHeader(**{**vars(header), **changes})
    return wire.encode_batch(changed, {}, {}) + body[len(wire.encode_batch(header, {}, {})) :]


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"batch": 1}, "stale-batch"),
        ({"batch": 3}, "plan-ended"),
        ({"model_hash": "ab" * 32}, "stale-model"),
        ({"plan_id": "ab" * 16}, "wrong-plan"),
        ({"users": USERS - 1}, "wrong-length"),
        ({"transport": Transport.SHARES}, "malformed"),
    ],
)
def test_a_batch_with_a_wrong_header_is_refused(
    services: Deployment, change: dict[str, Any], wanted: str
) -> None:
    sent = released(services)
    answer = deliver(services, altered_header(sent.body, services.plan, **change))
    assert reason(answer) == wanted
    assert deliver(services, sent.body, sent.signature).status_code == 200


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda body: body[:-1], "wrong-length"),
        (lambda body: body + b"\0", "body-too-large"),
        (lambda body: b"\2" + body[1:], "bad-version"),
        (lambda body: body[:1] + b"\7" + body[2:], "malformed"),
        (lambda _: b"", "wrong-length"),
    ],
)
def test_a_batch_of_wrong_bytes_is_refused(services: Deployment, change: Any, wanted: str) -> None:
    sent = released(services)
    assert reason(deliver(services, change(sent.body))) == wanted
    assert deliver(services, sent.body, sent.signature).status_code == 200


def test_a_batch_that_is_not_signed_by_the_shuffler_is_refused(services: Deployment) -> None:
    sent = released(services)
    stranger = services.analyzer.parts.keyring.signer
    flipped = bytes([*sent.body[:-1], sent.body[-1] ^ 1])
    for body, signature in (
        (sent.body, sign_batch(sent.body, stranger)),
        (flipped, sent.signature),
        (sent.body, ""),
        (sent.body, "no.hex"),
        (sent.body, sent.signature[:-2]),
    ):
        answer = deliver(services, body, signature)
        assert (reason(answer), answer.status_code) == ("bad-signature", 400)
    assert services.model().version == 0
    assert deliver(services, sent.body, sent.signature).status_code == 200


def test_a_batch_needs_the_service_token(services: Deployment) -> None:
    sent = released(services)
    for given in ("", "Bearer ", "Bearer wrong", token(services)["authorization"][7:]):
        answer = deliver(services, sent.body, sent.signature, authorization=given)
        assert (reason(answer), answer.status_code) == ("bad-token", 401)
    assert deliver(services, sent.body, sent.signature).status_code == 200


def test_other_bytes_for_a_batch_that_was_learnt_from_are_a_conflict(
    services: Deployment,
) -> None:
    sent = released(services)
    deliver(services, sent.body, sent.signature)
    first = len(sent.body) - 8 * services.plan.layout.size
    flipped = sent.body[:first] + bytes([sent.body[first] ^ 1]) + sent.body[first + 1 :]
    assert reason(deliver(services, flipped)) == "id-conflict"


def test_a_share_is_bound_to_its_batch(deploy: Deploy) -> None:
    services = deploy(Transport.SHARES)
    sent = released(services)
    opened = deliver(services, sent.body, sent.signature).json()["opened"]
    assert opened == "Pw=="
    share = services.shuffler.parts.store.share(services.plan.id, 0, b"\x3f")
    signer = services.shuffler.parts.keyring.signer

    def post(batch: str, body: bytes, signature: str) -> httpx.Response:
        path = f"/v1/plans/{services.plan.id}/batches/{batch}/share"
        headers = {**token(services), "croupier-signature": signature}
        return services.ask(services.analyzer, "POST", path, content=body, headers=headers)

    def signed(batch: int, body: bytes) -> str:
        return sign_batch(signed_share(services.plan.id, batch, body), signer)

    assert reason(post("0", share, signed(1, share))) == "bad-signature"
    assert reason(post("0", share, sign_batch(share, signer))) == "bad-signature"
    assert reason(post("1", share, signed(1, share))) == "stale-batch"
    assert reason(post("x", share, signed(0, share))) == "not-found"
    assert reason(post("0", share[:-1], signed(0, share[:-1]))) == "wrong-length"
    first, second = (post("0", share, signed(0, share)) for _ in range(2))
    assert first.status_code == 200
    assert first.json() == second.json()
    other = bytes(len(share))
    assert reason(post("0", other, signed(0, other))) == "id-conflict"


def test_an_unknown_inner_key_is_refused(deploy: Deploy) -> None:
    services = deploy(Transport.SEALED)
    sent = released(services)
    body = altered_header(sent.body, services.plan, key_id=b"\7" * 8)
    assert reason(deliver(services, body)) == "unknown-key"
    assert deliver(services, sent.body, sent.signature).status_code == 200


# What devices read


def test_the_newest_model_is_signed_tagged_and_revalidated(services: Deployment) -> None:
    path = f"/v1/plans/{services.plan.id}/model"
    answer = services.read(path)
    signed = verify_model(answer.content, services.shuffler.parts.trusted)
    assert answer.headers["etag"] == f'"{hashlib.sha256(answer.content).hexdigest()}"'
    assert answer.headers["cache-control"] == "no-cache"
    for given in (
        answer.headers["etag"],
        f"W/{answer.headers['etag']}",
        '"x", ' + answer.headers["etag"],
        "*",
    ):
        again = services.read(path, headers={"if-none-match": given})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == answer.headers["etag"]
    services.fill(range(USERS))
    services.carry()
    newer = services.read(path, headers={"if-none-match": answer.headers["etag"]})
    assert newer.status_code == 200
    found = verify_model(newer.content, services.shuffler.parts.trusted)
    assert found.model.previous == signed.model.hash
    entries = services.read(f"/v1/plans/{services.plan.id}/ledger").json()["entries"]
    assert found.ledger == entries[-1]["hash"]


def test_every_model_stays_where_its_hash_says_for_ever(services: Deployment) -> None:
    first = services.model()
    services.fill(range(USERS))
    services.carry()
    answer = services.read(f"/v1/models/{first.hash}")
    assert answer.headers["cache-control"] == "public, max-age=300"  # its signature may change
    assert verify_model(answer.content, services.shuffler.parts.trusted).model.hash == first.hash
    known = {"if-none-match": answer.headers["etag"]}
    again = services.read(f"/v1/models/{first.hash}", headers=known)
    assert again.status_code == 304
    assert reason(services.read(f"/v1/models/{'0' * 64}")) == "not-found"


def test_the_plan_is_served_as_it_was_made(services: Deployment) -> None:
    answer = services.read(f"/v1/plans/{services.plan.id}")
    assert Plan.from_json(answer.text).id == services.plan.id
    assert "immutable" in answer.headers["cache-control"]
    assert reason(services.read(f"/v1/plans/{'0' * 32}")) == "wrong-plan"


def test_both_roles_publish_their_keys_signed(services: Deployment) -> None:
    for role, text, parts in (
        ("analyzer", services.read("/v1/keys").content, services.shuffler.parts),
        ("shuffler", services.get("/v1/keys").content, services.analyzer.parts),
    ):
        keys = KeyList.verify(text, role, parts.trusted)
        assert keys.sealing_key.public
    told = services.batch()
    listed = KeyList.verify(
        services.get("/v1/keys").content, "shuffler", services.analyzer.parts.trusted
    )
    assert told["key"] == listed.sealing_key.public.hex()


def test_metrics_follow_the_plan(services: Deployment) -> None:
    services.fill(range(USERS))
    services.carry()
    shown = services.read("/metrics").text
    for line in (
        'croupier_batches_total{reason="accepted"} 1.0',
        "croupier_next_batch 1.0",
        "croupier_ledger_batches 1.0",
        "croupier_ledger_batches_left 2.0",
        "croupier_model_version 1.0",
        "croupier_model_repairs ",
    ):
        assert line in shown
    services.fill(range(2))
    shown = services.get("/metrics").text
    for line in (
        "croupier_batch_index 1.0",
        f"croupier_batch_size {USERS}.0",
        "croupier_batch_filled 2.0",
        "croupier_batch_open 1.0",
        "croupier_ledger_batches 1.0",
        "croupier_ledger_batches_left 2.0",
        "croupier_model_version 1.0",
        'croupier_deliveries_total{reason="accepted"} 1.0',
        "croupier_queue_length 0.0",
    ):
        assert line in shown
    age = next(line for line in shown.splitlines() if line.startswith("croupier_oldest_open"))
    assert float(age.split()[1]) > 0


def test_a_draining_analyzer_takes_no_batch(services: Deployment) -> None:
    sent = released(services)
    services.analyzer.drain()
    answer = deliver(services, sent.body, sent.signature)
    assert (reason(answer), answer.headers["retry-after"]) == ("draining", "1")
    assert services.read("/readyz").status_code == 503
    assert services.model().version == 0


def test_the_apis_describe_themselves(services: Deployment) -> None:
    for answer in (services.get("/openapi.json"), services.read("/openapi.json")):
        described = json.loads(answer.text)
        assert described["openapi"].startswith("3.1")
        assert "/v1/keys" in described["paths"]
