"""Keys of one role: made, announced, used, kept for a while and deleted, without downtime.

Keys, one that reports are sealed for and one that signs, are ``pending`` until devices
could have heard of it, then ``active``, then ``expired``. An expired key still opens what was
sealed for it until its time is over; then its private half is deleted, by a running service only
if the clock that says so has not jumped.
"""

from __future__ import annotations

import errno
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from croupier.arguments import finite
from croupier.errors import KeyringError
from croupier.service.keys.keylist import ACTIVE, EXPIRED, PENDING, SEAL, SIGN, Key, require_active
from croupier.service.keys.keystore import ISSUER, Keystore
from croupier.service.keys.steady_time import SteadyTime
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import KEYS, Signer

GRACE = 7 * 24 * 3600.0
"""Seconds that an expired key still opens; longer than a device keeps a report."""


_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True, repr=False)
class _Held:
    key: Key
    private: bytes


class Keyring:
    """The keys of one role, in a directory of its own."""

    def __init__(self, store: Keystore) -> None:
        self._store = store
        self._sequence = 0
        self._held: tuple[_Held, ...] = ()
        self._seen: tuple[int, int] = (0, 0)
        self._openers: dict[bytes, X25519PrivateKey] = {}
        self._time = SteadyTime()

    @classmethod
    def create(cls, directory: str | Path, role: str, passphrase: bytes) -> Self:
        """An empty ring in a new directory."""
        ring = cls(Keystore.create(Path(directory), role, passphrase))
        ring._change(())
        return ring

    @classmethod
    def open(cls, directory: str | Path, role: str, passphrase: bytes) -> Self:
        """The ring of that role in a directory; another role's is refused."""
        ring = cls(Keystore.open(Path(directory), role, passphrase))
        ring.refresh()
        return ring

    @property
    def role(self) -> str:
        """Whose keys they are."""
        return self._store.role

    def list(self) -> tuple[Key, ...]:
        """All keys, public halves only."""
        return tuple(held.key for held in self._held)

    def refresh(self) -> bool:
        """Read again what another process has changed; whether it had."""
        found = self._store.changed
        if found == self._seen:
            return False
        content = self._store.read()
        self._hold(tuple(self._restore(one) for one in content["keys"]), content["sequence"])
        self._seen = found
        return True

    def tidy(self, now: float | None = None, monotonic: float | None = None) -> None:
        """Read what another process has changed, and delete keys whose time has long been over.

        For a service that runs, again and again: a clock that was ahead for a moment deletes
        nothing, see ``SteadyTime``. Where the directory cannot be written, the keys stay there.
        """
        self.refresh()
        sure = self._time.look(_moment(now), time.monotonic() if monotonic is None else monotonic)
        if sure is None or not any(key.over(sure) for key in self.list()):
            return
        try:
            self.retire(sure)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise

    def new(self) -> tuple[Key, ...]:
        """Fresh keys, pending; active at once if it is the first."""
        with self._store.locked():
            self.refresh()
            if any(key.state == PENDING for key in self.list()):
                raise KeyringError("a pending key is waiting already; rotate first")
            made = _make_keys(self.role, PENDING if self._held else ACTIVE)
            self._change((*self._held, *made))
        return tuple(held.key for held in made)

    def rotate(self, grace: float = GRACE, now: float | None = None) -> tuple[Key, ...]:
        """Pending keys become active; active ones expire, and open for ``grace`` more seconds."""
        if finite("grace", grace) < 0:
            raise ValueError(f"grace must be at least 0 seconds, got {grace!r}")
        until = _moment(now) + grace
        with self._store.locked():
            self.refresh()
            if not any(key.state == PENDING for key in self.list()):
                raise KeyringError("no key is pending; make one with: croupier keys new")
            self._change(tuple(_advance(held, until) for held in self._held))
        return self.list()

    def retire(self, now: float | None = None) -> tuple[Key, ...]:
        """Delete the private keys whose time is over by this clock, at once; these keys."""
        moment = _moment(now)
        with self._store.locked():
            self.refresh()
            over = tuple(key for key in self.list() if key.over(moment))
            if over:
                self._change(tuple(held for held in self._held if held.key not in over))
        return over

    def opener(self, name: bytes) -> X25519PrivateKey | None:
        """The private key of that id, None if it is unknown or deleted.

        A key that is held opens, whatever a clock says: one that is wrong must not cost a batch.
        Pending keys open too: another process of this role may have rotated already.
        """
        return self._openers.get(name)

    @property
    def sealing_key(self) -> X25519PublicKey:
        """The active key, to seal for."""
        return X25519PublicKey.from_public_bytes(require_active(self.list(), SEAL).public)

    @property
    def signer(self) -> Signer:
        """The active signing key."""
        wanted = require_active(self.list(), SIGN)
        return next(_signer(held) for held in self._held if held.key == wanted)

    def document(self, now: float | None = None) -> str:
        """The public list, signed by the active key and by those that expire.

        What is over by this clock is left out. Its sequence is that of the whole list, so that
        after a clock that was wrong the whole list is taken again.
        A device that missed rotations trusts an older key, and can follow while that one lasts.
        """
        moment = _moment(now)
        keys = [key.content for key in self.list() if not key.over(moment)]
        content = {"role": self.role, "sequence": self._sequence, "keys": keys}
        signers = [_signer(held) for held in self._held if _signs(held.key, moment)]
        return signed_documents.sign_document(KEYS, content, signers)

    def _change(self, held: tuple[_Held, ...]) -> None:
        """On disk first, so that nothing is used that a crash would lose."""
        keys = [
            one.key.content | {"private": self._store.encrypt(one.private, one.key.public)}
            for one in held
        ]
        self._store.write({"sequence": self._sequence + 1, "keys": keys})
        self._hold(held, self._sequence + 1)
        self._seen = self._store.changed

    def _hold(self, held: tuple[_Held, ...], sequence: int) -> None:
        self._held, self._sequence = held, sequence
        seals = [one for one in held if one.key.use == SEAL]
        self._openers = {
            one.key.id: X25519PrivateKey.from_private_bytes(one.private) for one in seals
        }

    def _restore(self, content: dict[str, Any]) -> _Held:
        key = Key.from_content(content)
        return _Held(key, self._store.decrypt(content["private"], key.public))


def _moment(now: float | None) -> float:
    return time.time() if now is None else now


def _make_keys(role: str, state: str) -> tuple[_Held, ...]:
    """A key to seal for and a key that signs; an issuer only signs."""
    sign = Ed25519PrivateKey.generate()
    held = _Held(Key(SIGN, state, sign.public_key().public_bytes_raw()), sign.private_bytes_raw())
    if role == ISSUER:
        return (held,)
    seal = X25519PrivateKey.generate()
    return (
        _Held(Key(SEAL, state, seal.public_key().public_bytes_raw()), seal.private_bytes_raw()),
        held,
    )


def _advance(held: _Held, until: float) -> _Held:
    """One step on: pending, active, expired."""
    if held.key.state == PENDING:
        return replace(held, key=replace(held.key, state=ACTIVE))
    if held.key.state == ACTIVE:
        return replace(held, key=replace(held.key, state=EXPIRED, expires=until))
    return held


def _signer(held: _Held) -> Signer:
    return Signer(Ed25519PrivateKey.from_private_bytes(held.private))


def _signs(key: Key, moment: float) -> bool:
    return key.use == SIGN and key.state != PENDING and not key.over(moment)
