"""A third party that follows both services, and devices that require its word."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import httpx
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from croupier.errors import DocumentError, SignatureError
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.device.device import Device
from croupier.service.device.http import LaterRefusal
from croupier.service.device.store import Fork
from croupier.service.device.upload import UploadOutcome
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keylist import SIGN, require_active
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import LedgerEntry, Signer
from croupier.service.messages.witnessed_heads import WitnessedHead
from croupier.service.startup import StartError
from croupier.service.witness.app import assemble_witness
from croupier.service.witness.settings import read_configuration
from croupier.service.witness.signed_heads import SignedHeads, WitnessError

from ..in_process_deployment import ANALYZER, SHUFFLER
from .witnessed_town import Alter, WitnessedTown, witnessed_town

ARMS = np.array([[0.6, 0.0], [0.0, 0.6]])
USERS, BATCHES = 2, 3


@lru_cache
def plan(**changes: Any) -> Plan:
    options: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-2, "max_participations": 3} | changes
    return Plan.calibrate(
        "vector-sum",
        dim=2,
        batches="fixed",
        batch_size=USERS,
        horizon=USERS * BATCHES,
        **options,
    )


@pytest.fixture
def here() -> Iterator[WitnessedTown]:
    with witnessed_town(plan()) as made:
        yield made


def take_part(device: Device) -> UploadOutcome:
    device.reward(device.choose(ARMS), 1.0)
    return device.flush()


def learn(here: WitnessedTown, *users: int) -> Model:
    """A batch of users who ask for no witness; the model after it."""
    for user in users:
        with here.place.device(user) as device:
            assert take_part(device) is UploadOutcome.ACCEPTED
    here.place.carry()
    return here.place.analyzer.parts.store.newest_model(here.place.plan.id).model


def head_of(here: WitnessedTown, model: Model) -> WitnessedHead:
    entries = here.place.analyzer.parts.store.ledger(model.plan_id)
    last = entries[-1].hash if entries else ""
    return WitnessedHead(model.plan_id, model.version, model.hash, len(entries), last)


# Following


def test_every_model_is_witnessed_once_and_the_shuffler_shows_the_word(
    here: WitnessedTown,
) -> None:
    place = f"/v1/plans/{here.place.plan.id}"
    trusted = signed_documents.trusted_keys([here.app.parts.keyring.signer.public])
    models = [here.place.analyzer.parts.store.newest_model(here.place.plan.id).model]
    for batch in range(BATCHES):
        assert here.look() == here.look() == head_of(here, models[-1])
        models.append(learn(here, 2 * batch, 2 * batch + 1))
    assert here.look() == head_of(here, models[-1])
    assert [json.loads(line)["content"]["model"] for line in here.lines] == [
        one.hash for one in models
    ]
    here.mirror()
    signed = here.get(f"{place}/head")
    shown = here.place.http.get(f"{here.settings.shuffler_url}{place}/witness")
    assert signed.content == shown.content
    assert WitnessedHead.verify(shown.content, trusted) == head_of(here, models[-1])
    keys = here.place.http.get(f"{here.settings.shuffler_url}/v1/witness/keys")
    assert keys.content == here.get("/v1/keys").content
    assert here.get("/readyz").json() == {"ready": True, "waiting_for": [], "trouble": ""}


def test_models_that_were_missed_are_followed(here: WitnessedTown) -> None:
    here.look()
    learn(here, 0, 1)
    newest = learn(here, 2, 3)
    assert here.look() == head_of(here, newest)
    assert len(here.lines) == 2


def test_a_ledger_that_is_ahead_of_the_named_model_is_signed_with_it(
    here: WitnessedTown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror has the next entry a moment before the batch that names the next model opens."""
    first = here.look()
    assert first is not None
    store = here.place.shuffler.parts.store

    def stop(*_: object) -> None:
        raise ConnectionError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(store, "acknowledge", stop)
        with pytest.raises(ConnectionError):
            learn(here, 0, 1)
        between = here.look()
    newest = here.place.analyzer.parts.store.newest_model(here.place.plan.id).model
    after = head_of(here, newest)
    assert between == dataclasses.replace(after, version=first.version, model=first.model)
    here.place.carry()
    assert here.look() == after
    assert [json.loads(line)["content"]["version"] for line in here.lines] == [0, 0, 1]


def test_a_witness_that_begins_late_reads_the_whole_chain(here: WitnessedTown) -> None:
    learn(here, 0, 1)
    newest = learn(here, 2, 3)
    assert here.look() == head_of(here, newest)


def test_a_witness_goes_on_after_a_restart_and_a_cut_line(here: WitnessedTown) -> None:
    here.look()
    here.stop()
    heads = here.app.parts.settings.directory / "heads.jsonl"
    heads.write_bytes(heads.read_bytes() + b'{"content": {"pl')
    here.start()
    newest = learn(here, 0, 1)
    assert here.look() == head_of(here, newest)
    assert len(here.lines) == 2


def test_a_service_that_is_out_of_reach_is_waited_for(here: WitnessedTown) -> None:
    def cut(_request: httpx.Request, _answer: httpx.Response) -> httpx.Response:
        raise httpx.ConnectError("down")

    assert here.get("/readyz").json()["waiting_for"] == ["no head has been signed yet"]
    assert here.get(f"/v1/plans/{here.place.plan.id}/head").status_code == 404
    here.ways.alter = cut
    assert here.look() is None
    assert "did not answer" in here.app.follower.trouble
    here.ways.alter = None
    assert here.look() is not None
    assert here.app.follower.trouble == ""


def test_rotated_keys_of_all_three_are_followed(here: WitnessedTown) -> None:
    here.look()
    here.mirror()
    rings = [here.place.analyzer.parts.keyring, here.app.parts.keyring]
    for ring in rings:
        ring.new()
        ring.rotate()
    newest = learn(here, 0, 1)
    here.place.shuffler.parts.keyring.new()
    here.place.shuffler.parts.keyring.rotate()
    assert here.look() == head_of(here, newest)
    here.mirror()
    with here.device(5) as device:
        assert device.refresh().hash == newest.hash


def test_keys_that_are_replaced_stop_no_witness(here: WitnessedTown) -> None:
    """The last head is of a model that a retired key has signed; the next one descends from it."""
    learn(here, 0, 1)
    here.look()
    ring = here.place.analyzer.parts.keyring
    ring.new()
    ring.rotate(grace=60)
    for user in (2, 3):
        with here.place.device(user) as device:
            assert take_part(device) is UploadOutcome.ACCEPTED
    assert here.look() is not None
    here.place.run(here.place.shuffler.courier.refresh_mirror())
    ring.retire(time.time() + 60)
    assert here.look() is not None
    assert here.look() is not None
    here.place.carry()
    newest = here.place.analyzer.parts.store.newest_model(here.place.plan.id).model
    assert here.look() == head_of(here, newest)


@pytest.mark.parametrize("learns_on", [False, True])
def test_a_witness_that_knows_the_new_key_only_goes_on(
    here: WitnessedTown, learns_on: bool
) -> None:
    """It was away while the key was replaced; models of before have the old signature."""
    learn(here, 0, 1)
    here.look()
    ring = here.place.analyzer.parts.keyring
    ring.new()
    ring.rotate(grace=60)
    ring.retire(time.time() + 61)
    here.stop()
    key = require_active(ring.list(), SIGN).public.hex()
    (here.place.directory / "services" / "witness" / "analyzer-key").write_text(key + "\n")
    here.start()
    (here.place.directory / "services" / "shuffler" / "analyzer-key").write_text(key + "\n")
    here.place.restart_shuffler()
    here.mirror()
    before = here.place.settings
    here.place.settings = dataclasses.replace(before, analyzer_keys=(key,))
    newest = learn(here, 2, 3) if learns_on else None
    head = here.look()
    assert here.app.follower.trouble == ""
    assert head is not None
    assert newest is None or head == head_of(here, newest)


def test_a_plan_that_is_worth_less_than_it_claims_is_not_witnessed(here: WitnessedTown) -> None:
    claims = dataclasses.replace(
        here.place.plan,
        budget=dataclasses.replace(here.place.plan.budget, epsilon=0.5),  # type: ignore[type-var]
    )
    home = here.place.directory / "services"
    (home / "shuffler" / "plan.json").write_text(claims.to_json())
    with pytest.raises(StartError, match=r"claims epsilon 0\.5"):
        assemble_witness(read_configuration(home / "witness" / "settings.toml"))


def test_two_processes_cannot_share_a_directory(here: WitnessedTown) -> None:
    with pytest.raises(WitnessError, match="in use"):
        SignedHeads(here.app.parts.settings.directory, here.place.plan.id)


# Forks


def answer(role: int, ending: str, content: Any) -> Alter:
    """That service answers requests for that path with this."""

    def alter(request: httpx.Request, found: httpx.Response) -> httpx.Response:
        if request.url.port == role and request.url.path.endswith(ending):
            text = content if isinstance(content, str) else json.dumps(content)
            return httpx.Response(200, text=text)
        return found

    return alter


def other_bytes_of_a_model(here: WitnessedTown, newest: Model) -> Alter:
    signer = here.place.analyzer.parts.keyring.signer
    other = dataclasses.replace(newest, theta=newest.theta + 1)
    return answer(SHUFFLER, newest.hash, signed_documents.sign_model(other, "", signer))


def another_branch(here: WitnessedTown, newest: Model) -> Alter:
    """Both services show a model that does not descend from the one that was witnessed."""
    signer = here.place.analyzer.parts.keyring.signer
    other = dataclasses.replace(newest, theta=newest.theta + 1, previous="")
    text = signed_documents.sign_model(other, "", signer)
    batch = {"model_hash": other.hash}

    def alter(request: httpx.Request, found: httpx.Response) -> httpx.Response:
        if request.url.path.endswith(("/batch", "/model", other.hash)):
            told = json.dumps(batch) if request.url.path.endswith("/batch") else text
            return httpx.Response(200, text=told)
        return found

    return alter


def an_older_model_of_the_analyzer(here: WitnessedTown, newest: Model) -> Alter:
    text = here.place.analyzer.parts.store.document(newest.previous)
    return answer(ANALYZER, "/model", text)


def an_older_model_of_both(here: WitnessedTown, newest: Model) -> Alter:
    return answer(SHUFFLER, "/batch", {"model_hash": newest.previous})


def listed(here: WitnessedTown, change: Callable[[list[LedgerEntry]], list[LedgerEntry]]) -> Any:
    entries = change(here.place.analyzer.parts.store.ledger(here.place.plan.id))
    told = [one.content | {"hash": one.hash} for one in entries]
    return {"plan": here.place.plan.id, "entries": told}


def a_cut_ledger(here: WitnessedTown, _newest: Model) -> Alter:
    return answer(ANALYZER, "/ledger", listed(here, lambda entries: entries[:-1]))


def a_ledger_of_its_own(here: WitnessedTown, _newest: Model) -> Alter:
    forged = listed(here, lambda entries: [dataclasses.replace(entries[0], digest="00" * 32)])
    return answer(SHUFFLER, "/ledger", forged)


def a_batch_of_another_model(here: WitnessedTown, _newest: Model) -> Alter:
    """The same ledger with both, but charged for a model that nobody saw."""
    forged = listed(here, lambda entries: [dataclasses.replace(entries[0], model_hash="00" * 32)])

    def alter(request: httpx.Request, found: httpx.Response) -> httpx.Response:
        is_ledger = request.url.path.endswith("/ledger")
        return httpx.Response(200, json=forged) if is_ledger else found

    return alter


@pytest.mark.parametrize(
    "attack",
    [
        other_bytes_of_a_model,
        another_branch,
        an_older_model_of_the_analyzer,
        an_older_model_of_both,
        a_cut_ledger,
        a_ledger_of_its_own,
        a_batch_of_another_model,
    ],
)
def test_a_fork_is_shown_loudly_and_ends_the_signing(
    here: WitnessedTown, attack: Callable[[WitnessedTown, Model], Alter]
) -> None:
    here.look()
    newest = learn(here, 0, 1)
    if attack in (another_branch, an_older_model_of_both):
        here.look()
    before = here.lines
    here.ways.alter = attack(here, newest)
    here.look()
    assert here.lines == before
    here.ways.alter = None
    for _ in range(2):
        ready = here.get("/readyz")
        assert (ready.status_code, ready.json()["waiting_for"][0][:6]) == (503, "FORK: ")
        here.look()
        learn_more = here.lines
        assert learn_more == before
        here.stop()
        here.start()


# Devices that require a witness


def test_a_device_uses_a_model_only_once_it_is_witnessed(here: WitnessedTown) -> None:
    with here.device(7) as device:
        with pytest.raises(LaterRefusal, match="no witness has signed yet") as refused:
            device.choose(ARMS)
        assert refused.value.reason is Reason.UNWITNESSED
        here.look()
        here.mirror()
        assert device.refresh().version == 0
        newest = learn(here, 0, 1)
        with pytest.raises(LaterRefusal, match="version 1 is named, the witness has signed 0"):
            device.refresh()
        assert device.model.version == 0
        device.reward(device.choose(ARMS), 1.0)
        assert device.flush(patience=2.0) is UploadOutcome.WAITING
        assert (device.trouble, device.participations) == ("unwitnessed", [])
        here.look()
        here.mirror()
        assert device.flush() is UploadOutcome.ACCEPTED
        assert (device.model.hash, device.fork) == (newest.hash, None)


def test_a_model_from_before_the_app_pinned_a_witness_is_held_against_its_word(
    here: WitnessedTown,
) -> None:
    newest = learn(here, 0, 1)
    evil = private_model(here, newest)
    with here.place.device(7, name="careful 7") as device:
        assert device.refresh().hash == evil.hash
    here.look()
    here.mirror()
    with here.device(7) as device:
        device.reward(device.choose(ARMS), 1.0)
        with pytest.raises(Refusal) as refused:
            device.flush()
        assert refused.value.reason is Reason.FORK
        assert device.fork == Fork(1, newest.hash, 1, evil.hash)
    assert len(here.place.bridge.uploads) == USERS


def test_a_witness_is_asked_once_for_each_model(here: WitnessedTown) -> None:
    here.look()
    here.mirror()

    def asked() -> int:
        paths = [request.url.path for request in here.place.bridge.requests]
        return sum(path.endswith("/witness") for path in paths)

    with here.device(7) as device:
        assert device.refresh() == device.refresh()
        assert asked() == 1
    with here.device(7) as device:
        assert take_part(device) is UploadOutcome.ACCEPTED
        assert asked() == 1


def private_model(here: WitnessedTown, newest: Model) -> Model:
    """Of the version that everybody has, but for one device."""
    evil = dataclasses.replace(newest, theta=np.array([1e3, 0.0]), matrix=np.eye(2) * 1e-9)
    signer = here.place.analyzer.parts.keyring.signer
    batch = f"/v1/plans/{here.place.plan.id}/batch"
    offer = here.place.http.get(f"{here.settings.shuffler_url}{batch}").json()
    texts = {
        batch: json.dumps(offer | {"model_hash": evil.hash}),
        f"/v1/models/{evil.hash}": signed_documents.sign_model(evil, "", signer),
    }

    def fault(request: httpx.Request) -> httpx.Response | None:
        text = texts.get(request.url.path)
        return None if text is None else httpx.Response(200, text=text)

    here.place.bridge.fault = fault
    return evil


def test_even_both_services_together_cannot_give_one_device_a_private_model(
    here: WitnessedTown,
) -> None:
    newest = learn(here, 0, 1)
    here.look()
    here.mirror()
    evil = private_model(here, newest)
    with here.device(7) as device:
        with pytest.raises(Refusal) as refused:
            device.refresh()
        assert refused.value.reason is Reason.FORK
        assert device.fork == Fork(1, newest.hash, 1, evil.hash)
        with pytest.raises(Refusal):
            device.leave_fork()
        here.place.bridge.fault = None
        assert device.refresh().hash == newest.hash
        assert device.fork is None


def test_the_word_of_a_stranger_is_not_taken(here: WitnessedTown) -> None:
    here.look()
    here.mirror()
    stranger = Signer(Ed25519PrivateKey.generate())
    head = here.look()
    assert head is not None
    text = head.sign(stranger)
    here.place.bridge.fault = lambda request: (
        httpx.Response(200, text=text) if request.url.path.endswith("/witness") else None
    )
    with here.device(7) as device, pytest.raises(SignatureError):
        device.refresh()


# Documents


@pytest.mark.parametrize(
    "changes",
    [
        {"version": True},
        {"version": -1},
        {"entries": 1.0},
        {"entries": 1, "ledger": ""},
        {"model": "00"},
        {"plan": None},
        {"time": 0},
    ],
)
def test_a_head_with_a_field_of_another_type_or_range_is_refused(changes: dict[str, Any]) -> None:
    good = WitnessedHead("00" * 16, 0, "11" * 32, 0, "")
    signer = Signer(Ed25519PrivateKey.generate())
    trusted = signed_documents.trusted_keys([signer.public])
    assert WitnessedHead.verify(good.sign(signer), trusted) == good
    text = signed_documents.sign_document("head", good.content | changes, [signer])
    with pytest.raises(DocumentError, match="not a witness's head"):
        WitnessedHead.verify(text, trusted)
