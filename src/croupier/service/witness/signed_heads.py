"""The heads that a witness has signed: appended to, flushed before they are shown, never rewritten.

A fork that was seen is noted beside them, and stays until the operator takes the note away.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

from croupier.errors import CroupierError
from croupier.service.messages.witnessed_heads import WitnessedHead
from croupier.service.storage.disk import flush_directory

HEADS, FORKED, LOCK = "heads.jsonl", "forked", "lock"


class WitnessError(CroupierError):
    """A witness's directory is damaged or in use, or is that of another plan."""


class SignedHeads:
    """One plan's heads in a directory, for one process at a time."""

    def __init__(self, directory: Path, plan_id: str) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        self._lock = _lock(directory)
        try:
            self.last = self._read_last()
            if self.last is not None and self.last.plan != plan_id:
                raise WitnessError(f"{directory} has heads of plan {self.last.plan}")
        except BaseException:
            self.close()
            raise

    @property
    def fork(self) -> str:
        """What was seen that no two honest services show; empty where all is well."""
        path = self._directory / FORKED
        return path.read_text(encoding="utf-8").strip() if path.exists() else ""

    def append(self, head: WitnessedHead, document: str) -> None:
        """A head as it was signed; on disk when this returns."""
        with (self._directory / HEADS).open("ab") as file:
            file.write(document.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        flush_directory(self._directory)
        self.last = head

    def note_fork(self, text: str) -> None:
        """From here on nothing is signed, not after a restart either."""
        draft = self._directory / f"{FORKED}.draft"
        with draft.open("w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._directory / FORKED)
        flush_directory(self._directory)

    def close(self) -> None:
        """Let another process use the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _read_last(self) -> WitnessedHead | None:
        path = self._directory / HEADS
        if not path.exists():
            return None
        text = path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            # What a crash left of a line: that head was shown to nobody.
            os.truncate(path, len(whole))
        lines = whole.splitlines()
        return _read_head(path, lines[-1]) if lines else None


def _read_head(path: Path, line: bytes) -> WitnessedHead:
    try:
        return WitnessedHead.from_content(json.loads(line)["content"])
    except (ValueError, TypeError, KeyError, CroupierError) as error:
        raise WitnessError(f"{path} is damaged: {line[:80]!r}") from error


def _lock(directory: Path) -> int:
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise WitnessError(f"{directory} is in use by another process") from error
    return descriptor
