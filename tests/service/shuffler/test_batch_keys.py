"""Keys of batches as files: destroyed when nothing needs them, and only then."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from croupier.service.http.reasons import Refusal
from croupier.service.shuffler.batch_keys import BatchKeyPair, BatchKeys
from croupier.service.shuffler.rows import BatchRow, BatchState

PLAN = "ab" * 16
PAIR = BatchKeyPair.draw()


def batch(index: int, state: BatchState = BatchState.OPEN) -> BatchRow:
    made = BatchRow(PLAN, index, state, 10, 0, 0, 0, index, "cd" * 32, bytes(32))
    return replace(made, key_prints=PAIR.prints)


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def test_a_key_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    """Another thread tidies up between the draft and its name."""
    keys = BatchKeys(tmp_path)
    keys.store(batch(0), PAIR)
    draft = tmp_path / f"{PLAN}.1.0.early.draft"
    draft.write_bytes(b"k" * 64)
    keys.keep_only(batch(1), [batch(0, BatchState.ACKNOWLEDGED), batch(1)])
    assert draft.read_bytes() == b"k" * 64
    assert names(tmp_path) == {draft.name, f"{PLAN}.0.0.late"}


def test_drafts_that_a_crash_left_are_destroyed(tmp_path: Path) -> None:
    (tmp_path / f"{PLAN}.0.0.late.draft").write_bytes(b"k" * 64)
    BatchKeys(tmp_path).keep_only(batch(1), [batch(1)])
    assert names(tmp_path) == set()


def test_keys_survive_threads_that_make_and_tidy_at_once(tmp_path: Path) -> None:
    keys, over = BatchKeys(tmp_path), threading.Event()

    def tidy() -> None:
        while not over.is_set():
            keys.keep_only(batch(40), [batch(index) for index in range(41)])

    tidying = threading.Thread(target=tidy)
    tidying.start()
    try:
        for index in range(40):
            keys.store(batch(index), PAIR)
    finally:
        over.set()
        tidying.join()
    for index in range(40):
        for use in ("early", "late"):
            assert any((tmp_path / f"{PLAN}.{index}.0.{use}").read_bytes())


def test_a_key_that_another_process_destroyed_is_forgotten_here_too(tmp_path: Path) -> None:
    keys, others = BatchKeys(tmp_path), BatchKeys(tmp_path)
    keys.store(batch(0), PAIR)
    assert keys.early(batch(0))
    sealed = batch(0, BatchState.SEALED)
    others.keep_only(sealed, [sealed])
    keys.keep_only(sealed, [sealed])
    with pytest.raises(Refusal, match="early key of batch 0"):
        keys.early(batch(0))
    assert keys.late(sealed)
