"""The signing keys of the other role that are trusted, through its rotations."""

from __future__ import annotations

import time
from collections.abc import Callable

import httpx

from croupier.errors import CroupierError
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keylist import KeyList
from croupier.service.messages.signed_documents import Trusted

PAUSE = 10.0
"""Seconds between two questions to the other role, however many signatures come."""

TIMEOUT = 5.0


class PeerKeys:
    """The keys of the newest list; before there is one, those that are pinned.

    A list of keys is signed by the active one and by those that expire, so that whoever trusts
    one of these can follow. A key that the newest list does not have is trusted no more by this
    process, a pinned one neither; after a restart the pins of the settings count again, until the
    next list. ``url`` is where the list is; without it nothing is followed.
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
        self._asked = dict.fromkeys((True, False), -PAUSE)
        self._pinned: Trusted = dict(pinned)
        self._newest: KeyList | None = None

    @property
    def keys(self) -> Trusted:
        """What is trusted now; a key whose time is over is not, whether a new list came or not."""
        newest = self._newest
        return self._pinned if newest is None else newest.trusted()

    def take(self, document: bytes) -> KeyList:
        """A list that a trusted key has signed; from here on its keys are trusted, and no others.

        An older list than the newest is refused: it would bring retired keys back.
        """
        found = KeyList.verify(document, self._role, self.keys)
        newest = self._newest
        if newest is not None and found.sequence < newest.sequence:
            detail = f"the {self._role}'s keys go back to list {found.sequence}"
            raise Refusal(Reason.ROLLBACK, detail)
        self._newest = found
        return found

    async def meet(self, signature: str) -> None:
        """Look at the list before a signature is checked, unless that was just done.

        Its key may be one that we do not know yet, or one that was retired since we looked. For
        either there is a pause of its own, so that a rotation is met at once.
        """
        known = signature.partition(".")[0] in {key.hex() for key in self.keys}
        if self._url is None or self._clock() - self._asked[known] < PAUSE:
            return
        self._asked[known] = self._clock()
        try:
            self.take(await self._fetch(self._url))
        except (CroupierError, httpx.HTTPError):
            return  # we go on with what is known; a signature that does not fit is refused

    async def _fetch(self, url: str) -> bytes:
        async with httpx.AsyncClient(
            base_url=url, timeout=TIMEOUT, transport=self._transport, trust_env=False
        ) as client:
            return (await client.get("/v1/keys")).content
