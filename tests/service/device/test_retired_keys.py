"""The analyzer's key is replaced and the old one retired: nobody has to have seen it happen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from croupier.errors import SignatureError
from croupier.service.device.settings import DeviceSettings
from croupier.service.device.upload import UploadOutcome
from croupier.service.keys.keylist import SIGN, require_active
from croupier.service.messages.signed_documents import read_model, verify_model

from ..in_process_deployment import Town, town
from .test_verification import learn, plan, send

GRACE = 60.0


@pytest.fixture
def here() -> Iterator[Town]:
    with town(plan()) as made:
        yield made


def new_key(place: Town) -> str:
    """That of the analyzer, which signs from now on."""
    return require_active(place.analyzer.parts.keyring.list(), SIGN).public.hex()


def replace_key(place: Town) -> str:
    """The new key, the old one being rotated away and retired."""
    ring = place.analyzer.parts.keyring
    ring.new()
    ring.rotate(grace=GRACE)
    place.carry()
    ring.retire(time.time() + GRACE + 1)
    place.carry()
    return new_key(place)


def restart_shuffler(place: Town, analyzer_key: str) -> None:
    """It trusts that key only, as after an absence through the whole rotation."""
    pinned = place.directory / "services" / "shuffler" / "analyzer-key"
    pinned.write_text(analyzer_key + "\n")
    place.restart_shuffler()


def trusting(place: Town, analyzer_key: str) -> DeviceSettings:
    return replace(place.settings, analyzer_keys=(analyzer_key,))


def report(place: Town, users: range) -> None:
    """By devices that know the new key only."""
    settings = trusting(place, new_key(place))
    for user in users:
        with place.device(user, settings) as device:
            assert send(device) is UploadOutcome.ACCEPTED
    place.carry()


def test_a_shuffler_that_knows_the_new_key_only_carries_the_open_batch(here: Town) -> None:
    learn(here, range(2))
    restart_shuffler(here, replace_key(here))
    report(here, range(2, 4))
    assert here.open_batch == 2


def test_a_shuffler_that_was_away_through_the_rotation_carries_the_open_batch(here: Town) -> None:
    """Its mirror has nothing but the old signature when it starts."""
    learn(here, range(2))
    ring = here.analyzer.parts.keyring
    ring.new()
    ring.rotate(grace=GRACE)
    ring.retire(time.time() + GRACE + 1)
    restart_shuffler(here, new_key(here))
    here.carry()
    report(here, range(2, 4))
    assert here.open_batch == 2


def test_a_device_that_knows_the_new_key_only_takes_the_model_of_the_open_batch(
    here: Town,
) -> None:
    learn(here, range(2))
    with here.device(5, trusting(here, replace_key(here))) as device:
        assert device.refresh().version == 1
        assert send(device) is UploadOutcome.ACCEPTED


def test_a_device_that_missed_models_of_a_retired_key_reaches_the_newest(here: Town) -> None:
    with here.device(99) as device:
        assert device.model.version == 0
    learn(here, range(2))
    learn(here, range(2, 4))
    key = replace_key(here)
    report(here, range(4, 6))
    with here.device(99, trusting(here, key)) as device:
        assert device.refresh().version == 3
        assert device.leave_fork().version == 3


def test_a_predecessor_is_the_one_that_was_named_and_no_other(here: Town) -> None:
    """Its signature is not asked for, so that its hash is all that speaks for it."""
    with here.device(99) as device:
        assert device.model.version == 0
        learn(here, range(2))
        learn(here, range(2, 4))
        newest = here.shuffler.parts.store.current(here.plan.id).model_hash
        place = f"{here.settings.shuffler_url}/v1/models/{newest}"
        before = read_model(here.http.get(place).content).model.previous
        other = here.http.get(place)
        here.bridge.fault = lambda request: other if request.url.path.endswith(before) else None
        with pytest.raises(Exception, match=f"came for {before}"):
            device.refresh()
        assert device.model.version == 0


def test_the_newest_model_is_signed_by_the_key_that_is_active_now(here: Town) -> None:
    learn(here, range(2))
    ring = here.analyzer.parts.keyring
    old = {ring.signer.id: ring.signer.key.public_key()}
    name = here.shuffler.parts.store.current(here.plan.id).model_hash
    place = f"{here.settings.shuffler_url}/v1/models/{name}"
    before = here.http.get(place)
    replace_key(here)
    after = here.http.get(place)
    new = {ring.signer.id: ring.signer.key.public_key()}
    assert verify_model(before.content, old).model.hash == name
    assert verify_model(after.content, new).model.hash == name
    with pytest.raises(SignatureError):
        verify_model(after.content, old)
    assert before.headers["etag"] != after.headers["etag"]
    assert "immutable" not in after.headers["cache-control"]
