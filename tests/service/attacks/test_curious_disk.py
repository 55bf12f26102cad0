"""Whoever reads the disk of a running service, while somebody has its database open."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from .laboratory import PATIENCE, USERS, Laboratory, laboratory


def stored(here: Laboratory) -> list[bytes]:
    """A few reports of the open batch, as they are stored."""
    with sqlite3.connect(f"file:{here.database('shuffler')}?mode=ro", uri=True) as found:
        rows = found.execute("SELECT content, id FROM reports LIMIT 5").fetchall()
    found.close()
    return [bytes(part) for row in rows for part in row]


def on_disk(here: Laboratory, parts: list[bytes]) -> int:
    files = here.directory("shuffler").glob("shuffler.db*")
    content = [file.read_bytes() for file in files if not file.name.endswith("-shm")]
    return sum(any(part in one for one in content) for part in parts)


def await_gone(here: Laboratory, parts: list[bytes]) -> None:
    end = time.monotonic() + PATIENCE / 4
    while on_disk(here, parts) and time.monotonic() < end:
        time.sleep(0.1)
    assert on_disk(here, parts) == 0


def test_a_batch_is_gone_from_the_disk_soon_after_its_scrub_also_from_a_log_that_was_read(
    tmp_path: Path,
) -> None:
    """No further batch and no further report is needed for that, only that the reader ends."""
    with laboratory(tmp_path) as here:
        for batch, is_read in enumerate([False, True]):
            here.await_batch(batch)
            assert here.send(USERS - 1) == USERS - 1
            parts = stored(here)
            assert on_disk(here, parts) == len(parts)
            reader = sqlite3.connect(here.database("shuffler"), isolation_level=None)
            if is_read:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM plans").fetchall()
            assert here.send(1) == 1
            here.await_batch(batch + 1)
            if is_read:
                time.sleep(1.0)
                assert on_disk(here, parts) > 0
                reader.execute("COMMIT")
            reader.close()
            await_gone(here, parts)
