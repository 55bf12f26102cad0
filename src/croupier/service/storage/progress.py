"""How far each plan has come, in a file outside of the database.

A database that is older than this file was set back: a backup was restored, a disk rolled back, a
standby that lagged took over. The file is only ever behind the database, since it is written after
a commit; so whatever it is ahead of is missing. It is made before its plan begins, so that a plan
which has begun and has none has lost it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from croupier.service.http.reasons import Reason, Refusal
from croupier.service.storage.disk import flush_directory, make_private_directory

NO_DIGEST = bytes(32)

_FIELDS = struct.Struct("<QQQQ32s")
_CHECK = 8
_SLOT = _FIELDS.size + _CHECK
_SLOTS = 2


@dataclass(frozen=True, order=True)
class Position:
    """A plan's newest batch, attempt, step and number of reports: later ones are larger.

    ``digest`` is that of what was handed out in this position, zeros where that is nothing.
    """

    batch: int
    attempt: int = 0
    step: int = 0
    filled: int = 0
    digest: bytes = field(default=NO_DIGEST, compare=False)

    def contradicts(self, known: Position) -> bool:
        """Whether this cannot come after ``known``: it is earlier, or says another thing of it."""
        return self < known or (self == known and self.digest != known.digest)


class ProgressFiles:
    """One file for each plan, in a directory that no backup contains."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def create(self, plan_id: str) -> None:
        """The file of a plan, with nothing in it, unless it is there."""
        if self.has(plan_id):
            return
        make_private_directory(self._directory)
        os.close(os.open(self._path(plan_id), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        flush_directory(self._directory)

    def has(self, plan_id: str) -> bool:
        """Whether there is a file, with or without anything in it."""
        return self._path(plan_id).exists()

    def lost(self, plan_id: str) -> Refusal:
        """The refusal of a plan that has begun, where there is no file."""
        return Refusal(
            Reason.ROLLED_BACK,
            f"plan {plan_id} has begun, and how far it had come is not in {self._directory}: that "
            "was lost, is not shared, or the database was moved without it",
        )

    def read(self, plan_id: str) -> Position | None:
        """The furthest position that was noted; None if there is none."""
        try:
            descriptor = os.open(self._path(plan_id), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return max(_positions(descriptor).values(), default=None)
        finally:
            os.close(descriptor)

    def note(self, plan_id: str, position: Position, durable: bool = False) -> Position:
        """Note a position, unless a later one is; the furthest that is noted then.

        Another history of the same position is refused. ``durable``: on disk before this returns.
        Otherwise it survives the process, not the machine: losing it makes the file older, which
        is safe.
        """
        with self._locked(plan_id) as descriptor:
            slots = _positions(descriptor)
            known = max(slots.values(), default=None)
            if known == position and position.contradicts(known):
                raise set_back(plan_id, position, known)
            if known is None or known < position:
                oldest = min(range(_SLOTS), key=lambda slot: slots.get(slot, _BEFORE))
                os.pwrite(descriptor, _encode(position), oldest * _SLOT)
                known = position
            if durable:
                os.fsync(descriptor)
            return known

    @contextmanager
    def _locked(self, plan_id: str) -> Iterator[int]:
        try:
            descriptor = os.open(self._path(plan_id), os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise self.lost(plan_id) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield descriptor
        finally:
            os.close(descriptor)

    def _path(self, plan_id: str) -> Path:
        return self._directory / f"{plan_id}.progress"


_BEFORE = Position(-1)


def set_back(plan_id: str, found: Position | None, known: Position) -> Refusal:
    """The refusal of a database that is behind what was noted."""
    has = "nothing" if found is None else _words(found)
    how = "it was lost" if found is None else "an older copy of it was restored"
    return Refusal(
        Reason.ROLLED_BACK,
        f"the database has {has} of plan {plan_id}, it had {_words(known)}: {how}",
    )


def _words(position: Position) -> str:
    parts = f"batch {position.batch}", f"attempt {position.attempt}", f"step {position.step}"
    return ", ".join([*parts, f"{position.filled} reports"])


def _encode(position: Position) -> bytes:
    place = position.batch, position.attempt, position.step, position.filled
    data = _FIELDS.pack(*place, position.digest)
    return data + hashlib.sha256(data).digest()[:_CHECK]


def _positions(descriptor: int) -> dict[int, Position]:
    """The slots that were written whole: of two, a crash spoils no more than the older one."""
    data = os.pread(descriptor, _SLOTS * _SLOT, 0)
    slots = {slot: data[slot * _SLOT : (slot + 1) * _SLOT] for slot in range(_SLOTS)}
    return {
        slot: Position(*_FIELDS.unpack(part[:-_CHECK]))
        for slot, part in slots.items()
        if len(part) == _SLOT and hashlib.sha256(part[:-_CHECK]).digest()[:_CHECK] == part[-_CHECK:]
    }
