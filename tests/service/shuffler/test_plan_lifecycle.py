"""Batches that stay short, and how plans begin, end and are succeeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from croupier.plan import Plan
from croupier.plan_promises import composed_epsilons
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.sealing import Binding
from croupier.service.messages.transports import BitsTransport
from croupier.service.shuffler.batch_status import describe_lineage, lineage_words
from croupier.service.shuffler.rows import Basis, BatchState
from croupier.service.storage.database import Database

from ..beside_the_keys import shuffler_store
from ..noiseless_plans import (
    HASHES,
    Services,
    begun,
    counted,
    fill,
    noiseless,
    ones,
    opened,
    released,
    through,
    users_in,
)

Databases = Callable[[str], Database]


def test_a_short_batch_is_padded_with_reports_of_nobody(databases: Databases) -> None:
    plan = noiseless(users=5)
    store = begun(databases("shuffler"), plan)
    fill(store, plan, range(3))
    assert store.pad(plan.id, 4) == 0
    assert store.current(plan.id).filled == 3
    assert store.pad(plan.id, 3) == 2
    batch = store.current(plan.id)
    assert (batch.filled, batch.padded) == (5, 2)
    rows = opened(plan, released(store, plan)).messages["report"]
    assert Counter(rows.sum(axis=1).tolist()) == {1.0: 3, 0.0: 2}
    assert store.pad(plan.id, 3) == 0


def test_padding_is_randomised_like_a_report(databases: Databases) -> None:
    plan = Plan.calibrate(
        "vector-sum", dim=2, epsilon=4.0, delta=1e-3, batches="fixed", batch_size=40, horizon=80
    )
    store = begun(databases("shuffler"), plan)
    assert store.pad(plan.id, 0) == 40
    found = ones(plan, released(store, plan))
    release: Any = plan.release(0)
    spread = np.sqrt(release.coins) / 2
    middle = release.grid * 40 * -plan.layout.low + release.coins / 2
    for expected, label in zip(middle, plan.layout.labels, strict=True):
        # Six standard deviations of a binomial: false alarms once in a hundred million.
        assert abs(found[label] - expected) < 6 * np.hypot(spread, np.sqrt(40) / 2)
        assert 0 < found[label] < 40 * plan.shapes(0)[label][0][0]


def test_a_batch_that_is_emptied_while_it_is_padded_stays_open(databases: Databases) -> None:
    plan, database = noiseless(users=5), databases("shuffler")
    rival = begun(database, plan)

    class Slow(BitsTransport):
        """Makes reports of nobody while somebody else drops the batch."""

        def make_empty_payload(self, binding: Binding) -> bytes:
            rival.drop(plan.id)
            return super().make_empty_payload(binding)

    fill(rival, plan, range(4))
    assert shuffler_store(database, transport=Slow).pad(plan.id, 4) == 0
    assert rival.current(plan.id).filled == 0


def test_a_dropped_batch_begins_again(databases: Databases) -> None:
    plan, database = noiseless(participations=2), databases("shuffler")
    store = begun(database, plan)
    fill(store, plan, range(2))
    before = store.current(plan.id)
    assert store.drop(plan.id) == 2
    batch = store.current(plan.id)
    assert (batch.index, batch.state, batch.filled, batch.dropped) == (0, BatchState.OPEN, 0, 2)
    assert (before.attempt, batch.attempt) == (0, 1)
    assert counted(database, "reports") == 0
    assert fill(store, plan, range(3)) == [None, None, None]
    assert store.drop(plan.id) == 0
    assert users_in(plan, released(store, plan)) == [0, 1, 2]
    assert store.drop(plan.id) == 0


def test_a_report_that_was_dropped_with_its_batch_costs_its_user_nothing(
    databases: Databases,
) -> None:
    """Who took part is counted at the seal, and this batch never came to it."""
    plan = noiseless()
    store = begun(databases("shuffler"), plan)
    fill(store, plan, range(1))
    store.drop(plan.id)
    assert fill(store, plan, range(3)) == [None] * 3
    through(store, plan)
    assert fill(store, plan, range(1)) == [Reason.PARTICIPATION_LIMIT]


def test_opening_a_plan_again_changes_nothing(services: Services) -> None:
    store, plan = services.shuffler, services.plan
    fill(store, plan, range(2))
    before = store.current(plan.id)
    services.begin()
    assert store.current(plan.id) == before
    with pytest.raises(Refusal) as refused:
        store.open_plan(plan, Basis(0, HASHES[1]))
    assert refused.value.reason is Reason.ID_CONFLICT


def test_a_plan_is_read_back_as_it_was(services: Services) -> None:
    assert services.shuffler.plan(services.plan.id).id == services.plan.id


def test_a_retired_plan_takes_nothing_and_has_forgotten_its_open_batch(
    databases: Databases,
) -> None:
    plan, database = noiseless(), databases("shuffler")
    store = begun(database, plan)
    fill(store, plan, range(2))
    for _ in range(2):
        store.retire(plan.id)
        assert [one.ended for one in store.plans()] == [True]
        assert counted(database, "reports") == 0
    assert fill(store, plan, range(5, 6)) == [Reason.PLAN_ENDED]
    assert store.lease("a", 60) is None


def test_a_plan_is_not_retired_between_seal_and_acknowledgement(databases: Databases) -> None:
    plan = noiseless()
    store = begun(databases("shuffler"), plan)
    fill(store, plan, range(3))
    for step in (store.seal, store.release):
        step(plan.id)
        with pytest.raises(Refusal) as refused:
            store.retire(plan.id)
        assert refused.value.reason is Reason.BATCH_CLOSED
    store.acknowledge(plan.id, 0, Basis(1, HASHES[1]))
    store.retire(plan.id)


def test_a_successor_knows_what_users_have_spent(databases: Databases) -> None:
    old, new = noiseless(batches=1), noiseless(batches=2)
    store = begun(databases("shuffler"), old)
    with pytest.raises(Refusal) as refused:
        store.succeed(old.id, new, Basis(0, HASHES[0]))
    assert refused.value.reason is Reason.BATCH_CLOSED
    fill(store, old, range(3))
    through(store, old)
    for _ in range(2):
        store.succeed(old.id, new, Basis(0, HASHES[0]))
    spent = Reason.PARTICIPATION_LIMIT
    assert fill(store, new, range(1, 5)) == [spent, spent, None, None]
    states = {one.id: one for one in store.plans()}
    assert states[new.id].predecessor == old.id
    assert states[old.id].key == b""
    with pytest.raises(Refusal) as refused:
        store.succeed(old.id, noiseless(batches=5), Basis(0, HASHES[0]))
    assert refused.value.reason is Reason.ID_CONFLICT
    assert len(store.plans()) == 2


def test_a_plan_succeeds_one_plan_only(databases: Databases) -> None:
    old, other, new = noiseless(batches=1), noiseless(batches=2), noiseless(batches=4)
    store = begun(databases("shuffler"), old)
    store.open_plan(other, Basis(0, HASHES[0]))
    for plan in (old, other):
        store.retire(plan.id)
    store.succeed(old.id, new, Basis(0, HASHES[0]))
    with pytest.raises(Refusal) as refused:
        store.succeed(other.id, new, Basis(0, HASHES[0]))
    assert refused.value.reason is Reason.ID_CONFLICT


def test_a_successor_says_what_it_comes_to_with_what_it_succeeds(databases: Databases) -> None:
    """A plan of epsilon 5 and then one of 1 are not worth 1 to who took part in both."""
    asked: dict[str, Any] = {"dim": 2, "delta": 1e-5, "batches": "fixed", "batch_size": 100}
    first, then = (
        Plan.calibrate("vector-sum", **asked, horizon=100, epsilon=epsilon)
        for epsilon in (5.0, 1.0)
    )
    store = begun(databases("shuffler"), first)
    assert describe_lineage(store.lineage(first.id)) == {}
    assert lineage_words({}) == ""
    store.retire(first.id)
    store.succeed(first.id, then, Basis(0, HASHES[0]))
    told = describe_lineage(store.lineage(then.id))
    assert told["succeeds"] == [first.id]
    assert 5.0 < told["epsilon_with_predecessors"] < 5.3
    assert told["epsilon_with_predecessors"] == composed_epsilons([then, first], 1e-5)["shuffle"]
    epsilon = f"{told['epsilon_with_predecessors']:.4g}"
    assert f"it comes to epsilon {epsilon} at delta 1e-05" in lineage_words(told)
