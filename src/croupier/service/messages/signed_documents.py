"""Signed documents: models, batches, key lists, and the ledger's chain of hashes.

What is signed is a purpose, so that no signature fits two kinds of thing, and then the bytes
themselves or the canonical JSON of a document's content. Signatures are checked before anything
else is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from croupier.errors import DocumentError, SignatureError
from croupier.model import Model, canonical, read_integer
from croupier.packing import fits, raw
from croupier.wire import KEY_ID, PLAN_ID

Trusted = Mapping[bytes, Ed25519PublicKey]
"""Key id to the public key that signatures are checked with."""

MODEL, BATCH, KEYS = "model", "batch", "keys"


def key_id(public: bytes) -> bytes:
    """The name of a raw public key: the first 8 bytes of its SHA-256."""
    return hashlib.sha256(public).digest()[:KEY_ID]


def trusted_keys(publics: Iterable[bytes]) -> dict[bytes, Ed25519PublicKey]:
    """Raw public keys, by their ids."""
    return {key_id(public): Ed25519PublicKey.from_public_bytes(public) for public in publics}


@dataclass(frozen=True)
class Signer:
    """A private signing key with its name."""

    key: Ed25519PrivateKey

    @property
    def public(self) -> bytes:
        """The raw public key."""
        return self.key.public_key().public_bytes_raw()

    @property
    def id(self) -> bytes:
        """The key's name."""
        return key_id(self.public)

    def sign(self, purpose: str, data: bytes) -> bytes:
        """64 bytes."""
        return self.key.sign(signed_bytes(purpose, data))


def signed_bytes(purpose: str, data: bytes) -> bytes:
    """What the signature is over."""
    return b"croupier signed " + purpose.encode() + b" v1\x00" + data


def verify(purpose: str, data: bytes, name: bytes, signature: bytes, trusted: Trusted) -> None:
    """Refuse a signature that is not by the trusted key of that name."""
    key = trusted.get(name)
    if key is None:
        raise SignatureError(f"the {purpose} is signed by {name.hex()}, which is not trusted")
    try:
        key.verify(signature, signed_bytes(purpose, data))
    except InvalidSignature as error:
        raise SignatureError(f"the {purpose} does not fit its signature") from error


# Documents


def sign_document(purpose: str, content: dict[str, Any], signers: Sequence[Signer]) -> str:
    """A JSON text of the content with a signature by each signer."""
    data = canonical(content)
    signatures = {one.id.hex(): one.sign(purpose, data).hex() for one in signers}
    document = {"kind": f"signed-{purpose}", "content": content, "signatures": signatures}
    return canonical(document).decode()


def verify_document(purpose: str, text: str | bytes, trusted: Trusted) -> dict[str, Any]:
    """The content, if a trusted key has signed it and no trusted key's signature is wrong."""
    content, signatures = _read_envelope(purpose, text)
    known = {name: given for name, given in signatures.items() if name in trusted}
    if not known:
        raise SignatureError(f"the {purpose} is not signed by a key that is trusted")
    for name, signature in known.items():
        verify(purpose, canonical(content), name, signature, trusted)
    return content


def _read_envelope(purpose: str, text: str | bytes) -> tuple[dict[str, Any], dict[bytes, bytes]]:
    """Content and signatures by key id, neither of them believed yet."""
    try:
        document = json.loads(text, parse_int=read_integer, parse_constant=_refuse_number)
        if document.keys() != {"kind", "content", "signatures"}:
            raise ValueError(f"fields are {sorted(document)}")
        if document["kind"] != f"signed-{purpose}" or not isinstance(document["content"], dict):
            raise ValueError(f"kind is {document['kind']!r}")
        given = document["signatures"].items()
        signatures = {bytes.fromhex(name): bytes.fromhex(value) for name, value in given}
        canonical(document["content"])
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DocumentError(f"not a signed {purpose}: {error}") from error
    return document["content"], signatures


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


@dataclass(frozen=True, eq=False)
class SignedModel:
    """What is signed of a model: itself, and the hash of the ledger entry that it rests on."""

    model: Model
    ledger: str


def sign_model(model: Model, ledger: str, signer: Signer) -> str:
    """The published document; plan, version and previous hash are the model's own."""
    content = {"model": json.loads(model.to_json()), "ledger": ledger}
    return sign_document(MODEL, content, [signer])


def verify_model(text: str | bytes, trusted: Trusted) -> SignedModel:
    """The model of a document that a trusted key has signed."""
    return _read_content(verify_document(MODEL, text, trusted))


def read_model(text: str | bytes) -> SignedModel:
    """The same, whoever has signed it: for those who know the model's hash from elsewhere.

    A model names the one before it by its hash, so that a signature on the newest is one on all of
    them. Those of earlier days may be by keys that are retired.
    """
    return _read_content(_read_envelope(MODEL, text)[0])


def sign_model_again(text: str, signer: Signer) -> str:
    """The same document with that signature in place of those it has."""
    return sign_document(MODEL, _read_envelope(MODEL, text)[0], [signer])


def _read_content(content: dict[str, Any]) -> SignedModel:
    try:
        model = Model.from_json(json.dumps(content["model"]))
        return SignedModel(model, str(content["ledger"]))
    except (KeyError, OverflowError) as error:
        raise DocumentError(f"not a signed model: {error!r}") from error


# Batches


def sign_batch(body: bytes, signer: Signer) -> str:
    """The value of the signature header: key id and signature in hex, with a dot between."""
    return f"{signer.id.hex()}.{signer.sign(BATCH, body).hex()}"


def verify_batch(body: bytes, header: str, trusted: Trusted) -> None:
    """Refuse a batch whose header is not a trusted key's signature over exactly these bytes."""
    name, _, signature = header.partition(".")
    try:
        given = bytes.fromhex(name), bytes.fromhex(signature)
    except ValueError as error:
        raise SignatureError(f"signature must be two hex numbers, got {header!r}") from error
    verify(BATCH, body, *given, trusted)


def signed_share(plan_id: str, batch: int, share: bytes) -> bytes:
    """What the signature on a sum of shares is over: it is good for one batch of one plan."""
    bound = raw("plan_id", plan_id, PLAN_ID) + fits("batch", batch).to_bytes(4, "little")
    return b"share" + bound + share


# The ledger


@dataclass(frozen=True)
class LedgerEntry:
    """One released batch and what it cost a user in it.

    ``sequence`` counts entries from 0, ``digest`` is the SHA-256 of the released bytes, and
    ``previous`` the hash of the entry before, empty for the first. ``mu`` and ``epsilon`` are
    None where nothing finite is proved; ``method`` says what they rest on.
    """

    sequence: int
    plan: str
    batch: int
    users: int
    model_hash: str
    digest: str
    mu: float | None
    epsilon: float | None
    delta: float | None
    method: str
    previous: str = ""

    @property
    def content(self) -> dict[str, Any]:
        """Plain values, for a document."""
        return asdict(self)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical content."""
        return hashlib.sha256(canonical(self.content)).hexdigest()

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> LedgerEntry:
        """Read an entry; a missing or further field is refused."""
        try:
            return cls(**content)
        except TypeError as error:
            raise DocumentError(f"not a ledger entry: {error}") from error


def verify_chain(entries: Iterable[LedgerEntry], head: str | None = None) -> str:
    """The hash of the last entry, if none is missing, altered, or charges a batch again.

    ``head`` is the hash that the chain must end in, where it is known from elsewhere: without
    it, entries cut off at the end are not noticed.
    """
    previous = ""
    charged: dict[str, int] = {}
    for number, entry in enumerate(entries):
        if (entry.sequence, entry.previous) != (number, previous):
            raise DocumentError(f"the ledger is broken before entry {number}")
        if entry.batch <= charged.get(entry.plan, -1):
            raise DocumentError(f"the ledger charges batch {entry.batch} again, entry {number}")
        charged[entry.plan] = entry.batch
        previous = entry.hash
    if head is not None and previous != head:
        raise DocumentError(f"the ledger ends in {previous or 'nothing'}, it should in {head}")
    return previous
