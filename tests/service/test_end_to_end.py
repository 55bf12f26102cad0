"""What the analyzer gets over HTTP from real devices, held against the plan's promise.

The same statistics as an audit's, on batches that went all the way: device, shuffler, signed
batch, analyzer. Devices and shufflers draw from the system, so nothing can be
seeded; every test states how often an honest run fails it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from croupier import packing, wire
from croupier.coins import SystemCoins
from croupier.plan import Plan
from croupier.privacy import audit_statistics
from croupier.protocols.base import ShuffleRelease
from croupier.protocols.vector_release import VectorSumRelease
from croupier.service.analyzer.rows import PublishedModel
from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.device.upload import UploadOutcome
from croupier.service.messages.transports import plan_transport
from croupier.service.shuffler import shuffling
from croupier.shuffler import Batch, Messages
from croupier.simulation import real_devices
from croupier.wire import Transport

from .in_process_deployment import Town, town

Floats = NDArray[np.float64]

FALSE_ALARM = 1e-5
BATCHES = 30
"""Of each kind of run; the slow test has more."""


@lru_cache
def plan(protocol: str, users: int, epsilon: float, delta: float) -> Plan:
    return Plan.calibrate(
        protocol,
        dim=1,
        batches="fixed",
        batch_size=users,
        horizon=1000 * users,
        epsilon=epsilon,
        delta=delta,
    )


def bits() -> Plan:
    return plan("vector-sum", 4, 1.0, 1e-2)


def gaussian() -> Plan:
    """So little noise that a row can be told from another, if it can be linked to one."""
    return plan("amplified-gaussian", 6, 20.0, 1e-1)


@dataclass
class Seen:
    """All that the analyzer ever saw of the batches that were run, rows as they came."""

    place: Town
    views: list[Messages] = field(default_factory=list)
    users: Iterator[int] = field(default_factory=itertools.count)

    def run(self, batches: int, features: list[float]) -> Floats:
        """Batches of new users with these features, all of them pleased; their sums."""
        for _ in range(batches):
            for feature in features:
                self._report(next(self.users), feature)
            self.place.carry()
        return np.array(self.place.analyzer.parts.store.sums(self.place.plan.id)[-batches:])

    def _report(self, user: int, feature: float) -> None:
        with self.place.device(user) as device:
            device.reward(device.choose([[feature]]), 1.0)
            assert device.flush() is UploadOutcome.ACCEPTED


@pytest.fixture
def seen(request: pytest.FixtureRequest) -> Iterator[Seen]:
    """A town whose analyzer writes down what it sees."""
    made, transport = request.param
    received = AnalyzerStore.receive
    with town(made(), transport) as place, pytest.MonkeyPatch.context() as patch:
        noted = Seen(place)

        def receive(store: AnalyzerStore, batch: Batch, *rest: Any) -> PublishedModel:
            noted.views.append(batch.messages)
            return received(store, batch, *rest)

        patch.setattr(AnalyzerStore, "receive", receive)
        yield noted


BITS = pytest.mark.parametrize("seen", [(bits, Transport.BITS)], indirect=True, ids=["bits"])
SHARES = pytest.mark.parametrize("seen", [(bits, Transport.SHARES)], indirect=True, ids=["shares"])
SEALED = pytest.mark.parametrize(
    "seen", [(gaussian, Transport.SEALED)], indirect=True, ids=["sealed"]
)


# Statistics, each the chance that an honest run looks at least as bad.


def law(made: Plan, sums: Floats, features: list[float]) -> float:
    """Means, variances and correlations of real batch sums against the audited law."""
    release = made.release(0)
    assert isinstance(release, ShuffleRelease)
    users = np.array(features)[:, None]
    batch = made.layout.encode(users, np.ones(len(features)))
    rng = np.random.default_rng(7)
    drawn = np.concatenate([real_devices._law(release, batch, rng) for _ in range(10)])
    return real_devices._chance(sums, drawn)


def linkage(views: list[Messages]) -> float:
    """Whether rows at the same place of two channels belong together.

    Permuted apart, the sum of products of n centred pairs has variance |a|^2 |b|^2 / (n - 1).
    """
    moved, variance = 0.0, 0.0
    for view in views:
        first, second = (view[name][:, 0].astype(float) for name in ("vector", "matrix"))
        first, second = first - first.mean(), second - second.mean()
        moved += float(first @ second)
        variance += float(first @ first) * float(second @ second) / (len(first) - 1)
    return two_sided(moved / math.sqrt(variance))


def two_sided(score: float) -> float:
    return float(2 * ndtr(-abs(score)))


def refuted(made: Plan, first: Floats, second: Floats) -> bool:
    """Whether telling a user's two data apart goes better than the promise allows."""
    side = np.array([[1.0], [-1.0]])
    towards = np.diff(made.layout.encode(side, np.ones(2)), axis=0)[0]
    scores = first @ towards, second @ towards
    # The middle is known from the plan, so that no sample is used twice.
    middle = float(made.layout.encode(side, np.ones(2)).mean(axis=0) @ towards)
    found = audit_statistics.errors(*scores, middle).bounds()
    return audit_statistics.refutes(found, made.promise)


ONE = [1.0, 0.0, 0.0, 0.0]
OTHER = [-1.0, 0.0, 0.0, 0.0]
HALF = [1.0, 0.0] * 3
HEADER = wire.BatchHeader(Transport.BITS, "00" * 16, 0, 4, "00" * 32)


# Honest


@BITS
def test_bits_of_honest_services_pass(seen: Seen) -> None:
    first, second = seen.run(BATCHES, ONE), seen.run(BATCHES, OTHER)
    # Fails in 3e-5 of honest runs, and another 1e-3 (at most) for the last line.
    assert law(bits(), first, ONE) >= FALSE_ALARM
    assert law(bits(), second, OTHER) >= FALSE_ALARM
    # Of the reports themselves it sees counts, which say nothing of their order.
    assert seen.views == []
    assert not refuted(bits(), first, second)


@SHARES
def test_shares_of_honest_services_pass(seen: Seen) -> None:
    first = seen.run(BATCHES, ONE)
    assert law(bits(), first, ONE) >= FALSE_ALARM
    # Of the reports themselves it sees nothing but uniform words, which are not learnt from.
    assert seen.views == []


@SEALED
def test_sealed_rows_of_honest_services_pass(seen: Seen) -> None:
    sums = seen.run(BATCHES, HALF)
    assert law(gaussian(), sums, HALF) >= FALSE_ALARM
    assert linkage(seen.views) >= FALSE_ALARM


# Faulty


@BITS
def test_a_shuffler_that_does_not_permute_bits_hands_on_the_same_counts(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing that it could leave out: no order leaves it."""
    monkeypatch.setattr(SystemCoins, "permutation", lambda _, count: np.arange(count))
    seen.run(2, ONE)
    length = plan_transport(Transport.BITS, seen.place.plan).released_length(0)
    assert [len(body) for body in seen.place.wire.batches] == [length] * 2
    assert length == len(wire.encode_batch(HEADER, {}, {})) + 8 * seen.place.plan.layout.size


@BITS
def test_a_shuffler_that_counts_one_report_for_all_is_seen_in_the_law(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        shuffling, "count_ones", lambda few, bits: packing.count_ones(few[:1] * len(few), bits)
    )
    assert law(bits(), seen.run(BATCHES, OTHER), OTHER) < FALSE_ALARM


@SEALED
def test_a_shuffler_that_does_not_permute_sealed_rows_is_seen(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemCoins, "permutation", lambda _, count: np.arange(count))
    seen.run(BATCHES, HALF)
    # The correlation of 0.6 that is then there is missed less than once in 500 runs.
    assert linkage(seen.views) < FALSE_ALARM


@BITS
def test_devices_without_noise_are_seen_in_the_law_and_refute_the_promise(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = itertools.count()
    # Half of the bits of every two users together, also where a user has an odd number of them.
    monkeypatch.setattr(
        VectorSumRelease, "_noise", lambda self, _: (self.noise_bits + next(turn) % 2) // 2
    )
    first, second = seen.run(BATCHES, ONE), seen.run(BATCHES, OTHER)
    assert law(bits(), first, ONE) < FALSE_ALARM
    assert refuted(bits(), first, second)


@SEALED
def test_gaussian_devices_without_noise_are_seen(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemCoins, "discrete_gaussian", lambda *_: np.zeros(1, dtype=np.int64))
    assert law(gaussian(), seen.run(10, HALF), HALF) < FALSE_ALARM


@pytest.mark.slow
@BITS
def test_three_hundred_batches_of_honest_services_pass(seen: Seen) -> None:
    first, second = seen.run(150, ONE), seen.run(150, OTHER)
    # As above: at most 1e-3 of honest runs fail.
    assert law(bits(), first, ONE) >= FALSE_ALARM
    assert law(bits(), second, OTHER) >= FALSE_ALARM
    # Of the reports themselves it sees counts, which say nothing of their order.
    assert seen.views == []
    assert not refuted(bits(), first, second)
