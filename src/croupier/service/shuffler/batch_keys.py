"""Keys of a batch, as files beside the keyring: without them the database holds ciphertext.

The *early* key hides payloads and who sent them, and is destroyed at the seal. The *late* key hides
the ids by which a repeated upload is known, and seeds of masks; it is destroyed at the scrub. Both
are on disk before the first report of the batch is acknowledged. They are never in the database, so
that its logs, replicas and backups can be opened by nobody once the keys are gone.

The database has a fingerprint of both, so that a process with another directory is told apart from
one that shares ours.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from croupier.service.http.reasons import Reason, Refusal
from croupier.service.shuffler.account_marks import Marker, make_marker
from croupier.service.shuffler.rows import BatchRow
from croupier.service.storage.disk import flush_directory, make_private_directory

EARLY, LATE = "early", "late"
NONCE = 12
HALF = 32
PRINT = 32


@dataclass(frozen=True, repr=False)
class BatchKey:
    """One key of a batch: half of it marks, half of it encrypts. ``print`` tells it from others."""

    data: bytes
    print: bytes
    mark: Marker
    _cipher: AESGCM

    @classmethod
    def of(cls, data: bytes) -> BatchKey:
        """The key in a file."""
        fingerprint = hashlib.sha256(b"batch key" + data).digest()
        return cls(data, fingerprint, make_marker(data[:HALF]), AESGCM(data[HALF:]))

    def encrypt(self, plain: bytes) -> bytes:
        """For the database."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, plain, None)

    def decrypt(self, data: bytes) -> bytes:
        """Back from the database."""
        try:
            return self._cipher.decrypt(data[:NONCE], data[NONCE:], None)
        except InvalidTag as error:
            raise Refusal(Reason.ROLLED_BACK, "a row is not of the key's batch") from error


@dataclass(frozen=True, repr=False)
class BatchKeyPair:
    """Both keys of an open batch."""

    early: BatchKey
    late: BatchKey

    @classmethod
    def draw(cls) -> BatchKeyPair:
        """New ones, that are nowhere yet."""
        return cls(*(BatchKey.of(secrets.token_bytes(2 * HALF)) for _ in (EARLY, LATE)))

    @property
    def prints(self) -> bytes:
        """What the database has of them."""
        return self.early.print + self.late.print


class BatchKeys:
    """The keys of all batches that are on their way, in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, BatchKey] = {}

    def pair(self, batch: BatchRow) -> BatchKeyPair:
        """The keys of an open batch; of an empty one new ones, to be stored with its first report.

        What a refused upload has drawn is nobody's, and never on a disk.
        """
        if not batch.key_prints:
            return BatchKeyPair.draw()
        return BatchKeyPair(self.early(batch), self.late(batch))

    def store(self, batch: BatchRow, drawn: BatchKeyPair) -> None:
        """The keys of an empty batch whose plan we have locked.

        Keys that are there were stored by a transaction that was never committed.
        """
        for use, key in ((EARLY, drawn.early), (LATE, drawn.late)):
            name = _name(batch, use)
            _destroy(self._directory / name)
            self._write(name, key.data)
            self._known[name] = key

    def early(self, batch: BatchRow) -> BatchKey:
        """The key to payloads and marks, until the seal."""
        return self._require(batch, EARLY)

    def late(self, batch: BatchRow) -> BatchKey:
        """The key to ids and seeds, until the scrub."""
        return self._require(batch, LATE)

    def find_lost(self, batch: BatchRow) -> str:
        """Which key that the batch needs is not in the directory, in words; empty if none."""
        if not batch.key_prints:
            return ""
        for use in _uses(batch):
            found = self._read(_name(batch, use))
            if found is None or found.print != _print(batch, use):
                self._known.pop(_name(batch, use), None)
                return self._missing(batch, use, found is not None)
        return ""

    def keep_only(
        self, newest: BatchRow, batches: Iterable[BatchRow], has_ended: bool = False
    ) -> None:
        """Destroy the keys of a plan up to its newest batch, but those that are still needed.

        Keys of later ones were made by a process that is ahead of what we have read, unless the
        plan has ended. A draft of a key that is needed may be what another thread is writing.
        """
        needed = {_name(batch, use) for batch in batches for use in _uses(batch)}
        for name in self._names(newest.plan_id):
            is_needed = name.removesuffix(_DRAFT) in needed
            if not is_needed and (has_ended or _place(name) <= (newest.index, newest.attempt)):
                self._destroy(name)

    def destroy_all(self, plan_id: str) -> None:
        """Of a plan whose database is gone for good."""
        for name in self._names(plan_id):
            self._destroy(name)

    def _names(self, plan_id: str) -> set[str]:
        """Every key of a plan, on disk and in memory."""
        files = {path.name for path in self._directory.glob(f"{plan_id}.*.*.*")}
        return files | {name for name in list(self._known) if name.startswith(f"{plan_id}.")}

    def _destroy(self, name: str) -> None:
        _destroy(self._directory / name)
        self._known.pop(name, None)

    def _require(self, batch: BatchRow, use: str) -> BatchKey:
        """The key whose fingerprint is in the database."""
        name, expected = _name(batch, use), _print(batch, use)
        known = self._known.get(name)
        if known is not None and known.print == expected:
            return known
        found = self._read(name)
        if found is None or found.print != expected:
            raise Refusal(Reason.ROLLED_BACK, self._missing(batch, use, found is not None))
        self._known[name] = found
        return found

    def _missing(self, batch: BatchRow, use: str, is_other: bool) -> str:
        what = f"the {use} key of batch {batch.index}"
        if is_other:
            return f"{what} in {self._directory} is another one: all processes must share one"
        return f"{what} is not in {self._directory}: it was destroyed, lost, or is not shared"

    def _read(self, name: str) -> BatchKey | None:
        try:
            return BatchKey.of((self._directory / name).read_bytes())
        except FileNotFoundError:
            return None

    def _write(self, name: str, data: bytes) -> None:
        """Whole and durable under its name, or not there."""
        make_private_directory(self._directory)
        draft = self._directory / f"{name}{_DRAFT}"
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._directory / name)
        flush_directory(self._directory)


_DRAFT = ".draft"


def _name(batch: BatchRow, use: str) -> str:
    return f"{batch.plan_id}.{batch.index}.{batch.attempt}.{use}"


def _print(batch: BatchRow, use: str) -> bytes:
    """The fingerprint that the database has of a key."""
    return batch.key_prints[:PRINT] if use == EARLY else batch.key_prints[PRINT:]


def _place(name: str) -> tuple[int, int]:
    """Batch and attempt of a key's file."""
    _, index, attempt, *_ = name.split(".")
    return int(index), int(attempt)


def _uses(batch: BatchRow) -> tuple[str, ...]:
    """The keys that a batch still needs."""
    if batch.is_open:
        return EARLY, LATE
    return () if batch.is_over else (LATE,)


def _destroy(path: Path) -> None:
    """Overwritten, as far as a disk lets us, and gone."""
    try:
        with path.open("r+b") as file:
            file.write(bytes(2 * HALF))
            file.flush()
            os.fsync(file.fileno())
        path.unlink()
    except FileNotFoundError:
        return
    flush_directory(path.parent)
