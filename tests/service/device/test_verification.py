from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import httpx
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from croupier.errors import DocumentError, SignatureError
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.device.device import Device
from croupier.service.device.settings import DeviceSettings
from croupier.service.device.upload import UploadOutcome
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keyring import Keyring
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import Signer
from croupier.wire import Transport

from ..in_process_deployment import Town, town

ARMS = np.array([[0.6, 0.0], [0.0, 0.6]])


@lru_cache
def plan(protocol: str = "vector-sum", **changes: Any) -> Plan:
    options: dict[str, Any] = {"batches": "fixed", "batch_size": 2, "horizon": 12}
    return Plan.calibrate(protocol, dim=2, **(options | {"epsilon": 4.0, "delta": 1e-2} | changes))


@pytest.fixture
def here() -> Iterator[Town]:
    with town(plan()) as made:
        yield made


def send(device: Device) -> UploadOutcome:
    device.reward(device.choose(ARMS), 1.0)
    return device.flush()


def learn(place: Town, users: range) -> None:
    for user in users:
        with place.device(user) as device:
            assert send(device) is UploadOutcome.ACCEPTED
    place.carry()


def reason_of(work: Callable[[], object]) -> Reason:
    with pytest.raises(Refusal) as refused:
        work()
    return refused.value.reason


def serve(place: Town, ending: str, text: str) -> None:
    """Answer requests for that path with a text of ours."""

    def fault(request: httpx.Request) -> httpx.Response | None:
        return httpx.Response(200, text=text) if request.url.path.endswith(ending) else None

    place.bridge.fault = fault


def name_model(place: Town, *models: Model, signer: Signer | None = None) -> None:
    """The shuffler names the first of these, and has all of them, as that signer signed them."""
    batch = f"/v1/plans/{place.plan.id}/batch"
    offer = place.http.get(f"{place.settings.shuffler_url}{batch}").json()
    sign = signer or place.analyzer.parts.keyring.signer
    texts = {f"/v1/models/{one.hash}": signed_documents.sign_model(one, "", sign) for one in models}
    texts[batch] = json.dumps(offer | {"model_hash": models[0].hash})

    def fault(request: httpx.Request) -> httpx.Response | None:
        text = texts.get(request.url.path)
        return None if text is None else httpx.Response(200, text=text)

    place.bridge.fault = fault


def named_hash(place: Town) -> str:
    return place.shuffler.parts.store.current(place.plan.id).model_hash


def signed(place: Town, model: Model) -> str:
    return signed_documents.sign_model(model, "", place.analyzer.parts.keyring.signer)


# Settings


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"plan_id": "x"}, "plan_id"),
        ({"shuffler_url": "ftp://here"}, "shuffler_url"),
        ({"shuffler_url": "http://shuffler.example.org"}, "shuffler_url must be https"),
        ({"analyzer_keys": ()}, "analyzer_keys"),
        ({"shuffler_keys": ("00",)}, "shuffler_keys"),
        ({"open_choices": 0}, "open_choices"),
        ({"timeout": 0.0}, "timeout"),
    ],
)
def test_settings_that_no_device_could_work_with_are_refused(
    changes: dict[str, Any], text: str
) -> None:
    good = DeviceSettings("00" * 16, "https://s", ("11" * 32,), ("22" * 32,))
    with pytest.raises(ValueError, match=text):
        dataclasses.replace(good, **changes)


def test_a_token_is_not_shown() -> None:
    made = DeviceSettings("00" * 16, "https://s", ("11" * 32,), ("22" * 32,), token="secret")
    assert "secret" not in repr(made)


def test_the_account_is_32_bytes(here: Town) -> None:
    with pytest.raises(ValueError, match="account must have 32 bytes"):
        Device(here.settings, b"me", here.home("me"))


# The plan


def test_a_plan_other_than_the_pinned_one_is_refused(here: Town) -> None:
    serve(here, here.plan.id, plan(epsilon=5.0).to_json())
    with here.device(0) as device:
        assert reason_of(lambda: device.plan) is Reason.WRONG_PLAN


def test_a_plan_that_was_altered_on_the_way_is_refused(here: Town) -> None:
    told = json.loads(here.plan.to_json())
    told["max_participations"] = 3
    serve(here, here.plan.id, json.dumps(told))
    with here.device(0) as device, pytest.raises(DocumentError, match="plan id is"):
        _ = device.plan


def test_a_plan_that_is_worth_less_than_it_claims_is_refused_even_if_pinned(here: Town) -> None:
    claims = dataclasses.replace(
        here.plan,
        budget=dataclasses.replace(here.plan.budget, epsilon=0.5),  # type: ignore[type-var]
    )
    serve(here, claims.id, claims.to_json())
    settings = dataclasses.replace(here.settings, plan_id=claims.id)
    with here.device(0, settings) as device:
        assert reason_of(lambda: device.choose(ARMS)) is Reason.GUARANTEE_NOT_MET


@pytest.mark.parametrize(("protocol", "reason"), [("noiseless", None), ("linucb", "baseline")])
def test_a_plan_that_promises_nothing_is_refused_unless_the_app_allows_it(
    here: Town, protocol: str, reason: str | None
) -> None:
    free = plan(protocol)
    serve(here, free.id, free.to_json())
    settings = dataclasses.replace(here.settings, plan_id=free.id)
    with here.device(0, settings) as device:
        assert reason_of(lambda: device.plan) is Reason.GUARANTEE_NOT_MET
    with here.device(0, dataclasses.replace(settings, allow_unproved=True)) as device:
        if reason is None:
            assert device.plan.id == free.id
        else:
            assert reason_of(lambda: device.plan) is Reason.GUARANTEE_NOT_MET


# Models


def test_a_model_of_another_signer_is_refused(here: Town) -> None:
    with here.device(0) as device:
        stranger = Signer(Ed25519PrivateKey.generate())
        fresh = dataclasses.replace(device.model, version=1, previous=device.model.hash)
        name_model(here, fresh, signer=stranger)
        with pytest.raises(SignatureError):
            device.refresh()


def test_a_model_that_was_altered_after_signing_is_refused(here: Town) -> None:
    with here.device(0) as device:
        text = signed(here, here.analyzer.parts.store.newest_model(here.plan.id).model)
        serve(here, named_hash(here), text.replace('"ledger":""', '"ledger":"00"'))
        with pytest.raises(SignatureError, match="does not fit its signature"):
            device.refresh()


def test_an_older_model_is_refused_also_after_a_restart(here: Town) -> None:
    with here.device(9) as device:
        first = device.model
        learn(here, range(2))
        assert device.refresh().version == 1
    name_model(here, first)
    with here.device(9) as device:
        assert reason_of(device.refresh) is Reason.FORK
        assert device.model.version == 1


def test_another_model_of_the_same_version_is_refused(here: Town) -> None:
    learn(here, range(2))
    with here.device(9) as device:
        known = device.refresh()
        name_model(here, dataclasses.replace(known, theta=known.theta + 1))
        assert reason_of(device.refresh) is Reason.FORK


def test_a_newer_model_that_branches_off_before_the_known_one_is_refused(here: Town) -> None:
    with here.device(9) as device:
        first = device.model
        learn(here, range(2))
        second = device.refresh()
        other = dataclasses.replace(second, theta=second.theta + 1, previous=first.hash)
        later = dataclasses.replace(second, version=2, previous=other.hash)
        name_model(here, later, other)
        assert reason_of(device.refresh) is Reason.FORK
        assert device.model.hash == second.hash


def test_models_that_were_missed_are_followed_by_their_hashes(here: Town) -> None:
    with here.device(99) as device:
        assert device.model.version == 0
        for batch in range(3):
            learn(here, range(2 * batch, 2 * batch + 2))
        before = len(here.bridge.requests)
        assert device.refresh().version == 3
        paths = [request.url.path for request in here.bridge.requests[before:]]
    # The batch, then versions 3, 2 and 1, whose predecessor is the known one.
    assert [path.split("/")[2] for path in paths] == ["plans", "models", "models", "models"]


def test_a_model_that_does_not_fit_the_plan_is_refused(here: Town) -> None:
    with here.device(0) as device:
        wide = dataclasses.replace(device.model, theta=np.zeros(3), version=1)
        name_model(here, wide)
        assert reason_of(device.refresh) is Reason.MALFORMED
        late = dataclasses.replace(device.model, version=7)
        name_model(here, late)
        assert reason_of(device.refresh) is Reason.MALFORMED
        stranger = dataclasses.replace(device.model, plan_id="00" * 16, version=1)
        name_model(here, stranger)
        assert reason_of(device.refresh) is Reason.WRONG_PLAN


# Keys


def rotate(ring: Keyring) -> None:
    ring.new()
    ring.rotate()


def test_rotated_keys_are_followed_from_the_pinned_ones(here: Town) -> None:
    with here.device(9) as device:
        assert device.model.version == 0
        rotate(here.analyzer.parts.keyring)
        learn(here, range(2))
        rotate(here.shuffler.parts.keyring)
        assert device.refresh().version == 1
        assert send(device) is UploadOutcome.ACCEPTED
    assert here.filled == 1


def test_a_key_that_was_not_announced_to_everybody_is_not_used(here: Town) -> None:
    own = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
    offer = here.http.get(f"{here.settings.shuffler_url}/v1/plans/{here.plan.id}/batch").json()
    serve(here, "/batch", json.dumps(offer | {"key": own}))
    with here.device(0) as device:
        device.reward(device.choose(ARMS), 1.0)
        assert reason_of(device.flush) is Reason.UNKNOWN_KEY
        assert device.participations == []
    assert here.bridge.uploads == []


def test_a_private_key_for_inner_seals_is_not_used() -> None:
    with town(plan(), Transport.SHARES) as here:
        own = X25519PrivateKey.generate().public_key().public_bytes_raw().hex()
        place = f"{here.settings.shuffler_url}/v1/plans/{here.plan.id}/batch"
        offer = here.http.get(place).json()
        serve(here, "/batch", json.dumps(offer | {"inner_key": own}))
        with here.device(0) as device:
            device.reward(device.choose(ARMS), 1.0)
            assert reason_of(device.flush) is Reason.UNKNOWN_KEY
        assert here.bridge.uploads == []


def test_a_list_of_keys_that_goes_back_is_refused() -> None:
    with town(plan(max_participations=2)) as here:
        old = here.shuffler.parts.keyring.document()
        here.shuffler.parts.keyring.new()
        learn(here, range(2))
        serve(here, "/v1/keys", old)
        with here.device(0) as device:
            device.reward(device.choose(ARMS), 1.0)
            assert reason_of(device.flush) is Reason.ROLLBACK
            assert device.participations == [0]


# The shuffler's word


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"transport": "shares"}, Reason.MALFORMED),
        ({"batch": 3}, Reason.STALE_MODEL),
    ],
    ids=["transport", "a batch that has less noise"],
)
def test_the_shuffler_cannot_change_what_was_agreed_on(
    here: Town, change: dict[str, Any], reason: Reason
) -> None:
    offer = here.http.get(f"{here.settings.shuffler_url}/v1/plans/{here.plan.id}/batch").json()
    serve(here, "/batch", json.dumps(offer | change))
    with here.device(0) as device:
        device.reward(device.choose(ARMS), 1.0)
        assert reason_of(device.flush) is reason
    assert here.bridge.uploads == []


def test_a_batch_beyond_the_plan_gets_no_report(here: Town) -> None:
    offer = here.http.get(f"{here.settings.shuffler_url}/v1/plans/{here.plan.id}/batch").json()
    serve(here, "/batch", json.dumps(offer | {"batch": 99}))
    with here.device(0) as device:
        assert send(device) is UploadOutcome.ENDED
        assert device.participations == []
    assert here.bridge.uploads == []


def test_where_models_are_rare_a_batch_may_be_later_than_its_model() -> None:
    with town(plan(publication="rare", growth=1e6)) as here:
        learn(here, range(2))
        with here.device(9) as device:
            assert send(device) is UploadOutcome.ACCEPTED
            assert (device.model.version, device.accepted) == (0, [1])


def test_the_token_is_shown_to_the_shuffler_and_to_nobody_else(here: Town) -> None:
    with here.device(0, dataclasses.replace(here.settings, token="word")) as device:
        assert send(device) is UploadOutcome.ACCEPTED
    shown = {
        request.url.path
        for request in here.bridge.requests
        if request.headers.get("authorization") == "Bearer word"
    }
    assert shown == {f"/v1/plans/{here.plan.id}/{name}" for name in ("batch", "reports")}


def test_a_batch_does_not_come_back(here: Town) -> None:
    offer = here.http.get(f"{here.settings.shuffler_url}/v1/plans/{here.plan.id}/batch").json()
    learn(here, range(2))
    with here.device(9) as device:
        assert send(device) is UploadOutcome.ACCEPTED
    state = here.home("9") / "ledger.jsonl"
    state.unlink()
    serve(here, "/batch", json.dumps(offer))
    with here.device(9) as device:
        device.reward(device.choose(ARMS), 1.0)
        assert reason_of(device.flush) is Reason.ROLLBACK


def test_nonsense_from_the_shuffler_is_waited_out(here: Town) -> None:
    with here.device(0) as device:
        device.reward(device.choose(ARMS), 1.0)
        serve(here, "/batch", '{"batch": "now"}')
        assert device.flush() is UploadOutcome.WAITING
        assert "makes no sense" in device.trouble
