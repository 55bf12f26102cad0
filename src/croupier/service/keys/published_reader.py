"""Public documents of another service, and the keys that it signs them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import httpx

from croupier.errors import CroupierError, SignatureError
from croupier.service.http.cookies import refuse_cookies
from croupier.service.http.problems import read_reason
from croupier.service.http.reasons import Refusal
from croupier.service.keys.peer_keys import PeerKeys
from croupier.service.messages.signed_documents import Trusted

Found = TypeVar("Found")

TIMEOUT = 10.0
MOST_BYTES = 2**26
"""Of an answer; a ledger of a hundred thousand batches is shorter."""


class UnansweredError(CroupierError):
    """A service could not be asked, or answered something that means nothing."""


class PublishedReader:
    """One service of that role, read over HTTP."""

    def __init__(
        self,
        role: str,
        url: str,
        pinned: Trusted,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.role = role
        self._trust = PeerKeys(role, pinned)
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=TIMEOUT,
            transport=transport,
            trust_env=False,
            headers={"user-agent": "croupier-reader"},
        )
        refuse_cookies(self._http.cookies.jar)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def get(self, path: str) -> bytes:
        """The bytes of a document, not believed yet; a refusal is raised as one."""
        try:
            async with self._http.stream("GET", path) as answer:
                body = await self._read(answer)
        except httpx.HTTPError as error:
            kind = type(error).__name__
            raise UnansweredError(f"the {self.role} did not answer: {kind}") from error
        if answer.is_success:
            return body
        reason = read_reason(body)
        if reason is None:
            raise UnansweredError(f"the {self.role} answered {answer.status_code}")
        raise Refusal(reason, f"by the {self.role}")

    async def follow_keys(self) -> bytes:
        """The signed list of the service's keys, which are trusted from here on."""
        text = await self.get("/v1/keys")
        self._trust.take(text)
        return text

    async def believe(self, check: Callable[[Trusted], Found]) -> Found:
        """What was signed by a key that is, or has just been announced to be, good."""
        try:
            return check(self._trust.keys)
        except SignatureError:
            await self.follow_keys()
            return check(self._trust.keys)

    async def _read(self, answer: httpx.Response) -> bytes:
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                raise UnansweredError(f"the {self.role} sends more than {MOST_BYTES} bytes")
        return body
