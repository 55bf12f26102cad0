"""A tree of batches in shares: only sums of whole nodes are ever more than uniform numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chisquare

from croupier import wire
from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.plan import Plan
from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.messages import released_counts, shares
from croupier.service.messages.sealing import OVERHEAD
from croupier.service.messages.transports import SharesTransport
from croupier.service.shuffler.rows import Basis, BatchRow, ReleasedBatch
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database
from croupier.shuffler import Report, Shuffler

from .beside_the_keys import analyzer_store, shuffler_store
from .packed_reports import BUDGET, KEY, PUBLIC, USERS, packed, plan_of, reports, send, upload

Databases = Callable[[str], Database]

RARE = 1e-6


def decided(
    analyzer: AnalyzerStore, way: SharesTransport, state: BatchRow, found: ReleasedBatch
) -> bytes:
    header, messages = wire.decode_batch(way.released_shapes(found.batch), found.body)
    flags, tally = shares.open_shares(messages[shares.SHARE], KEY, state.binding(way.kind))
    assert flags.all()
    digest = hashlib.sha256(found.body).digest()
    place = (header.plan_id, header.batch, header.model_hash)
    return analyzer.decide(*place, digest, wire.encode_flags(flags), tally)


@pytest.mark.parametrize(("levels", "batches"), [(2, 5), (3, 8)])
def test_stores_that_forget_everything_in_between_learn_what_the_roles_learn_from_bits(
    databases: Databases, levels: int, batches: int
) -> None:
    """The same messages, as bits in memory and as shares through both machines."""
    plan = plan_of("concurrent-tree", levels=levels, batches=batches)
    way, databases_of = SharesTransport(plan), (databases("shuffler"), databases("analyzer"))

    def stores() -> tuple[ShufflerStore, AnalyzerStore]:
        return shuffler_store(databases_of[0], transport=SharesTransport), analyzer_store(
            databases_of[1]
        )

    first = stores()[1].open_plan(plan).model
    stores()[0].open_plan(plan, Basis(0, first.hash, PUBLIC))
    role, analyzer = Shuffler(plan), Analyzer(plan)
    for index in range(batches):
        made = reports(plan, index)
        batch = [role.collect(report) for report in made][-1]
        assert batch is not None
        expected = analyzer.receive(batch)
        state = send(stores()[0], way, made)
        found = stores()[0].release(plan.id)
        assert found is not None
        flags = decided(stores()[1], way, state, found)
        share = stores()[0].share(plan.id, index, flags)
        assert len(share) == 4 * plan.layout.size * len(plan.mechanism.covers(index))
        published = stores()[1].settle(plan.id, index, share)
        assert published.model.hash == expected.hash
        after = Basis(published.model.version, published.model.hash, PUBLIC)
        stores()[0].acknowledge(plan.id, index, after)
        stores()[0].scrub(plan.id)
    with databases_of[0].reading() as transaction:
        assert transaction.all("SELECT * FROM masks") == []
    assert stores()[1].clipped(plan.id) == 0


class Viewed:
    """Two batches of users who all have the same extreme data: one node of the second level."""

    def __init__(self, databases: Databases) -> None:
        budget = {**BUDGET, "dim": 12, "epsilon": 60.0}
        self.plan: Plan = plan_of("concurrent-tree", levels=2, batches=4, **budget)
        self.size = self.plan.layout.size
        self.way = SharesTransport(self.plan)
        self.shuffling, self.analysing = databases("shuffler"), databases("analyzer")
        store, analyzer = self.stores()
        first = analyzer.open_plan(self.plan).model
        store.open_plan(self.plan, Basis(0, first.hash, PUBLIC))
        self.made: list[list[Report]] = []
        self.masks: list[np.ndarray] = []
        self.held: list[bytes] = []
        self.shares: list[np.ndarray] = []
        for index in range(2):
            self._batch(index)

    def stores(self) -> tuple[ShufflerStore, AnalyzerStore]:
        return shuffler_store(self.shuffling, transport=SharesTransport), analyzer_store(
            self.analysing
        )

    def _batch(self, index: int) -> None:
        store, analyzer = self.stores()
        state = store.current(self.plan.id)
        feature = np.zeros(self.plan.layout.dim)
        feature[0] = 1.0
        client = Client(self.plan)
        client._batch = index
        self.made.append([client.report(feature, 1.0)] * USERS)
        payloads = [packed(self.way, state, one.messages) for one in self.made[-1]]
        self.held += payloads
        sent = [upload(self.way, state, user, one) for user, one in enumerate(payloads)]
        assert store.take(sent) == [None] * USERS
        store.seal(self.plan.id)
        found = store.release(self.plan.id)
        assert found is not None
        size = len(released_counts.additive_release(self.plan, index).counted)
        seeds = [one[: shares.SEED] for one in payloads]
        self.masks.append(sum((shares.expand_seed(one, size) for one in seeds), np.uint32(0)))  # type: ignore[arg-type]
        share = store.share(self.plan.id, index, decided(analyzer, self.way, state, found))
        self.shares.append(wire.decode_words(share, len(share) // 4))
        published = analyzer.settle(self.plan.id, index, share)
        after = Basis(published.model.version, published.model.hash, PUBLIC)
        store.acknowledge(self.plan.id, index, after)

    def tallies(self) -> list[np.ndarray]:
        with self.analysing.reading() as transaction:
            rows = transaction.all("SELECT tally FROM batches ORDER BY batch")
        return [wire.decode_words(bytes(one), len(one) // 4) for (one,) in rows]

    def waiting(self) -> dict[str, int]:
        with self.shuffling.reading() as transaction:
            return dict(transaction.all("SELECT channel, mask FROM masks"))

    def counts(self, index: int) -> np.ndarray:
        release = released_counts.additive_release(self.plan, index)
        return np.asarray(np.sum([release.tally(one.messages) for one in self.made[index]], axis=0))


@pytest.fixture
def viewed(databases: Databases) -> Viewed:
    return Viewed(databases)


def test_masks_of_a_node_are_released_once_and_only_together(viewed: Viewed) -> None:
    size, (first, second), (share, last) = viewed.size, viewed.masks, viewed.shares
    np.testing.assert_array_equal(share, first[:size])
    np.testing.assert_array_equal(last[:size], second[:size])
    np.testing.assert_array_equal(last[size:], first[size:] + second[size:])
    # Nothing waits for a node that is closed.
    assert viewed.waiting() == {}


def test_the_two_halves_give_the_counts_of_nodes_and_of_nothing_smaller(viewed: Viewed) -> None:
    """All that the analyzer has of the open level stays uniform, whatever is added to it."""
    size, (before, after), last = viewed.size, viewed.tallies(), viewed.shares[1]
    node = viewed.counts(0)[size:] + viewed.counts(1)[size:]
    found = (before[size:] + after[size:] + last[size:]).astype(np.int64)
    np.testing.assert_array_equal(found, node)
    views = {
        "its half of the first batch": before[size:],
        "its half of the second batch": after[size:],
        "the first batch with the masks of the node": before[size:] + last[size:],
        "the second batch with the masks of the node": after[size:] + last[size:],
        "the first batch with the masks of its leaf": before[size:] + viewed.shares[0],
    }
    # Four bytes of 90 counts each; a false alarm: 5e-6 a database.
    for view in views.values():
        assert uniform(view.astype("<u4").tobytes())


def test_all_that_the_shuffler_holds_is_uniform(databases: Databases) -> None:
    """Seeds and sealed shares of every report, points of seals apart, and masks that wait."""
    viewed = Viewed(databases)
    start = shares.SEED + OVERHEAD - 16
    # A false alarm: 3e-6 a database, for three looks.
    assert uniform(b"".join(one[: shares.SEED] for one in viewed.held))
    assert uniform(b"".join(one[start:] for one in viewed.held))
    mask = viewed.masks[0][viewed.size :]
    assert uniform(mask.astype("<u4").tobytes())


def test_masks_wait_for_their_node_as_one_sum_for_each_count(databases: Databases) -> None:
    plan = plan_of("concurrent-tree", levels=2, batches=4)
    store, way = (
        shuffler_store(databases("shuffler"), transport=SharesTransport),
        SharesTransport(plan),
    )
    analyzer = analyzer_store(databases("analyzer"))
    store.open_plan(plan, Basis(0, analyzer.open_plan(plan).model.hash, PUBLIC))
    state = send(store, way, reports(plan, 0))
    found = store.release(plan.id)
    assert found is not None
    store.share(plan.id, 0, decided(analyzer, way, state, found))
    with store._database.reading() as transaction:
        rows: dict[str, int] = dict(transaction.all("SELECT channel, mask FROM masks"))
        assert transaction.all("SELECT * FROM held") == []
    assert set(rows) == {f"1/{label}" for label in plan.layout.labels}
    assert all(0 <= mask < 2**32 for mask in rows.values())


def uniform(data: bytes) -> bool:
    """Whether every half of a byte is as likely, by chi-square."""
    numbers = np.frombuffer(data, np.uint8)
    halves = np.concatenate([numbers & 15, numbers >> 4])
    return bool(chisquare(np.bincount(halves, minlength=16)).pvalue > RARE)


def test_the_length_of_a_report_follows_from_the_levels_of_its_batch() -> None:
    plan = plan_of("concurrent-tree", levels=2, batches=5)
    # Nodes of the second level have three batches; the last two batches are in none of them.
    levels = np.array([2, 2, 2, 1, 1])
    lengths = shares.SEED + 4 * levels * plan.layout.size + OVERHEAD
    assert [SharesTransport(plan).length(index) for index in range(5)] == lengths.tolist()


def test_a_node_whose_counts_could_wrap_around_is_refused_before_it_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of("concurrent-tree", levels=2, batches=4)
    assert released_counts.node_batches(plan, 0, f"1/{plan.layout.labels[0]}") == range(2)
    assert released_counts.node_batches(plan, 0, f"0/{plan.layout.labels[0]}") == range(1)
    rows = [shape[0] for name, (shape, _) in plan.shapes(0).items() if name.startswith("1/")]
    monkeypatch.setattr(shares, "MOST", 2 * USERS * max(rows) - 1)
    with pytest.raises(ValueError, match=f"users must keep the counts of '1/.*got {2 * USERS}"):
        SharesTransport(plan).length(0)
    monkeypatch.setattr(shares, "MOST", 2 * USERS * max(rows))
    assert SharesTransport(plan).length(0)
