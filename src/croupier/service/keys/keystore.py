"""A directory of private keys: encrypted, written whole or not at all, for one role only."""

from __future__ import annotations

import fcntl
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from croupier.errors import KeyringError
from croupier.model import canonical
from croupier.service.storage.disk import OPEN_TO_OTHERS, flush_directory

ISSUER = "issuer"
"""Not a service: it signs account tokens, and nothing is sealed for it."""

ROLES = ("shuffler", "analyzer", ISSUER, "witness")
FILE = "keyring.json"
LOCK = "lock"
VERSION = 1
NONCE = 12
ROOT = 0


@dataclass(frozen=True, repr=False)
class Keystore:
    """The files of a keyring; ``cipher`` and ``seal`` follow from the passphrase.

    One file holds everything, so that a crash leaves the old keys or the new ones.
    """

    directory: Path
    role: str
    salt: bytes
    cipher: AESGCM
    seal: bytes

    @classmethod
    def create(cls, directory: Path, role: str, passphrase: bytes) -> Self:
        """Make the directory, for this role from now on."""
        if role not in ROLES:
            raise ValueError(f"role must be one of {ROLES}, got {role!r}")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _private(directory)
        if (directory / FILE).exists():
            raise KeyringError(f"{directory} has keys already")
        return cls._unlock(directory, role, secrets.token_bytes(16), passphrase)

    @classmethod
    def open(cls, directory: Path, role: str, passphrase: bytes) -> Self:
        """The store of that role, if the directory is safe and the passphrase fits."""
        document = _document(directory)
        if document.get("role") != role:
            raise KeyringError(f"{directory} has keys of the {document.get('role')}, not {role}")
        store = cls._unlock(directory, role, _bytes(document, "salt"), passphrase)
        store.read()
        return store

    @classmethod
    def _unlock(cls, directory: Path, role: str, salt: bytes, passphrase: bytes) -> Self:
        if not passphrase:
            raise ValueError("passphrase must not be empty")
        # About a quarter of a second: what guessing a passphrase costs.
        derived = Scrypt(salt=salt, length=64, n=2**15, r=8, p=3).derive(passphrase)
        return cls(directory, role, salt, AESGCM(derived[:32]), derived[32:])

    def read(self) -> dict[str, Any]:
        """What was last written; anything altered since is refused."""
        document = _document(self.directory)
        claimed = _bytes(document, "seal")
        del document["seal"]
        if not hmac.compare_digest(claimed, self._seal(document)):
            raise KeyringError(f"{self.directory}: the passphrase is wrong or the file was altered")
        return document

    def write(self, content: dict[str, Any]) -> None:
        """Replace the file: write, flush to disk, rename, flush the directory."""
        head = {"kind": "keyring", "version": VERSION, "role": self.role, "salt": self.salt.hex()}
        document = head | content
        text = canonical(document | {"seal": self._seal(document).hex()})
        draft = self.directory / f"{FILE}.draft"
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            _keep_access(self.directory / FILE, file.fileno())
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.directory / FILE)
        flush_directory(self.directory)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process changes the keys at a time."""
        descriptor = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @property
    def changed(self) -> tuple[int, int]:
        """Differs whenever another process has written."""
        found = (self.directory / FILE).stat()
        return found.st_ino, found.st_mtime_ns

    def encrypt(self, private: bytes, public: bytes) -> str:
        """A private key, bound to its role and its public key."""
        nonce = secrets.token_bytes(NONCE)
        return (nonce + self.cipher.encrypt(nonce, private, self._bound(public))).hex()

    def decrypt(self, text: str, public: bytes) -> bytes:
        """The private key that was encrypted with this public key."""
        data = bytes.fromhex(text)
        try:
            return self.cipher.decrypt(data[:NONCE], data[NONCE:], self._bound(public))
        except InvalidTag as error:
            raise KeyringError(f"{self.directory}: a private key is damaged") from error

    def _bound(self, public: bytes) -> bytes:
        return self.role.encode() + b"\x00" + public

    def _seal(self, document: dict[str, Any]) -> bytes:
        return hmac.digest(self.seal, canonical(document), sha256)


def _document(directory: Path) -> dict[str, Any]:
    """The file as it is, of a directory that nobody else can read."""
    if not (directory / FILE).exists():
        raise KeyringError(f"{directory} has no keys; make some with: croupier keys new")
    _private(directory)
    _private(directory / FILE)
    try:
        document = json.loads((directory / FILE).read_text())
        canonical(document)
    except (ValueError, RecursionError) as error:
        raise KeyringError(f"{directory / FILE} is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("kind") != "keyring":
        raise KeyringError(f"{directory / FILE} is not a keyring")
    if document.get("version") != VERSION:
        raise KeyringError(f"{directory / FILE} has version {document.get('version')!r}")
    return document


def _bytes(document: dict[str, Any], name: str) -> bytes:
    try:
        return bytes.fromhex(document[name])
    except (KeyError, TypeError, ValueError) as error:
        raise KeyringError(f"the keyring's {name} is damaged") from error


def _private(path: Path) -> None:
    """Refuse what is open to others than its group's readers, or neither root's nor ours."""
    found = path.stat()
    if found.st_mode & OPEN_TO_OTHERS:
        wanted = 700 if path.is_dir() else 600
        raise KeyringError(
            f"{path} is open to others, mode {found.st_mode & 0o777:o}; try: chmod {wanted} {path}"
        )
    if found.st_uid not in (ROOT, os.geteuid()):
        raise KeyringError(f"{path} belongs to user {found.st_uid}, this is {os.geteuid()}")


def _keep_access(old: Path, descriptor: int) -> None:
    """Who could read the old file can read the new one: a service's group, where root rotates."""
    if not old.exists():
        return
    found = old.stat()
    if found.st_mode & 0o040:
        os.fchown(descriptor, -1, found.st_gid)
        os.fchmod(descriptor, 0o640)
