"""A device's calls to the shuffler: every way in which an answer can be bad has one meaning.

A request says nothing of the device but what it is for: no cookies, no ETags, no names of software.
``Refusal``: the service said no, for a reason of the closed list. ``LaterRefusal``: not now.
``UnreachableError``: no answer that says what became of the request.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx

from croupier.errors import CroupierError
from croupier.packing import raw
from croupier.service.device.settings import DeviceSettings
from croupier.service.http.cookies import refuse_cookies
from croupier.service.http.media_types import ACCOUNT_TOKEN, RECORDS_TYPE
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.sealing import NO_PUBLIC_KEY, PUBLIC_KEY
from croupier.wire import MODEL_HASH, Transport

PROBLEM = "urn:croupier:problem:"
MOST_BYTES = 2**24
"""Of an answer; a service that sends more is not heard out."""

HEADERS = {"accept": "*/*", "user-agent": "croupier-device"}
"""The same on every device; what an app's own client would add is left out."""

KEYS = {
    "shuffler": "/v1/keys",
    "analyzer": "/v1/analyzer/keys",
    "witness": "/v1/witness/keys",
}
"""Where the shuffler has the list of a role's keys."""

WAIT = 1.0
MOST_WAIT = 3600.0


class UnreachableError(CroupierError):
    """A service could not be reached, or answered something that means nothing to a device."""


class LaterRefusal(Refusal):
    """The same can be asked again after ``seconds``."""

    def __init__(self, reason: Reason, seconds: float, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.seconds = seconds


@dataclass(frozen=True)
class BatchOffer:
    """What the shuffler says of its newest batch. ``key`` and ``inner_key`` are not believed yet.

    ``inner_key`` is zeros where nothing is sealed for the analyzer. ``attempt`` is how often the
    batch was emptied and begun again.
    """

    index: int
    is_open: bool
    transport: Transport
    model_hash: str
    key: bytes
    inner_key: bytes
    attempt: int = 0


class ShufflerClient:
    """The only service that a device talks to, by plain calls."""

    def __init__(
        self, settings: DeviceSettings, http: httpx.Client, account_token: str | None = None
    ) -> None:
        self._http = http
        self._home = settings.shuffler_url.rstrip("/")
        self._plan = f"/v1/plans/{settings.plan_id}"
        self._timeout = settings.timeout
        self._access = {"authorization": f"Bearer {settings.token}"} if settings.token else {}
        self._account = {ACCOUNT_TOKEN.lower(): account_token} if account_token else {}

    def plan(self) -> str:
        """The plan's document."""
        return self._text(self._plan)

    def last_model(self) -> str:
        """The newest signed model, for when the plan has ended and no batch names one."""
        return self._text(f"{self._plan}/model")

    def model(self, model_hash: str) -> str:
        """A signed model by its hash."""
        return self._text(f"/v1/models/{model_hash}")

    def keys(self, role: str) -> str:
        """The signed list of a role's keys."""
        return self._text(KEYS[role])

    def witnessed(self) -> str:
        """The newest head that a witness has signed."""
        return self._text(f"{self._plan}/witness")

    def batch(self) -> BatchOffer:
        """The newest batch."""
        text = self._text(f"{self._plan}/batch", self._access)
        try:
            return _read_offer(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UnreachableError(f"the shuffler's batch makes no sense: {error!r}") from error

    def upload(self, record: bytes) -> None:
        """Hand in one record; without an error it is in."""
        headers = {"content-type": RECORDS_TYPE, **self._access, **self._account}
        status, _ = self._request("POST", f"{self._plan}/reports", headers, record)
        if status != httpx.codes.CREATED:
            raise UnreachableError(f"the shuffler answered a report with {status}")

    def _text(self, path: str, headers: dict[str, str] | None = None) -> str:
        return _decode_text(self._request("GET", path, headers or {})[1])

    def _request(
        self, method: str, path: str, headers: dict[str, str], content: bytes | None = None
    ) -> tuple[int, bytes]:
        """Status and body of an answer that is no error."""
        place = self._home + path
        try:
            body, answer = self._exchange(method, place, HEADERS | headers, content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise UnreachableError(f"{place}: {type(error).__name__}") from error
        if not answer.is_success:
            raise _read_problem(place, answer, body)
        return answer.status_code, body

    def _exchange(
        self, method: str, place: str, headers: dict[str, str], content: bytes | None
    ) -> tuple[bytes, httpx.Response]:
        """Made here and not by the client, whose headers and cookies are the app's own."""
        refuse_cookies(self._http.cookies.jar)
        patience = {"timeout": httpx.Timeout(self._timeout).as_dict()}
        request = httpx.Request(
            method, place, headers=headers, content=content, extensions=patience
        )
        answer = self._http.send(request, stream=True, auth=None, follow_redirects=False)
        try:
            return _read_body(answer), answer
        finally:
            answer.close()


def _read_body(answer: httpx.Response) -> bytes:
    body = b""
    for part in answer.iter_bytes():
        body += part
        if len(body) > MOST_BYTES:
            raise UnreachableError(f"the answer is longer than {MOST_BYTES} bytes")
    return body


def _decode_text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise UnreachableError("the answer is not text") from error


def _read_problem(place: str, answer: httpx.Response, body: bytes) -> CroupierError:
    """The refusal in a problem document; anything else says nothing."""
    try:
        told = json.loads(body)
        reason = Reason.of(str(told["type"]).removeprefix(PROBLEM))
        detail = str(told.get("detail", ""))[:200]
    except (ValueError, TypeError, KeyError, AttributeError):
        return UnreachableError(f"{place} answered {answer.status_code}")
    if reason.retry:
        return LaterRefusal(reason, _read_retry_after(answer), detail)
    return Refusal(reason, detail)


def _read_retry_after(answer: httpx.Response) -> float:
    """Of the header Retry-After, where it is a number."""
    told = answer.headers.get("retry-after", "")
    return min(float(told), MOST_WAIT) if told.isascii() and told.isdigit() else WAIT


def _read_offer(told: dict[str, Any]) -> BatchOffer:
    inner = told["inner_key"]
    return BatchOffer(
        int(told["batch"]),
        told["state"] == "open",
        Transport[told["transport"].upper()],
        raw("model_hash", told["model_hash"], MODEL_HASH).hex(),
        raw("key", told["key"], PUBLIC_KEY),
        NO_PUBLIC_KEY if inner is None else raw("inner_key", inner, PUBLIC_KEY),
        int(told.get("attempt", 0)),
    )
