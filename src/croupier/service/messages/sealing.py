"""Sealing: HPKE (RFC 9180) with everything that a report is for bound into it.

The outer seal is for the shuffler. Inside, a report's rows may be sealed once more, one by one,
for the analyzer, so that the shuffler moves what it cannot read. ``docs/wire.md`` has the bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from numpy.typing import NDArray

from croupier.errors import SealError
from croupier.packing import Channel, channels, fits, ordered, raw, sized
from croupier.service.messages import unsealing
from croupier.shuffler import Messages, Shapes
from croupier.wire import MODEL_HASH, PLAN_ID, REPORT_ID, Transport

OVERHEAD = unsealing.OVERHEAD
"""Bytes that a seal adds: an X25519 point and a tag."""

PUBLIC_KEY = 32
"""Bytes of a raw public key."""

BYTES = "|u1"

NO_PUBLIC_KEY = bytes(PUBLIC_KEY)
NO_REPORT = bytes(REPORT_ID)

_PURPOSE = b"croupier report v1"
_TO_SHUFFLER, _TO_ANALYZER = 0, 1
_INFO = struct.Struct(f"<BB{PLAN_ID}sII{MODEL_HASH}s{PUBLIC_KEY}s{REPORT_ID}s")


@dataclass(frozen=True)
class Binding:
    """What a report is good for; sealed for one of these, it opens for no other.

    ``inner_key`` is the raw public key of the analyzer that inner seals are for, zeros where
    there are none. The shuffler opens with the one key of its batch, so that an analyzer which
    hands a user a key of their own gets a report that is refused, not one that it can tell apart.
    """

    transport: Transport
    plan_id: str
    batch: int
    model_version: int
    model_hash: str
    inner_key: bytes = NO_PUBLIC_KEY

    def outer(self, report_id: bytes) -> bytes:
        """The info of the seal for the shuffler."""
        return self.outer_prefix + sized("report_id", report_id, REPORT_ID)

    def inner(self, channel: str) -> bytes:
        """The info of a seal for the analyzer, which must not know which report it is from."""
        return self._info(_TO_ANALYZER, NO_REPORT) + channel.encode()

    @cached_property
    def outer_prefix(self) -> bytes:
        """The outer info up to the report's id, one for all reports of a batch."""
        return self._info(_TO_SHUFFLER, NO_REPORT)[:-REPORT_ID]

    def _info(self, role: int, report_id: bytes) -> bytes:
        return _PURPOSE + _INFO.pack(
            role,
            self.transport,
            raw("plan_id", self.plan_id, PLAN_ID),
            fits("batch", self.batch),
            fits("model_version", self.model_version),
            raw("model_hash", self.model_hash, MODEL_HASH),
            sized("inner_key", self.inner_key, PUBLIC_KEY),
            report_id,
        )


def seal(plaintext: bytes, key: X25519PublicKey, info: bytes) -> bytes:
    """Sealed for ``key``, ``OVERHEAD`` bytes longer, different every time."""
    return unsealing.SUITE.encrypt(plaintext, key, info=info)


def unseal(sealed: bytes, key: X25519PrivateKey, info: bytes) -> bytes:
    """What was sealed, or a ``SealError`` if key, info or a single bit differ."""
    found = unsealing.open_seal(sealed, key, info)
    if found is None:
        raise SealError("the seal does not open: other key, other binding, or altered")
    return found


def seal_report(payload: bytes, key: X25519PublicKey, binding: Binding, report_id: bytes) -> bytes:
    """The outer seal, for the shuffler."""
    return seal(payload, key, binding.outer(report_id))


def open_report(sealed: bytes, key: X25519PrivateKey, binding: Binding, report_id: bytes) -> bytes:
    """The payload of a report that is for this batch, model and id."""
    return unseal(sealed, key, binding.outer(report_id))


def sealed_shapes(shapes: Shapes) -> Shapes:
    """What the shuffler sees of rows that are sealed inside: bytes, as many rows as before."""
    return {
        name: ((one.rows, _sealed_length(one)), BYTES) for name, one in channels(shapes).items()
    }


def seal_rows(
    shapes: Shapes, messages: Messages, key: X25519PublicKey, binding: Binding
) -> Messages:
    """Every row by itself, for the analyzer; the result has ``sealed_shapes(shapes)``."""
    found = ordered(shapes, messages)

    def sealed(name: str, channel: Channel) -> NDArray[np.uint8]:
        info = binding.inner(name)
        blobs = [seal(channel.plain(row), key, info) for row in found[name]]
        return byte_rows(blobs, _sealed_length(channel))

    return {name: sealed(name, one) for name, one in channels(shapes).items()}


def open_rows(
    shapes: Shapes, messages: Messages, key: X25519PrivateKey, binding: Binding
) -> tuple[Messages, int]:
    """The rows of a released batch of ``shapes``, and how many of them were no good.

    One that does not open counts as zeros. Its sender could have sent zeros, so that this gives
    nobody a power that they did not have, and a bad report stops no batch.
    """
    sealed, bad = ordered(sealed_shapes(shapes), messages), 0
    found: dict[str, NDArray[Any]] = {}
    for name, one in channels(shapes).items():
        rows = [_open_row(blob.tobytes(), key, binding.inner(name), one) for blob in sealed[name]]
        bad += rows.count(None)
        found[name] = one.from_plain(
            b"".join(bytes(one.row_length) if row is None else row for row in rows)
        )
    return found, bad


def byte_rows(blobs: list[bytes], width: int) -> NDArray[np.uint8]:
    """Blobs of one length as rows ``(count, width)``."""
    return np.frombuffer(b"".join(blobs), np.uint8).reshape(-1, width)


def _open_row(blob: bytes, key: X25519PrivateKey, info: bytes, channel: Channel) -> bytes | None:
    """A row's bytes, None if it does not open or a bit is neither 0 nor 1."""
    try:
        row = unseal(blob, key, info)
    except SealError:
        return None
    return None if channel.is_bits and row[0] > 1 else row


def _sealed_length(channel: Channel) -> int:
    return channel.row_length + OVERHEAD
