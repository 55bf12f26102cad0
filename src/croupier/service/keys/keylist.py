"""The public keys of a role: what devices and the other role know of it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from croupier.errors import DocumentError, KeyringError
from croupier.packing import raw
from croupier.service.messages import signed_documents
from croupier.service.messages.sealing import PUBLIC_KEY
from croupier.service.messages.signed_documents import KEYS, Trusted, key_id

SEAL, SIGN = "seal", "sign"
PENDING, ACTIVE, EXPIRED = "pending", "active", "expired"

MOST = 2**53
"""Beyond this, JSON's numbers are not whole in every language."""


@dataclass(frozen=True)
class Key:
    """The public half. ``use`` is seal or sign; ``expires`` is in seconds since 1970."""

    use: str
    state: str
    public: bytes
    expires: float | None = None

    @property
    def id(self) -> bytes:
        """The first 8 bytes of the SHA-256 of the raw public key."""
        return key_id(self.public)

    @property
    def content(self) -> dict[str, Any]:
        """Plain values, for a document."""
        return {
            "id": self.id.hex(),
            "use": self.use,
            "state": self.state,
            "public": self.public.hex(),
            "expires": self.expires,
        }

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Key:
        """Read a key; one whose name does not fit is refused."""
        public = bytes.fromhex(content["public"])
        made = cls(content["use"], content["state"], public, content["expires"])
        if made.content != {name: content[name] for name in made.content}:
            raise DocumentError(f"key {content['id']} is not what it is called")
        return made

    def over(self, now: float) -> bool:
        """Whether its time has run out."""
        return self.expires is not None and self.expires <= now


@dataclass(frozen=True)
class KeyList:
    """What a role publishes: its public keys. ``sequence`` grows with every change."""

    role: str
    sequence: int
    keys: tuple[Key, ...]

    @classmethod
    def verify(cls, text: str | bytes, role: str, trusted: Trusted) -> KeyList:
        """The list of that role, if signed by a key that is trusted already."""
        content = signed_documents.verify_document(KEYS, text, trusted)
        try:
            made = cls._from_content(content)
        except (KeyError, TypeError, ValueError) as error:
            raise DocumentError(f"not a list of keys: {error!r}") from error
        if made.role != role:
            raise DocumentError(f"the keys are those of the {made.role}, not of the {role}")
        return made

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> KeyList:
        """Exactly the fields that there are, each of its own type and in its range."""
        _require(content.keys() == {"role", "sequence", "keys"}, "fields", sorted(content))
        sequence, rows = content["sequence"], content["keys"]
        _require(type(sequence) is int and 0 <= sequence < MOST, "sequence", sequence)
        _require(type(content["role"]) is str, "role", content["role"])
        _require(type(rows) is list, "keys", rows)
        return cls(content["role"], sequence, tuple(_read_row(row) for row in rows))

    @property
    def sealing_key(self) -> Key:
        """The key to seal for."""
        return require_active(self.keys, SEAL)

    def trusted(self, now: float | None = None) -> dict[bytes, Ed25519PublicKey]:
        """The keys that sign for this role, also those that are announced or not yet over."""
        moment = time.time() if now is None else now
        signing = [key for key in self.keys if key.use == SIGN and not key.over(moment)]
        return signed_documents.trusted_keys(key.public for key in signing)


def _read_row(row: Any) -> Key:
    """One key of a list, its private half not among the fields."""
    names = {"id", "use", "state", "public", "expires"}
    _require(type(row) is dict and row.keys() == names, "a key's fields", row)
    expires = row["expires"]
    is_moment = type(expires) in (int, float) and math.isfinite(expires) and 0 <= expires < MOST
    _require(row["use"] in (SEAL, SIGN), "use", row["use"])
    _require(row["state"] in (PENDING, ACTIVE, EXPIRED), "state", row["state"])
    _require(expires is None or is_moment, "expires", expires)
    raw("public", row["public"], PUBLIC_KEY)
    return Key.from_content(row)


def _require(holds: bool, name: str, found: object) -> None:
    if not holds:
        raise ValueError(f"{name} is {found!r}")


def require_active(keys: tuple[Key, ...], use: str) -> Key:
    """The one active key of that use."""
    for key in keys:
        if key.use == use and key.state == ACTIVE:
            return key
    raise KeyringError(f"no key to {use} with is active; make one with: croupier keys new")
