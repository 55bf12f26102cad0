"""One outsider fills a batch around the one honest report in it, and reads that from the sums."""

from __future__ import annotations

import secrets
from functools import lru_cache

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.client import Client
from croupier.plan import Plan
from croupier.protocols.vector_release import VectorSumRelease
from croupier.service.account_settings import OPEN_TO_ALL, AccountPolicy
from croupier.service.admin import doctor
from croupier.service.http.media_types import ACCOUNT_TOKEN
from croupier.service.keys.keyring import Keyring
from croupier.service.messages.account_tokens import issue_token
from croupier.service.messages.records import Address, make_record
from croupier.service.messages.sealing import NO_PUBLIC_KEY, Binding
from croupier.service.messages.signed_documents import verify_model
from croupier.service.settings import read_secret
from croupier.shuffler import Messages
from croupier.wire import Transport

from ..in_process_deployment import Town, town

USERS = 40


@lru_cache
def plan() -> Plan:
    return Plan.calibrate(
        "vector-sum",
        dim=2,
        batches="fixed",
        batch_size=USERS,
        horizon=USERS * 2,
        epsilon=8.0,
        delta=1e-2,
    )


def release() -> VectorSumRelease:
    found = plan().release(0)
    assert isinstance(found, VectorSumRelease)
    return found


class Crowd:
    """Records for the open batch, as anybody can make them from what is public."""

    def __init__(self, here: Town) -> None:
        self._here = here
        self.plan = f"/v1/plans/{here.plan.id}"
        self._offer = self.get(f"{self.plan}/batch").json()

    def get(self, place: str) -> httpx.Response:
        return self._here.http.get(f"{self._here.settings.shuffler_url}{place}")

    def record(self, messages: Messages, account: bytes) -> bytes:
        told = self._offer
        inner = bytes.fromhex(told["inner_key"]) if told["inner_key"] else NO_PUBLIC_KEY
        place = (self._here.plan.id, told["batch"], told["model_version"], told["model_hash"])
        binding = Binding(Transport[told["transport"].upper()], *place, inner)
        return make_record(plan(), messages, Address(binding, bytes.fromhex(told["key"]), account))

    def honest(self) -> Messages:
        text = self.get(f"/v1/models/{self._offer['model_hash']}").content
        client = Client(plan())
        client.update(verify_model(text, self._here.shuffler.parts.trusted).model, 0)
        return client.report(np.array([0.6, 0.2]), 1.0).messages

    def post(self, *records: bytes, **headers: str) -> httpx.Response:
        place = f"{self._here.settings.shuffler_url}{self.plan}/reports"
        return self._here.http.post(place, content=b"".join(records), headers=headers)


def known_messages() -> Messages:
    """A well-formed report of all ones, without any noise of its own."""
    made = plan().shapes(0)
    return {name: np.ones(shape, kind) for name, (shape, kind) in made.items()}


def honest_counts(here: Town) -> NDArray[np.int64]:
    """What is left of a batch's public sums once the outsider takes theirs away."""
    (sums,) = here.analyzer.parts.store.sums(here.plan.id)
    made = release()
    tally = (sums - USERS * plan().layout.low) * made.grid + USERS * made.noise_bits * made.bias
    found: NDArray[np.int64] = np.round(tally).astype(np.int64)
    return found - (USERS - 1) * made.tally(known_messages())


def doctor_on_accounts(here: Town) -> doctor.CheckResult:
    found = doctor.examine(here.directory / "services" / "shuffler" / "settings.toml")
    return next(one for one in found if one.check == "accounts")


@pytest.mark.parametrize("transport", [Transport.BITS, Transport.SHARES])
def test_where_anyone_may_report_the_one_honest_report_is_read(transport: Transport) -> None:
    """And that is what doctor says of such a deployment."""
    with town(plan(), transport, AccountPolicy.ANYONE) as here:
        crowd = Crowd(here)
        victim = crowd.honest()
        assert crowd.post(crowd.record(victim, secrets.token_bytes(32))).status_code == 201
        filling = [
            crowd.record(known_messages(), secrets.token_bytes(32)) for _ in range(USERS - 1)
        ]
        assert crowd.post(*filling).json()["failures"] == []
        here.carry()
        np.testing.assert_array_equal(honest_counts(here), release().tally(victim))
        said = doctor_on_accounts(here)
    assert not said.ok
    assert OPEN_TO_ALL in said.words


@pytest.mark.parametrize("transport", [Transport.BITS, Transport.SHARES])
def test_without_a_token_for_the_account_no_report_gets_in(transport: Transport) -> None:
    """A token of the outsider's own is good for one place and no second one."""
    with town(plan(), transport, AccountPolicy.SIGNED) as here:
        crowd, home = Crowd(here), here.directory / "services" / "issuer"
        ring = Keyring.open(home / "keys", "issuer", read_secret(home / "passphrase", "").encode())
        mine = secrets.token_bytes(32)
        token = {ACCOUNT_TOKEN: issue_token(here.plan.id, mine, ring.signer)}
        for _ in range(USERS):
            sent = crowd.record(known_messages(), secrets.token_bytes(32))
            assert crowd.post(sent).status_code == 403
            assert crowd.post(sent, **token).status_code == 403
        assert here.filled == 0
        first, second = (crowd.record(known_messages(), mine) for _ in range(2))
        assert crowd.post(first, **token).status_code == 201
        assert crowd.post(second, **token).json()["type"].endswith("duplicate-user")
        assert here.filled == 1
        assert doctor_on_accounts(here).ok


@pytest.mark.parametrize("transport", [Transport.BITS, Transport.SHARES])
def test_past_the_gateway_no_report_gets_in(transport: Transport) -> None:
    with town(plan(), transport, AccountPolicy.GATEWAY) as here:
        crowd = Crowd(here)
        for guess in ("", "Bearer ", "Bearer guess"):
            sent = crowd.record(known_messages(), secrets.token_bytes(32))
            assert crowd.post(sent, authorization=guess).status_code == 401
        assert here.filled == 0
        assert doctor_on_accounts(here).ok
