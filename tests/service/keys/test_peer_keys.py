"""The keys of the other role: the newest list says all of them, and none before it counts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import httpx
import pytest

from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keyring import Keyring
from croupier.service.keys.peer_keys import PAUSE, PeerKeys
from croupier.service.keys.published_reader import PublishedReader
from croupier.service.messages.signed_documents import Signer, sign_batch, trusted_keys


class Clocks:
    """The time of day, as lists of keys have it, and the one that waits are measured by."""

    def __init__(self) -> None:
        self.day, self.steady = 1_000_000.0, 50.0


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(time, "time", lambda: made.day)
    return made


def pinned(ring: Keyring) -> PeerKeys:
    return PeerKeys("shuffler", trusted_keys([ring.signer.public]))


def rotate(ring: Keyring, grace: float) -> Signer:
    """The key that is active no more."""
    old = ring.signer
    ring.new()
    ring.rotate(grace)
    return old


def test_a_key_that_the_newest_list_does_not_have_is_dropped(ring: Keyring, clocks: Clocks) -> None:
    """The pinned one too."""
    trust = pinned(ring)
    old = rotate(ring, 100)
    trust.take(ring.document().encode())
    assert set(trust.keys) == {old.id, ring.signer.id}
    ring.retire(clocks.day + 100)
    trust.take(ring.document().encode())
    assert set(trust.keys) == {ring.signer.id}


def test_a_key_whose_time_is_over_is_dropped_without_a_new_list(
    ring: Keyring, clocks: Clocks
) -> None:
    trust = pinned(ring)
    old = rotate(ring, 100)
    trust.take(ring.document().encode())
    clocks.day += 99
    assert old.id in trust.keys
    clocks.day += 1
    assert set(trust.keys) == {ring.signer.id}


def test_a_clock_that_was_ahead_for_a_moment_costs_no_trust(ring: Keyring, clocks: Clocks) -> None:
    trust = pinned(ring)
    old = rotate(ring, 100)
    trust.take(ring.document().encode())
    clocks.day += 1000
    trust.take(ring.document().encode())
    assert old.id not in trust.keys
    clocks.day -= 1000
    trust.take(ring.document().encode())
    assert old.id in trust.keys


def test_an_older_list_brings_no_retired_key_back(ring: Keyring, clocks: Clocks) -> None:
    trust = pinned(ring)
    old = rotate(ring, 100)
    before = ring.document().encode()
    trust.take(before)
    ring.retire(clocks.day + 100)
    trust.take(ring.document().encode())
    with pytest.raises(Refusal, match="the shuffler's keys go back to list") as refused:
        trust.take(before)
    assert refused.value.reason is Reason.ROLLBACK
    assert old.id not in trust.keys


def test_pinned_keys_count_until_there_is_a_list(ring: Keyring) -> None:
    assert set(pinned(ring).keys) == {ring.signer.id}


class Peer(httpx.AsyncBaseTransport):
    """Answers with the list of a ring as it is, or not at all."""

    def __init__(self, ring: Keyring) -> None:
        self._ring = ring
        self.asked = 0
        self.reachable = True

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if not self.reachable:
            raise httpx.ConnectError("gone")
        return httpx.Response(200, text=self._ring.document())


@pytest.fixture
def peer(ring: Keyring) -> Peer:
    return Peer(ring)


@pytest.fixture
def meet(ring: Keyring, peer: Peer, clocks: Clocks) -> Callable[[Signer], PeerKeys]:
    """The trust of a role to which signatures come."""
    trust = PeerKeys(
        "shuffler", trusted_keys([ring.signer.public]), "http://peer", peer, lambda: clocks.steady
    )

    def come(signer: Signer) -> PeerKeys:
        asyncio.run(trust.meet(sign_batch(b"", signer)))
        return trust

    return come


Meet = Callable[[Signer], PeerKeys]


def test_a_known_key_is_looked_after_now_and_then(
    ring: Keyring, peer: Peer, meet: Meet, clocks: Clocks
) -> None:
    old = rotate(ring, 100)
    assert old.id in meet(old).keys
    ring.retire(clocks.day + 100)
    assert old.id in meet(old).keys
    clocks.steady += PAUSE
    assert set(meet(old).keys) == {ring.signer.id}
    assert peer.asked == 2


def test_an_unknown_key_is_looked_for_though_a_known_one_just_was(
    ring: Keyring, meet: Meet
) -> None:
    meet(ring.signer)
    rotate(ring, 100)
    assert ring.signer.id in meet(ring.signer).keys


def test_a_peer_that_does_not_answer_changes_nothing_but_what_is_over(
    ring: Keyring, peer: Peer, meet: Meet, clocks: Clocks
) -> None:
    old = rotate(ring, 100)
    meet(old)
    peer.reachable = False
    clocks.steady += PAUSE
    assert old.id in meet(old).keys
    clocks.day += 100
    assert set(meet(old).keys) == {ring.signer.id}


def test_a_reader_drops_what_the_newest_list_does_not_have(
    ring: Keyring, peer: Peer, clocks: Clocks
) -> None:
    async def story() -> None:
        reader = PublishedReader(
            "shuffler", "http://peer", trusted_keys([ring.signer.public]), peer
        )
        old = rotate(ring, 100)
        await reader.follow_keys()
        assert await reader.believe(set) == {old.id, ring.signer.id}
        ring.retire(clocks.day + 100)
        await reader.follow_keys()
        assert await reader.believe(set) == {ring.signer.id}
        await reader.close()

    asyncio.run(story())
