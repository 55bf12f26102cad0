"""Well-formed lies: one device that chooses the model by a share, a tenth that says all ones."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from croupier import wire
from croupier.client import Client
from croupier.plan import Plan
from croupier.protocols.vector_release import VectorSumRelease
from croupier.service.messages import shares
from croupier.service.messages.records import Address, make_record
from croupier.service.messages.sealing import NO_PUBLIC_KEY, Binding, seal_report
from croupier.service.messages.signed_documents import key_id
from croupier.shuffler import Messages, shapes_of
from croupier.wire import Record, Transport

from .laboratory import PATIENCE, Laboratory

USERS, AT_ONCE = 1000, 250


@cache
def plan() -> Plan:
    return Plan.calibrate(
        "vector-sum",
        epsilon=1.0,
        delta=1e-6,
        dim=3,
        batch_size=USERS,
        horizon=3 * USERS,
        batches="fixed",
        honest_fraction=0.8,
    )


def release() -> VectorSumRelease:
    found = plan().release(0)
    assert isinstance(found, VectorSumRelease)
    return found


class PoisonLaboratory(Laboratory):
    """A thousand users who like the second feature, and liars among them."""

    def __init__(self, directory: Path, transport: Transport) -> None:
        super().__init__(directory, plan(), transport)
        self._rng = np.random.default_rng(5)

    def fill(self, index: int, hostile: int) -> None:
        """A batch with as many liars."""
        offer = self.await_batch(index)
        records = [self._honest(offer) for _ in range(USERS - hostile)]
        records += [self._hostile(offer) for _ in range(hostile)]
        for start in range(0, USERS, AT_ONCE):
            answer = self.post(b"".join(records[start : start + AT_ONCE]))
            assert answer.json()["failures"] == []

    def newest(self) -> dict[str, Any]:
        """The model that the analyzer has published."""
        told = self.get(f"/v1/plans/{self.plan.id}/model", "analyzer").json()
        found: dict[str, Any] = told["content"]["model"]
        return found

    def learnt_users(self, batches: int) -> int:
        """Of the model after so many batches."""
        end = time.monotonic() + PATIENCE
        while self.learnt() < batches and time.monotonic() < end:
            time.sleep(0.05)
        return int(self.newest()["users"])

    def _binding(self, offer: dict[str, Any]) -> Binding:
        inner = bytes.fromhex(offer["inner_key"]) if offer["inner_key"] else NO_PUBLIC_KEY
        place = (self.plan.id, offer["batch"], offer["model_version"], offer["model_hash"])
        return Binding(Transport[offer["transport"].upper()], *place, inner)

    def _pack(self, offer: dict[str, Any], messages: Messages) -> bytes:
        address = Address(self._binding(offer), bytes.fromhex(offer["key"]), token_bytes(32))
        return make_record(self.plan, messages, address)

    def _honest(self, offer: dict[str, Any]) -> bytes:
        feature = self._rng.normal(size=3)
        feature /= np.linalg.norm(feature)
        reward = float(self._rng.random() < 0.5 + 0.3 * feature[1])
        client = Client(self.plan)
        client.update(self.model(offer["model_hash"]), offer["batch"])
        return self._pack(offer, client.report(feature, reward).messages)

    def _hostile(self, offer: dict[str, Any]) -> bytes:
        if offer["transport"] == "shares":
            return self._share_of_anything(offer)
        shapes = self.plan.shapes(offer["batch"])
        return self._pack(
            offer, {name: np.ones(shape, kind) for name, (shape, kind) in shapes.items()}
        )

    def _share_of_anything(self, offer: dict[str, Any]) -> bytes:
        """A share whose tally adds 800 users' worth of reward to the first feature alone."""
        made, layout = release(), self.plan.layout
        wanted = np.zeros(layout.size)
        wanted[:2] = 800.0, -800.0
        steps = (wanted - layout.low) * made.grid + made.noise_bits * made.bias
        tally = np.round(steps).astype(np.int64) % 2**32
        binding, report = self._binding(offer), token_bytes(16)
        inner = X25519PublicKey.from_public_bytes(bytes.fromhex(offer["inner_key"]))
        rows = shares.share_report(tally, inner, binding)
        key = bytes.fromhex(offer["key"])
        sealed = seal_report(
            wire.encode_report(shapes_of(rows), rows),
            X25519PublicKey.from_public_bytes(key),
            binding,
            report,
        )
        place = (binding.transport, key_id(key), binding.batch, binding.model_hash)
        return wire.encode_records([Record(*place, report, token_bytes(32), sealed)])


@pytest.mark.parametrize(
    ("transport", "hostile"), [(Transport.SHARES, 1), (Transport.BITS, USERS // 10)]
)
def test_a_poisoned_batch_is_told_when_it_comes_and_not_learnt_from(
    tmp_path: Path, transport: Transport, hostile: int
) -> None:
    here = PoisonLaboratory(tmp_path / "deployment", transport)
    with here.services, here.http:
        here.fill(0, 0)
        honest = here.model(here.await_batch(1)["model_hash"])
        here.fill(1, hostile)
        offer = here.await_batch(2)
        said = here.model(offer["model_hash"])
        assert (said.version, said.users) == (2, USERS)
        np.testing.assert_array_equal(said.theta, honest.theta)
        assert here.learnt() == 2
        assert here.ready("analyzer")["trouble"] == "quarantined"
        assert "Batch 1 is quarantined" in here.get("/", "analyzer").text
        assert "croupier_quarantined_batches 1.0" in here.get("/metrics", "analyzer").text
        assert '"batch quarantined"' in here.services.log("analyzer").read_text()
        status, words = here.command("status", role="analyzer")
        assert (status, "batch 1 is quarantined; by the" in words) == (1, True)
        assert here.command("quarantine", role="analyzer")[0] == 1
        status, words = here.command("quarantine", "--leave-out", "1", role="analyzer")
        assert (status, "Batch 1 is left-out" in words, "1 of 2" in words) == (0, True, True)
        assert here.ready("analyzer")["trouble"] == ""
        here.fill(2, 0)
        assert here.learnt_users(3) == 2 * USERS
