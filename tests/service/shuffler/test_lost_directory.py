"""The directory beside the database is lost: that is seen, and somebody has to say how to go on."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.transports import SharesTransport
from croupier.service.shuffler.rows import Basis, BatchState
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database, Hooks

from ..beside_the_keys import analyzer_store, beside, shuffler_store
from ..noiseless_plans import (
    HASHES,
    Services,
    begun,
    counted,
    fill,
    noiseless,
    released,
    through,
    upload,
    users_in,
)
from ..restored_snapshots import restore, snapshot
from ..shared_batch import Sharing

Databases = Callable[[str], Database]


@pytest.fixture
def plan() -> Plan:
    return noiseless()


@pytest.fixture
def database(databases: Databases) -> Database:
    return databases("shuffler")


def lose(database: Database) -> ShufflerStore:
    """The directory is gone, and the service is started again."""
    shutil.rmtree(beside(database))
    return shuffler_store(database)


def refused(store: ShufflerStore, plan: Plan, words: str) -> None:
    assert words in store.set_back(plan.id)
    with pytest.raises(Refusal, match=words) as found:
        fill(store, plan, range(8, 9))
    assert found.value.reason is Reason.ROLLED_BACK


def test_a_lost_directory_stops_the_plan_and_says_so(plan: Plan, database: Database) -> None:
    """It used to be taken for a new machine, and only uploads were refused."""
    fill(begun(database, plan), plan, range(2))
    store = lose(database)
    refused(store, plan, "how far it had come is not in")
    assert not beside(database).exists()


def test_an_older_copy_without_the_directory_stops_it_too(plan: Plan, database: Database) -> None:
    """Acknowledged reports used to vanish silently."""
    store = begun(database, plan)
    kept = snapshot(database)
    fill(store, plan, range(2))
    restore(database, kept)
    refused(lose(database), plan, "how far it had come is not in")


def test_lost_keys_of_an_open_batch_are_said(plan: Plan, database: Database) -> None:
    fill(begun(database, plan), plan, range(2))
    for file in beside(database).glob("*.early"):
        file.unlink()
    refused(shuffler_store(database), plan, "the early key of batch 0 is not in")


def test_lost_keys_are_seen_by_the_process_that_has_them_in_memory(
    plan: Plan, database: Database
) -> None:
    store = begun(database, plan)
    fill(store, plan, range(2))
    for file in beside(database).glob("*.late"):
        file.unlink()
    assert "the late key of batch 0 is not in" in store.set_back(plan.id)


def test_a_crash_before_the_plan_is_in_the_database_is_no_loss(
    plan: Plan, database: Database
) -> None:
    class LostError(Exception):
        pass

    def fail() -> None:
        raise LostError

    database._hooks = Hooks(before_commit=fail)
    with pytest.raises(LostError):
        begun(database, plan)
    database._hooks = Hooks(after_commit=fail)
    with pytest.raises(LostError):
        begun(database, plan)
    database._hooks = Hooks()
    store = begun(database, plan)
    assert store.set_back(plan.id) == ""
    assert fill(store, plan, range(3)) == [None] * 3


# An operator says that the database is the newest there is


def test_an_adopted_plan_begins_its_open_batch_again_and_nobody_has_spent_anything(
    plan: Plan, database: Database
) -> None:
    fill(begun(database, plan), plan, range(2))
    store = lose(database)
    assert store.adopt(plan.id) == 2
    assert store.set_back(plan.id) == ""
    assert store.current(plan.id).attempt == 1
    assert fill(store, plan, range(3)) == [None] * 3
    assert users_in(plan, through(store, plan)) == [0, 1, 2]


def test_an_adopted_plan_goes_on_with_a_sealed_batch(plan: Plan, database: Database) -> None:
    store = begun(database, plan)
    fill(store, plan, range(3))
    assert store.seal(plan.id)
    store = lose(database)
    with pytest.raises(Refusal, match="is not in"):
        store.release(plan.id)
    assert store.adopt(plan.id) == 0
    assert store.set_back(plan.id) == ""
    assert fill(store, plan, range(3, 4)) == [Reason.BATCH_CLOSED]
    assert users_in(plan, through(store, plan)) == [0, 1, 2]
    assert fill(store, plan, range(3, 4)) == [None]


def test_an_adopted_batch_of_shares_without_its_seeds_begins_again(databases: Databases) -> None:
    sharing = Sharing(databases)
    sharing.released()
    shutil.rmtree(beside(sharing.database))
    store = shuffler_store(sharing.database, transport=SharesTransport)
    assert store.adopt(sharing.plan.id) == store.current(sharing.plan.id).size
    batch = store.current(sharing.plan.id)
    assert (batch.state, batch.attempt, batch.filled) == (BatchState.OPEN, 1, 0)
    assert counted(sharing.database, "present") == 0


def test_to_adopt_changes_nothing_where_nothing_is_lost(plan: Plan, database: Database) -> None:
    store = begun(database, plan)
    fill(store, plan, range(2))
    assert store.adopt(plan.id) == 0
    assert store.current(plan.id).filled == 2


def test_a_database_that_was_set_back_is_not_adopted(plan: Plan, database: Database) -> None:
    store = begun(database, plan)
    kept = snapshot(database)
    fill(store, plan, range(2))
    restore(database, kept)
    with pytest.raises(Refusal, match="an older copy of it was restored"):
        store.adopt(plan.id)


def test_a_successor_is_refused_unless_the_plan_was_adopted(plan: Plan, database: Database) -> None:
    """What its users have spent is only known of a database that somebody vouches for."""
    begun(database, plan)
    store, second = lose(database), noiseless(batches=4)
    store.retire(plan.id, abandon=True)
    with pytest.raises(Refusal, match="was set back"):
        store.succeed(plan.id, second, Basis(0, HASHES[0]))
    store.adopt(plan.id)
    store.succeed(plan.id, second, Basis(0, HASHES[0]))


def test_the_analyzer_stops_without_its_file_until_it_is_adopted(services: Services) -> None:
    plan, store = services.plan, services.analyzer
    shutil.rmtree(beside(store._database))
    fill(services.shuffler, plan, range(3))
    store = analyzer_store(store._database)
    assert "how far it had come is not in" in store.set_back(plan.id)
    with pytest.raises(Refusal, match="is not in"):
        store.open_plan(plan)
    store.adopt(plan.id)
    assert store.set_back(plan.id) == ""
    assert Services(plan, services.shuffler, store).finish_batch().model.version == 1


# What a plan that has ended leaves


def test_a_retired_plan_leaves_no_keys_even_if_it_was_set_back(
    plan: Plan, database: Database
) -> None:
    """Keys of batches that the restored copy has never heard of stayed for good."""
    store = begun(database, plan)
    kept = snapshot(database)
    fill(store, plan, range(3))
    through(store, plan)
    fill(store, plan, range(3, 4))
    restore(database, kept)
    assert len(list(beside(database).glob("*.1.0.*"))) == 2
    shuffler_store(database).retire(plan.id, abandon=True)
    assert list(beside(database).glob("*.*.*.*")) == []


def test_a_plan_that_is_retired_before_the_scrub_leaves_nothing_of_the_batch_before(
    plan: Plan, database: Database
) -> None:
    store = begun(database, plan)
    fill(store, plan, range(3))
    released(store, plan)
    store.acknowledge(plan.id, 0, Basis(1, HASHES[1]))
    store.retire(plan.id)
    assert counted(database, "reports") == 0
    assert list(beside(database).glob("*.*.*.*")) == []


def test_keys_of_a_database_that_is_gone_can_be_destroyed(plan: Plan, database: Database) -> None:
    """Copies of it may be somewhere, and open with them."""
    store = begun(database, plan)
    store.take([upload(plan, store.current(plan.id), 0)])
    store.destroy_keys(plan.id)
    assert [file.suffix for file in beside(database).iterdir()] == [".progress"]
