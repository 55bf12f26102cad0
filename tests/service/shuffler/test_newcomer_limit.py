"""Accounts that a plan has never counted: how many a batch takes, and whether it can fill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from croupier.service.account_settings import AccountPolicy, AccountSettings
from croupier.service.http.reasons import Reason
from croupier.service.settings import (
    BatchSettings,
    KeySettings,
    PeerSettings,
    Role,
    Settings,
    ShortBatchPolicy,
)
from croupier.service.shuffler.newcomer_limit import find_unfillable
from croupier.service.shuffler.parts import require_fillable
from croupier.service.shuffler.rows import Basis
from croupier.service.startup import StartError
from croupier.service.storage.database import Database

from ..noiseless_plans import HASHES, begun, fill, noiseless, through

Databases = Callable[[str], Database]
NEW = Reason.NEW_ACCOUNTS


@pytest.fixture
def settings() -> Settings:
    place = Path("nowhere")
    peer = PeerSettings("http://127.0.0.1:1", signing_key="00" * 32, token_file=place)
    accounts = AccountSettings(AccountPolicy.ANYONE)
    keys = KeySettings(place, place)
    return Settings(Role.SHUFFLER, place, "x.db", keys, peer, accounts=accounts)


def newcomers(database: Database) -> list[int]:
    with database.reading() as transaction:
        rows = transaction.all("SELECT newcomers FROM batches ORDER BY plan, batch")
    return [count for (count,) in rows]


def test_the_first_batch_takes_anybody_and_later_ones_as_many_new_accounts_as_is_said(
    databases: Databases,
) -> None:
    """Before the first seal nobody was counted: the limit used to stop every first plan."""
    plan, database = noiseless(users=4, participations=3), databases("shuffler")
    store = begun(database, plan, newcomers=2)
    assert fill(store, plan, range(4)) == [None] * 4
    through(store, plan)
    assert fill(store, plan, range(4, 7)) == [None, None, NEW]
    assert fill(store, plan, range(7, 8)) == [NEW]
    assert newcomers(database) == [0, 2]
    assert fill(store, plan, range(2)) == [None] * 2
    through(store, plan)


def test_a_successors_first_batch_is_no_exception(databases: Databases) -> None:
    first, second = noiseless(participations=2), noiseless(batches=4, participations=2)
    store = begun(databases("shuffler"), first, newcomers=1)
    fill(store, first, range(3))
    through(store, first)
    store.retire(first.id)
    store.succeed(first.id, second, Basis(0, HASHES[0]))
    assert fill(store, second, range(3, 6)) == [None, NEW, NEW]


def test_where_there_is_no_limit_new_accounts_leave_no_trace(databases: Databases) -> None:
    """A count in each upload's transaction would place a sole new account among the uploads."""
    plan, database = noiseless(participations=3), databases("shuffler")
    store = begun(database, plan)
    for users in (range(3), range(2, 5)):
        assert fill(store, plan, users) == [None] * 3
        through(store, plan)
    assert newcomers(database) == [0, 0, 0]


@pytest.mark.parametrize(
    ("sizes", "participations", "limit", "found"),
    [
        ([4, 4, 4], 1, 3, (1, 1)),
        ([4, 4, 4], 1, 4, None),
        ([4, 4, 4], 2, 2, None),
        # Batch 1 uses up two of the first four, batch 2 two others, and batch 3 those of batch 1.
        ([4, 4, 4, 4, 4], 2, 2, None),
        ([4, 4, 4], 2, 1, (2, 1)),
        ([4, 4, 4], 3, 0, None),
        ([4, 9, 9], 3, 4, (1, 1)),
        ([4, 9, 9], 3, 5, None),
    ],
)
def test_a_limit_is_refused_exactly_where_a_batch_can_never_fill(
    sizes: list[int], participations: int, limit: int, found: tuple[int, int] | None
) -> None:
    least = dict(enumerate(sizes))
    assert find_unfillable(least, participations, limit, Counter(), True) == found


def test_who_was_counted_before_a_successor_may_take_part_in_it() -> None:
    assert find_unfillable({0: 4, 1: 4}, 2, 1, Counter({1: 3, 0: 9})) == (1, 2)
    assert find_unfillable({0: 4, 1: 4}, 2, 1, Counter({2: 3})) is None


def test_a_shuffler_does_not_start_with_such_a_limit(
    databases: Databases, settings: Settings
) -> None:
    """Of the plan of three batches of three, at the start and while it runs."""
    plan, database = noiseless(participations=2), databases("shuffler")

    def told(limit: int, **rules: object) -> Settings:
        accounts = AccountSettings(AccountPolicy.ANYONE, new_per_batch=limit)
        batches = BatchSettings(**rules)  # type: ignore[arg-type]
        return replace(settings, accounts=accounts, batches=batches)

    require_fillable(told(2), plan, database)
    with pytest.raises(StartError, match=r"batch 1 can never fill.* it takes 3"):
        require_fillable(told(2), noiseless(), database)
    require_fillable(told(2, short=ShortBatchPolicy.PAD, floor=0.6), noiseless(), database)
    store = begun(database, plan)
    fill(store, plan, range(3))
    through(store, plan)
    fill(store, plan, range(3))
    through(store, plan)
    with pytest.raises(StartError, match=r"batch 2 can never fill.* it takes 3"):
        require_fillable(told(2), plan, database)
    require_fillable(told(3), plan, database)
