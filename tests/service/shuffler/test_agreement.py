"""What the analyzer shows of the past: some of it is signed, the rest is nobody's word."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from croupier.plan import Plan
from croupier.service.shuffler.agreement import PublishedHead
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database

from ..noiseless_plans import begun, noiseless


@pytest.fixture
def plan() -> Plan:
    return noiseless(users=3, batches=3, participations=2)


@pytest.fixture
def store(plan: Plan, places: Any) -> Iterator[ShufflerStore]:
    database = Database.open(places("sqlite"), "shuffler")
    yield begun(database, plan)
    database.close()


def head(version: int, rests_on: str, *entries: tuple[int, str]) -> PublishedHead:
    model: Any = SimpleNamespace(version=version, hash="11" * 32)
    newest: Any = SimpleNamespace(model=model, ledger=rests_on)
    listed: Any = tuple(SimpleNamespace(sequence=place, hash=name) for place, name in entries)
    return PublishedHead(newest, listed)


def as_it_is(store: ShufflerStore, plan: Plan) -> PublishedHead:
    batch = store.current(plan.id)
    model: Any = SimpleNamespace(version=batch.model_version, hash=batch.model_hash)
    newest: Any = SimpleNamespace(model=model, ledger="")
    return PublishedHead(newest, ())


def test_a_ledger_that_no_signed_model_rests_on_stops_us_only_while_it_is_shown(
    store: ShufflerStore, plan: Plan
) -> None:
    found = store.compare(plan.id, head(0, "", (10**6, "aa")))
    assert found is not None
    assert found.ours
    assert store.set_back(plan.id) == ""
    assert store.compare(plan.id, as_it_is(store, plan)) is None


@pytest.mark.parametrize(
    "shown", [head(1, ""), head(0, "aa", (0, "aa")), head(10**6, ""), head(0, "aa", (99, "aa"))]
)
def test_what_a_signed_model_says_is_noted_for_good(
    store: ShufflerStore, plan: Plan, shown: PublishedHead
) -> None:
    found = store.compare(plan.id, shown)
    assert found is not None
    assert found.ours
    assert 1 <= found.proved <= plan.schedule.batches
    assert "an older copy of it was restored" in store.set_back(plan.id)


def test_unsigned_entries_behind_a_signed_one_are_not_noted_with_it(
    store: ShufflerStore, plan: Plan
) -> None:
    found = store.compare(plan.id, head(1, "aa", (0, "aa"), (1, "bb")))
    assert found is not None
    assert found.proved == 1
