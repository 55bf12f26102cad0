"""A device whose state goes back to between two tries with the same bytes."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from croupier.service.device.upload import UploadOutcome
from croupier.service.http.problems import problem_document
from croupier.service.http.reasons import Reason, Refusal

from ..in_process_deployment import Town, town, two_users_plan

ARMS = np.array([[0.6, 0.0], [0.0, 0.6]])


@pytest.fixture
def here() -> Iterator[Town]:
    with town(two_users_plan()) as made:
        yield made


def be_busy(place: Town) -> None:
    """The next upload is to come again later."""
    refusals = [Refusal(Reason.QUEUE_FULL)]

    def fault(request: httpx.Request) -> httpx.Response | None:
        if request.method != "POST" or not refusals:
            return None
        refusal = refusals.pop()
        return httpx.Response(refusal.reason.status, json=problem_document(refusal))

    place.bridge.fault = fault


def lose_answers(request: httpx.Request, _: httpx.Response) -> None:
    if request.method == "POST":
        raise httpx.ReadTimeout("lost")


def report(place: Town, user: int) -> UploadOutcome:
    with place.device(user) as device:
        if not device.waiting:
            device.reward(device.choose(ARMS), 1.0)
        return device.flush(patience=0.0)


@pytest.mark.parametrize("goes_back", [False, True])
def test_bytes_that_were_to_come_later_and_then_were_unanswered_are_made_once(
    here: Town, goes_back: bool
) -> None:
    """The state of between is sure that the bytes are not in; the ledger knows better."""
    be_busy(here)
    assert report(here, 0) is UploadOutcome.WAITING
    between = (here.home("0") / "state.json").read_bytes()
    here.bridge.after = lose_answers
    assert report(here, 0) is UploadOutcome.WAITING
    here.bridge.after = None
    assert here.filled == 1
    if goes_back:
        (here.home("0") / "state.json").write_bytes(between)
    assert report(here, 1) is UploadOutcome.ACCEPTED
    here.carry()
    with here.device(0) as device:
        assert device.flush() is UploadOutcome.LOST
        assert device.participations == [0]
    assert here.filled == 0


def test_bytes_that_were_only_to_come_later_may_be_made_for_the_next_batch(here: Town) -> None:
    """Nobody has them, also as the device sees it after a restart."""
    be_busy(here)
    assert report(here, 0) is UploadOutcome.WAITING
    for user in (1, 2):
        assert report(here, user) is UploadOutcome.ACCEPTED
    here.carry()
    assert report(here, 0) is UploadOutcome.ACCEPTED
    assert here.filled == 1
