"""A device talks to the shuffler only, and its requests say nothing of which device it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from croupier.service.device.backoff import random_moment
from croupier.service.device.device import Device
from croupier.service.device.settings import DeviceSettings
from croupier.service.device.upload import UploadOutcome
from croupier.wire import Transport

from ..in_process_deployment import Town, town, two_users_plan

ARMS = np.array([[0.6, 0.0], [0.0, 0.6]])
USERS = 2


@pytest.fixture
def here() -> Iterator[Town]:
    with town(two_users_plan()) as made:
        yield made


def take_part(device: Device) -> UploadOutcome:
    device.refresh()
    device.reward(device.choose(ARMS), 1.0)
    return device.flush()


def tag(place: Town) -> None:
    """Every answer asks to be remembered, in each way that HTTP has."""
    count = iter(range(1000))

    def mark(_request: httpx.Request, answer: httpx.Response) -> None:
        answer.headers["set-cookie"] = f"tag={next(count)}; Max-Age=99999999; Path=/"
        answer.headers["etag"] = f'"{next(count)}"'
        answer.headers["last-modified"] = "Thu, 01 Jan 2026 00:00:00 GMT"

    place.bridge.after = mark


def headers_of(requests: list[httpx.Request]) -> list[tuple[str, dict[str, str]]]:
    return [(f"{one.method} {one.url}", dict(one.headers)) for one in requests]


@pytest.mark.parametrize("transport", [Transport.BITS, Transport.SHARES])
def test_two_devices_send_the_same_requests_whatever_they_were_answered(
    transport: Transport,
) -> None:
    """Over two batches; records are the only thing in which they differ."""
    with town(two_users_plan(), transport) as here:
        tag(here)
        sent: list[list[httpx.Request]] = []
        for _batch in range(2):
            for user in range(USERS):
                start = len(here.bridge.requests)
                with here.device(user) as device:
                    assert take_part(device) is UploadOutcome.ACCEPTED
                sent.append(here.bridge.requests[start:])
            here.carry()
        assert headers_of(sent[0]) == headers_of(sent[1])
        assert headers_of(sent[2]) == headers_of(sent[3])
        names = {name for one in here.bridge.requests for name in one.headers}
        assert names == {"accept", "content-length", "content-type", "host", "user-agent"}
        assert {one.headers["user-agent"] for one in here.bridge.requests} == {"croupier-device"}


def test_an_apps_own_client_lends_a_device_its_connections_and_nothing_else(here: Town) -> None:
    tag(here)
    shared = httpx.Client(
        transport=here.bridge,
        cookies={"session": "of the app"},
        headers={"x-user": "7", "user-agent": "app/1.2.3 on a phone"},
        auth=("user", "word"),
        params={"user": "7"},
    )
    with shared, Device(here.settings, bytes(32), here.home("app"), http=shared) as device:
        assert take_part(device) is UploadOutcome.ACCEPTED
        assert dict(shared.cookies) == {"session": "of the app"}
    for request in here.bridge.requests:
        assert not {"cookie", "x-user", "authorization"} & set(request.headers)
        assert not request.url.query


def test_a_redirect_is_not_followed(here: Town) -> None:
    """Nor is the address that it names taken for an answer."""
    elsewhere = {"location": "http://analyzer.example.org/"}
    here.bridge.fault = lambda _: httpx.Response(307, headers=elsewhere)
    with here.device(0) as device, pytest.raises(Exception, match="answered 307"):
        device.refresh()
    assert len(here.bridge.requests) == 1


def test_an_accounts_token_goes_with_reports_and_with_nothing_else(here: Town) -> None:
    made = Device(
        here.settings, bytes(32), here.home("a"), account_token="a.signed.token", http=here.http
    )
    with made as device:
        assert take_part(device) is UploadOutcome.ACCEPTED
    told = {one.method: one.headers.get("croupier-account-token") for one in here.bridge.requests}
    assert told == {"GET": None, "POST": "a.signed.token"}


# The moment of a report


def test_a_report_waits_a_random_moment_before_anything_is_asked(here: Town) -> None:
    settings = dataclasses.replace(here.settings, report_delay=20.0)
    asked: list[int] = []
    moments: list[float] = []

    def sleep(seconds: float) -> None:
        asked.append(len(here.bridge.requests))
        moments.append(seconds)

    for user in range(2):
        with Device(
            settings, bytes([user]) * 32, here.home(str(user)), http=here.http, sleep=sleep
        ) as device:
            device.reward(device.choose(ARMS), 1.0)
            before = len(here.bridge.requests)
            assert device.flush(patience=0.0) is UploadOutcome.ACCEPTED
            assert asked[-1] == before
            assert device.flush() is UploadOutcome.NOTHING
    assert len(set(moments)) == len(moments) == 2
    assert all(0 <= moment < 20.0 for moment in moments)


def test_moments_are_uniform() -> None:
    """Of 2000, more than 8 standard deviations from the mean happen once in 1e15 runs."""
    found = [random_moment(3.0) for _ in range(2000)]
    assert 0 <= min(found) <= max(found) < 3.0
    assert abs(np.mean(found) - 1.5) < 8 * 3.0 / np.sqrt(12 * 2000)


def test_an_app_that_says_nothing_gets_a_delay() -> None:
    made = DeviceSettings("00" * 16, "https://s", ("11" * 32,), ("22" * 32,))
    assert made.report_delay == 30.0
    with pytest.raises(ValueError, match="report_delay must be at least 0, got -1"):
        dataclasses.replace(made, report_delay=-1.0)
