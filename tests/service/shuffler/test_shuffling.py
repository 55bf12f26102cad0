"""What leaves the shuffler of bits: counts, the same sums exactly as by the real permutation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from croupier import packing, wire
from croupier.client import Client
from croupier.errors import WireError
from croupier.plan import Plan
from croupier.protocols.base import AdditiveRelease
from croupier.service.messages import released_counts
from croupier.service.messages.sealing import Binding
from croupier.service.messages.transports import BitsTransport
from croupier.service.shuffler import shuffling
from croupier.service.shuffler.shuffling import CarriedSizes, Held, prepare_release, shuffle_batch
from croupier.service.storage.database import DatabaseError
from croupier.shuffler import Report, Shuffler
from croupier.wire import Transport

from ..packed_reports import USERS, plan_of, reports

PLANS: list[tuple[str, dict[str, Any]]] = [
    ("vector-sum", {}),
    ("vector-sum", {"batches": "growing", "batch_size": USERS, "horizon": 40}),
    ("concurrent-tree", {"levels": 2, "batches": 5}),
    ("concurrent-tree", {"levels": 3, "batches": 8}),
]


def binding(plan: Plan, index: int) -> Binding:
    return Binding(Transport.BITS, plan.id, index, 0, "00" * 32)


def made(plan: Plan, index: int) -> list[Report]:
    """As many reports as the batch wants."""
    if plan.users(index) == USERS:
        return reports(plan, index)
    rows = np.random.default_rng(index).standard_normal((plan.users(index), plan.layout.dim))
    sent = []
    for row in rows:
        client = Client(plan)
        client._batch = index
        sent.append(client.report(row / np.linalg.norm(row), 1.0))
    return sent


def payloads(plan: Plan, index: int, sent: list[Report]) -> list[bytes]:
    return [wire.encode_report(plan.shapes(index), one.messages) for one in sent]


def plan_for(protocol: str, changes: dict[str, Any]) -> Plan:
    if changes.get("batches") == "growing":
        return Plan.calibrate(protocol, dim=2, epsilon=8.0, delta=1e-2, **changes)
    return plan_of(protocol, **changes)


@pytest.mark.parametrize(("protocol", "changes"), PLANS)
def test_counts_give_exactly_the_sums_of_the_real_permutation(
    protocol: str, changes: dict[str, Any]
) -> None:
    """Three ways: counts, the permutation of stored payloads, and the library's own role."""
    plan = plan_for(protocol, changes)
    sizes, role = CarriedSizes(plan, BitsTransport(plan)), Shuffler(plan)
    counted: Held = {}
    permuted: Held = {}
    for index in range(plan.schedule.batches):
        sent = made(plan, index)
        stored = payloads(plan, index, sent)
        packed, counted = prepare_release(sizes, binding(plan, index), stored, counted)
        batch, permuted = shuffle_batch(sizes, index, stored, permuted)
        alone = [role.collect(report) for report in sent][-1]
        release = plan.release(index)
        assert isinstance(release, AdditiveRelease)
        assert alone is not None
        shapes = sizes.transport.released_shapes(index)
        _, ones = wire.decode_counts(shapes, packed.body)
        found = released_counts.settle(plan, index, ones)
        np.testing.assert_array_equal(found, release.analyze(batch.messages))
        np.testing.assert_array_equal(found, release.analyze(alone.messages))
    assert counted == {}


@pytest.mark.parametrize(("protocol", "changes"), PLANS)
def test_counts_are_a_function_of_the_set_of_reports(
    protocol: str, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bytes from any order, read in any portions, with any coins."""
    plan = plan_for(protocol, changes)
    sizes = CarriedSizes(plan, BitsTransport(plan))
    stored = payloads(plan, 0, made(plan, 0))
    packed, held = prepare_release(sizes, binding(plan, 0), stored, {})
    monkeypatch.setattr(shuffling, "shuffle_batch", None)
    for portion in (1, 2, 1000):
        monkeypatch.setattr(shuffling, "COUNTED_AT_ONCE", portion)
        again, still = prepare_release(sizes, binding(plan, 0), reversed(stored), {})
        assert (again.body, again.seeds) == (packed.body, None)
        assert {name: one.tolist() for name, one in still.items()} == {
            name: one.tolist() for name, one in held.items()
        }


def test_reports_are_read_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of("vector-sum")
    stored = payloads(plan, 0, reports(plan, 0))
    waiting, most = 0, 0

    def reading() -> Iterator[bytes]:
        nonlocal waiting, most
        for one in stored:
            waiting += 1
            most = max(most, waiting)
            yield one

    def counted(few: list[bytes], bits: int) -> Any:
        nonlocal waiting
        waiting = 0
        return original(few, bits)

    original = packing.count_ones
    monkeypatch.setattr(shuffling, "COUNTED_AT_ONCE", 2)
    monkeypatch.setattr(shuffling, "count_ones", counted)
    prepare_release(CarriedSizes(plan, BitsTransport(plan)), binding(plan, 0), reading(), {})
    assert most == 2


@pytest.mark.parametrize("count", [0, 1, USERS - 1, USERS + 1])
def test_a_batch_of_another_size_is_never_released(count: int) -> None:
    plan = plan_of("vector-sum")
    sizes = CarriedSizes(plan, BitsTransport(plan))
    stored = (payloads(plan, 0, reports(plan, 0)) * 2)[:count]
    with pytest.raises(DatabaseError, match=f"sealed with {count} reports"):
        prepare_release(sizes, binding(plan, 0), stored, {})


def test_a_payload_that_no_device_packs_is_not_counted() -> None:
    plan = plan_of("vector-sum")
    sizes = CarriedSizes(plan, BitsTransport(plan))
    stored = payloads(plan, 0, reports(plan, 0))
    with pytest.raises(WireError, match="must have"):
        prepare_release(sizes, binding(plan, 0), [*stored[:-1], stored[-1] + b"\x00"], {})
