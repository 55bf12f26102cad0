"""One model for everybody: a private model does no harm, and a fork is told and can be left."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator

import httpx
import numpy as np
import pytest

from croupier.model import Model
from croupier.service.device.device import Device
from croupier.service.device.store import Fork
from croupier.service.device.upload import UploadOutcome
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import signed_documents

from ..in_process_deployment import Town, town, two_users_plan

ARMS = np.array([[0.6, 0.0], [0.0, 0.6]])
USERS, BATCHES = 2, 3


@pytest.fixture
def here() -> Iterator[Town]:
    with town(two_users_plan(BATCHES)) as made:
        yield made


def queue(device: Device) -> None:
    device.reward(device.choose(ARMS), 1.0)


def learn(place: Town, *users: int) -> Model:
    """A batch of these users; the model that everybody has then."""
    for user in users:
        with place.device(user) as device:
            queue(device)
            assert device.flush() is UploadOutcome.ACCEPTED
    place.carry()
    return place.analyzer.parts.store.newest_model(place.plan.id).model


def private(place: Town) -> Model:
    """A model that the analyzer signs for one device: of two arms it always plays the first."""
    first = place.analyzer.parts.store.newest_model(place.plan.id).model
    return dataclasses.replace(
        first,
        theta=np.array([1e3, 0.0]),
        matrix=np.eye(2) * 1e-9,
        version=first.version + 1,
        users=USERS,
        previous=first.hash,
    )


def signed(place: Town, model: Model) -> str:
    return signed_documents.sign_model(model, "", place.analyzer.parts.keyring.signer)


def answer_models(place: Town, text: str) -> None:
    """Whatever model is asked for, this is the answer."""

    def fault(request: httpx.Request) -> httpx.Response | None:
        path = request.url.path
        is_model = path.endswith("/model") or path.startswith("/v1/models/")
        return httpx.Response(200, text=text) if is_model else None

    place.bridge.fault = fault


def name_to_one_device(place: Town, model: Model) -> None:
    """Somebody who speaks for the shuffler too, as a proxy could, names a model to this device."""
    batch = f"/v1/plans/{place.plan.id}/batch"
    offer = place.http.get(f"{place.settings.shuffler_url}{batch}").json()
    texts = {
        batch: json.dumps(offer | {"model_hash": model.hash, "batch": model.version}),
        f"/v1/models/{model.hash}": signed(place, model),
    }

    def fault(request: httpx.Request) -> httpx.Response | None:
        text = texts.get(request.url.path)
        return None if text is None else httpx.Response(200, text=text)

    place.bridge.fault = fault


def reason_of(work: Callable[[], object]) -> Reason:
    with pytest.raises(Refusal) as refused:
        work()
    return refused.value.reason


# A malicious analyzer


def test_a_private_model_that_is_signed_is_not_used_unless_everybody_is_named_it(
    here: Town,
) -> None:
    evil = private(here)
    with here.device(0) as device:
        first = device.refresh()
        answer_models(here, signed(here, evil))
        assert device.refresh().hash == device.model.hash == first.hash
        queue(device)
        assert device.flush() is UploadOutcome.ACCEPTED
        here.bridge.fault = None
        honest = learn(here, 1)
        answer_models(here, signed(here, evil))
        assert reason_of(device.refresh) is Reason.MALFORMED
        assert (device.model.hash, device.fork) == (first.hash, None)
        here.bridge.fault = None
        assert device.refresh().hash == honest.hash
    with here.device(9) as fresh:
        answer_models(here, signed(here, evil))
        assert reason_of(lambda: fresh.choose(ARMS)) is Reason.MALFORMED


# A device that was told of a fork


def test_a_fork_is_not_used_and_not_reported_for_and_the_app_is_told(here: Town) -> None:
    evil = private(here)
    with here.device(9) as device:
        device.refresh()
        good = learn(here, 0, 1)
        assert device.refresh().hash == good.hash
        queue(device)
        name_to_one_device(here, dataclasses.replace(evil, version=1))
        assert reason_of(device.refresh) is Reason.FORK
        assert device.fork == Fork(1, good.hash, 1, evil.hash)
        assert reason_of(device.flush) is Reason.FORK
        assert (device.waiting, device.participations) == (True, [])
        assert device.choose(ARMS).arm in (0, 1)
        assert device.model.hash == good.hash
    with here.device(9) as device:
        assert device.fork == Fork(1, good.hash, 1, evil.hash)
        here.bridge.fault = None
        assert device.flush() is UploadOutcome.ACCEPTED
        assert device.fork is None
        assert device.accepted == [1]


def test_an_older_model_is_a_fork_too(here: Town) -> None:
    with here.device(9) as device:
        first = device.refresh()
        good = learn(here, 0, 1)
        device.refresh()
        name_to_one_device(here, first)
        assert reason_of(device.refresh) is Reason.FORK
        assert device.fork == Fork(1, good.hash, 0, first.hash)


# A device that was on the fork itself


def test_a_device_that_was_on_the_fork_comes_back_by_the_apps_decision(here: Town) -> None:
    """What was reported from the fork got nowhere: the shuffler has another model's batch."""
    evil = private(here)
    with here.device(9) as victim:
        victim.refresh()
        name_to_one_device(here, dataclasses.replace(evil, version=1))
        assert victim.refresh().hash == evil.hash
        queue(victim)
        assert victim.flush(patience=0.0) is UploadOutcome.WAITING
        assert here.filled == 0
        here.bridge.fault = None
        honest = learn(here, 0, 1)
        assert reason_of(victim.flush) is Reason.FORK
        assert victim.fork == Fork(1, evil.hash, 1, honest.hash)
    with here.device(9) as victim:
        assert reason_of(victim.refresh) is Reason.FORK
        assert victim.leave_fork().hash == honest.hash
        assert (victim.fork, victim.model.hash) == (None, honest.hash)
        assert victim.flush() is UploadOutcome.ACCEPTED
        assert victim.accepted == [1]
    with here.device(9) as victim:
        assert (victim.fork, victim.refresh().hash) == (None, honest.hash)
        learn(here, 3)
        assert victim.refresh().version == 2
    lines = (here.home("9") / "ledger.jsonl").read_text().splitlines()
    (left,) = [json.loads(line) for line in lines if "fork-left" in line]
    assert (left["batch"], left["model"]) == (1, honest.hash)


def test_a_fork_can_be_left_for_an_older_batch(here: Town) -> None:
    """The device was shown a later batch than there is."""
    with here.device(9) as victim:
        victim.refresh()
        name_to_one_device(here, private(here))
        queue(victim)
        assert victim.flush(patience=0.0) is UploadOutcome.WAITING
        here.bridge.fault = None
        assert reason_of(victim.refresh) is Reason.FORK
        assert victim.leave_fork().version == 0
        assert victim.flush() is UploadOutcome.ACCEPTED
        assert here.filled == 1


def test_what_the_analyzer_did_not_sign_is_not_gone_on_with(here: Town) -> None:
    with here.device(9) as device:
        device.refresh()
        good = learn(here, 0, 1)
        device.refresh()
        name_to_one_device(here, dataclasses.replace(good, theta=good.theta + 1))
        assert reason_of(device.refresh) is Reason.FORK
        here.bridge.fault = None
        answer_models(here, signed(here, good))
        honest = learn(here, 2, 3)
        assert reason_of(device.leave_fork) is Reason.MALFORMED
        assert device.model.hash == good.hash
        here.bridge.fault = None
        assert device.leave_fork().hash == honest.hash


def test_leaving_where_there_is_no_fork_is_a_refresh(here: Town) -> None:
    with here.device(9) as device:
        device.refresh()
        good = learn(here, 0, 1)
        assert device.leave_fork().hash == good.hash
    assert not (here.home("9") / "ledger.jsonl").exists()


def test_the_last_model_is_taken_once_no_batch_names_one(here: Town) -> None:
    with here.device(9) as device:
        device.refresh()
        for batch in range(BATCHES):
            last = learn(here, 2 * batch, 2 * batch + 1)
        assert device.refresh().hash == last.hash
        assert last.version == BATCHES
        answer_models(here, signed(here, dataclasses.replace(last, theta=last.theta + 1)))
        assert reason_of(device.refresh) is Reason.FORK
        assert device.model.hash == last.hash
