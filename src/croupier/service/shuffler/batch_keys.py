"""Keys of a batch, as files beside the keyring: without them the database holds ciphertext.

The *early* key hides payloads and who sent them, and is destroyed at the seal. The *late* key hides
the ids by which a repeated upload is known, and seeds of masks; it is destroyed at the scrub. Both
are on disk before the first report of the batch is acknowledged. They are never in the database, so
that its logs, replicas and backups can be opened by nobody once the keys are gone.
"""

from __future__ import annotations

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


@dataclass(frozen=True, repr=False)
class BatchKey:
    """One key of a batch: half of it marks, half of it encrypts."""

    mark: Marker
    _cipher: AESGCM

    @classmethod
    def of(cls, data: bytes) -> BatchKey:
        """The key in a file."""
        return cls(make_marker(data[:HALF]), AESGCM(data[HALF:]))

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


class BatchKeys:
    """The keys of all batches that are on their way, in one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[str, BatchKey] = {}

    def make(self, batch: BatchRow) -> None:
        """The keys of an empty batch whose plan we have locked; those that are there stay."""
        for use in (EARLY, LATE):
            name = _name(batch, use)
            if not (self._directory / name).exists():
                self._write(name)

    def early(self, batch: BatchRow) -> BatchKey:
        """The key to payloads and marks, until the seal."""
        return self._require(batch, EARLY)

    def late(self, batch: BatchRow) -> BatchKey:
        """The key to ids and seeds, until the scrub."""
        return self._require(batch, LATE)

    def has_late(self, batch: BatchRow) -> bool:
        """Whether repeated uploads for the batch can still be known."""
        return self._read(_name(batch, LATE)) is not None

    def keep_only(self, newest: BatchRow, batches: Iterable[BatchRow]) -> None:
        """Destroy the keys of a plan up to its newest batch, but those that are still needed.

        Keys of later ones were made by a process that is ahead of what we have read. A draft of a
        key that is needed may be what another thread is writing.
        """
        needed = {_name(batch, use) for batch in batches for use in _uses(batch)}
        files = {path.name for path in self._directory.glob(f"{newest.plan_id}.*.*.*")}
        known = {name for name in self._known if name.startswith(f"{newest.plan_id}.")}
        for name in files | known:
            is_needed = name.removesuffix(_DRAFT) in needed
            if not is_needed and _place(name) <= (newest.index, newest.attempt):
                _destroy(self._directory / name)
                self._known.pop(name, None)

    def _require(self, batch: BatchRow, use: str) -> BatchKey:
        found = self._read(_name(batch, use))
        if found is None:
            where = f"the {use} key of batch {batch.index} is not in {self._directory}"
            raise Refusal(Reason.ROLLED_BACK, f"{where}: it was destroyed, or not restored")
        return found

    def _read(self, name: str) -> BatchKey | None:
        found = self._known.get(name)
        if found is None:
            try:
                found = BatchKey.of((self._directory / name).read_bytes())
            except FileNotFoundError:
                return None
            self._known[name] = found
        return found

    def _write(self, name: str) -> None:
        """Whole and durable under its name, or not there."""
        make_private_directory(self._directory)
        draft = self._directory / f"{name}{_DRAFT}"
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(2 * HALF))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._directory / name)
        flush_directory(self._directory)


_DRAFT = ".draft"


def _name(batch: BatchRow, use: str) -> str:
    return f"{batch.plan_id}.{batch.index}.{batch.attempt}.{use}"


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
