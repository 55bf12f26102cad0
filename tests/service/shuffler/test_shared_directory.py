"""Processes over one database share one directory beside it; one with its own is told so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes

import pytest

from croupier.plan import Plan
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.batch_keys import BatchKeys
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database, Hooks
from croupier.service.storage.progress import ProgressFiles

from ..noiseless_plans import altered, begun, noiseless, released, upload, users_in

Databases = Callable[[str], Database]


class Two:
    """Two processes of one plan; the second has a directory of its own."""

    def __init__(self, database: Database, directory: Path) -> None:
        self.plan: Plan = noiseless(participations=2)
        self.first = begun(database, self.plan)
        self.own = directory / "own"
        # It may have noted the plan's steps, as where it began at the same time.
        beside = Path(f"{self.first._keys._directory}")
        self.second = ShufflerStore(database, BatchKeys(self.own), ProgressFiles(beside))

    def made(self, user: int) -> Upload:
        return upload(self.plan, self.first.current(self.plan.id), user)


@pytest.fixture
def two(databases: Databases, tmp_path: Path) -> Two:
    return Two(databases("shuffler"), tmp_path)


def test_a_refused_upload_makes_no_keys(two: Two) -> None:
    stale = altered(two.made(0), model_hash="ff" * 32)
    assert two.second.take([stale]) == [Reason.STALE_MODEL]
    assert not two.own.exists()


def test_a_process_with_its_own_directory_takes_nothing_and_loses_nothing(two: Two) -> None:
    """It took reports under keys of its own, and then the batch could not be sealed by anybody."""
    two.second.take([altered(two.made(5), model_hash="ff" * 32)])
    assert two.first.take([two.made(0)]) == [None]
    again = altered(two.made(0), id=token_bytes(16), digest=token_bytes(32))
    for sent in (again, two.made(2)):
        with pytest.raises(Refusal, match="is not shared") as found:
            two.second.take([sent])
        assert found.value.reason is Reason.ROLLED_BACK
    assert two.first.take([two.made(1), two.made(2)]) == [None] * 2
    with pytest.raises(Refusal, match="is not shared"):
        two.second.seal(two.plan.id)
    assert users_in(two.plan, released(two.first, two.plan)) == [0, 1, 2]


def test_another_key_under_the_same_name_is_told_apart(two: Two, tmp_path: Path) -> None:
    """A directory that was copied before the batch was emptied, say."""
    assert two.first.take([two.made(0)]) == [None]
    two.own.mkdir()
    for file in two.first._keys._directory.glob("*.*.*.*"):
        (two.own / file.name).write_bytes(token_bytes(64))
    with pytest.raises(Refusal, match="share"):
        two.second.take([two.made(1)])
    assert two.first.current(two.plan.id).filled == 1


def test_keys_of_a_transaction_that_was_never_committed_are_replaced(two: Two) -> None:
    class LostError(Exception):
        pass

    def fail() -> None:
        raise LostError

    two.first._database._hooks = Hooks(before_commit=fail)
    with pytest.raises(LostError):
        two.first.take([two.made(0)])
    before = {file.read_bytes() for file in two.first._keys._directory.glob("*.*.*.*")}
    two.first._database._hooks = Hooks()
    assert two.first.take([two.made(0), two.made(1), two.made(2)]) == [None] * 3
    after = {file.read_bytes() for file in two.first._keys._directory.glob("*.*.*.*")}
    assert len(before) == len(after) == 2
    assert not before & after
    assert users_in(two.plan, released(two.first, two.plan)) == [0, 1, 2]
