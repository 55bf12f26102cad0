"""The signing keys of the other role that are trusted, through its rotations."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx

from croupier.errors import CroupierError
from croupier.service.keys.keylist import KeyList
from croupier.service.messages.signed_documents import Trusted

PAUSE = 10.0
"""Seconds between two questions to the other role, however many unknown signatures come."""

TIMEOUT = 5.0


class PeerKeys:
    """Keys that are pinned, and those that they vouch for.

    A list of keys is signed by the active one and by those that expire, so that whoever trusts
    one of these can follow. ``url`` is where the list is; without it nothing is followed.
    """

    def __init__(
        self,
        role: str,
        pinned: Trusted,
        url: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._role = role
        self._url = url
        self._transport = transport
        self._clock = clock
        self._asked = -PAUSE
        self.keys: Trusted = dict(pinned)

    def take(self, document: bytes) -> KeyList:
        """A list that a trusted key has signed; its keys are trusted from here on."""
        found = KeyList.verify(document, self._role, self.keys)
        self.keys = {**self.keys, **found.trusted()}
        return found

    async def meet(self, signature: str) -> None:
        """Ask for the list if the signature is by a key that is not known yet."""
        name = signature.partition(".")[0]
        if self._url is None or name in {key.hex() for key in self.keys}:
            return
        if self._clock() - self._asked < PAUSE:
            return
        self._asked = self._clock()
        try:
            self.take(await self._fetch(self._url))
        except (CroupierError, httpx.HTTPError):
            return  # the signature is refused, which says enough

    async def _fetch(self, url: str) -> bytes:
        async with httpx.AsyncClient(
            base_url=url, timeout=TIMEOUT, transport=self._transport, trust_env=False
        ) as client:
            return (await client.get("/v1/keys")).content
