"""A device whose files go back to before its report: a power loss, a copy, a restored backup."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from croupier.service.device import store
from croupier.service.device.device import Device, Ticket
from croupier.service.device.upload import UploadOutcome
from croupier.service.http.problems import problem_document
from croupier.service.http.reasons import Reason, Refusal

from ..in_process_deployment import Town, town, two_users_plan

ARMS = np.array([[0.6, 0.0], [0.0, 0.6]])
USERS = 2


@pytest.fixture
def here() -> Iterator[Town]:
    with town(two_users_plan()) as made:
        yield made


def queue(device: Device) -> Ticket:
    ticket = device.choose(ARMS)
    device.reward(ticket, 1.0)
    return ticket


def state(place: Town) -> Path:
    return place.home("0") / "state.json"


def fill(place: Town, *users: int) -> None:
    """The rest of the open batch, learnt from."""
    for user in users:
        with place.device(user) as device:
            queue(device)
            assert device.flush() is UploadOutcome.ACCEPTED
    place.carry()


def refuse(place: Town, *reasons: Reason) -> None:
    """The next uploads, for these reasons, before the shuffler sees them."""
    left = list(reasons)

    def fault(request: httpx.Request) -> httpx.Response | None:
        if request.method != "POST" or not left:
            return None
        refusal = Refusal(left.pop(0))
        return httpx.Response(refusal.reason.status, json=problem_document(refusal))

    place.bridge.fault = fault


def lose(_request: httpx.Request, _answer: httpx.Response) -> None:
    if _request.method == "POST":
        raise httpx.ReadTimeout("lost")


def before_the_choice(place: Town) -> bytes:
    with place.device(0) as device:
        ticket = device.choose(ARMS)
        kept = state(place).read_bytes()
        device.reward(ticket, 1.0)
    return kept


def before_the_report(place: Town) -> bytes:
    with place.device(0) as device:
        queue(device)
    return state(place).read_bytes()


@pytest.mark.parametrize("snapshot", [before_the_choice, before_the_report])
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
def test_a_state_of_before_the_report_does_not_report_the_choice_again(
    here: Town, snapshot: Callable[[Town], bytes], answered: bool
) -> None:
    old = snapshot(here)
    with here.device(0) as device:
        here.bridge.after = None if answered else lose
        wanted = UploadOutcome.ACCEPTED if answered else UploadOutcome.WAITING
        assert device.flush(patience=0.0) is wanted
        here.bridge.after = None
    state(here).write_bytes(old)
    fill(here, 1)
    with here.device(0) as device:
        assert not device.waiting
        assert device.flush() is UploadOutcome.NOTHING
        for choice in device._files.state.choices:
            device.reward(choice.ticket, 1.0)
        assert not device.waiting
        assert device.participations == [0]
    assert here.filled == 0


def test_a_state_of_between_two_seals_does_not_send_the_first_again(here: Town) -> None:
    """The shuffler would call them another report of this account, and the next batch get one."""
    refuse(here, *[Reason.UNKNOWN_KEY] * 2)
    with here.device(0) as device:
        queue(device)
        assert device.flush(patience=0.0) is UploadOutcome.WAITING
    between = state(here).read_bytes()
    with here.device(0) as device:
        assert device.flush() is UploadOutcome.ACCEPTED
    state(here).write_bytes(between)
    fill(here, 1)
    with here.device(0) as device:
        assert device.flush() is UploadOutcome.NOTHING
    assert here.filled == 0


def test_what_was_refused_may_still_be_reported_by_a_state_that_went_back(here: Town) -> None:
    """Nobody has that report, so that nothing is made twice."""
    old = before_the_report(here)
    refuse(here, Reason.BAD_TOKEN)
    with here.device(0) as device:
        with pytest.raises(Refusal):
            device.flush()
        assert device.participations == []
    state(here).write_bytes(old)
    with here.device(0) as device:
        assert device.flush() is UploadOutcome.ACCEPTED


def test_a_choice_that_waits_for_another_batch_is_not_taken_for_sent(here: Town) -> None:
    with here.device(0, name="phone") as phone:
        queue(phone)
        assert phone.flush() is UploadOutcome.ACCEPTED
    with here.device(0) as tablet:
        queue(tablet)
        assert tablet.flush() is UploadOutcome.WAITING
    fill(here, 1)
    with here.device(0) as tablet:
        assert tablet.flush() is UploadOutcome.ACCEPTED
        assert tablet.accepted == [1]


def test_a_state_is_on_disk_before_anything_that_follows(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file's bytes, then its name: a power loss leaves the old state or the new one."""
    steps: list[str] = []

    def noted(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def once_more(*arguments: object) -> None:
            steps.append(name)
            call(*arguments)

        return once_more

    with here.device(0) as device:
        monkeypatch.setattr(os, "fsync", noted("file", os.fsync))
        monkeypatch.setattr(Path, "replace", noted("rename", Path.replace))
        monkeypatch.setattr(store, "flush_directory", noted("directory", lambda _: None))
        device._files.write_text("state.json", "{}")
    assert steps == ["file", "rename", "directory"]
