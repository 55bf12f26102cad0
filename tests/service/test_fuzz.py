"""Every decoder on damaged and random bytes: it reads them or refuses, and fails no other way."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from croupier import wire
from croupier.errors import DocumentError, KeyringError, SealError, SignatureError, WireError
from croupier.model import Model
from croupier.service.keys import keystore
from croupier.service.keys.keylist import ACTIVE, SEAL, Key, KeyList
from croupier.service.messages import sealing, shares, signed_documents, unsealing
from croupier.shuffler import Messages, Shapes
from croupier.wire import BatchHeader, Record, Transport

KEY = X25519PrivateKey.generate()
SIGNER = signed_documents.Signer(Ed25519PrivateKey.generate())
TRUSTED = signed_documents.trusted_keys([SIGNER.public])
BINDING = sealing.Binding(Transport.SEALED, "0f" * 16, 3, 2, "cd" * 32)
SHAPES: Shapes = {"a": ((9, 1), "|u1"), "b": ((2, 3), "<i8"), "c": ((2, 3), "|u1")}
MESSAGES: Messages = {
    "a": np.ones((9, 1), np.uint8),
    "b": np.arange(6, dtype=np.int64).reshape(2, 3),
    "c": np.ones((2, 3), np.uint8),
}
HEADER = BatchHeader(Transport.BITS, "0f" * 16, 3, 2, "cd" * 32)
RECORD = Record(Transport.BITS, bytes(8), 6, "cd" * 32, bytes(16), bytes(32), b"sealed")
MODEL = Model("ucb", np.array([0.1, 2.0]), np.eye(2), 1.5, 1, 10, plan_id="ab" * 16)
SEALED_ROWS = sealing.seal_rows(SHAPES, MESSAGES, KEY.public_key(), BINDING)
BIT_SHAPES: Shapes = {"a": ((9, 1), "|u1"), "b": ((300, 1), "|u1")}
SHARED = shares.share_report(np.array([1, 2]), KEY.public_key(), BINDING)[shares.REPORT]
JOB = unsealing.DecryptJob(
    KEY,
    BINDING.outer_prefix,
    [(name, sealing.seal_report(b"pay", KEY.public_key(), BINDING, name)) for name in [bytes(16)]],
)
KEYS = {"role": "shuffler", "sequence": 1, "keys": [Key(SEAL, ACTIVE, bytes(32)).content]}


@dataclass(frozen=True)
class Decoder:
    """A decoder, something that it reads, and the errors with which it may refuse."""

    read: Callable[[bytes], Any]
    good: bytes
    refuses: type[Exception]


def sealed_rows(data: bytes) -> Any:
    shapes = sealing.sealed_shapes(SHAPES)
    return sealing.open_rows(SHAPES, wire.decode_report(shapes, data), KEY, BINDING)


def shared(data: bytes) -> Any:
    row = np.frombuffer(data[: SHARED.shape[1]].ljust(SHARED.shape[1], b"\x00"), np.uint8)
    return shares.open_shares(shares.split_rows(row[None, :])[1][shares.SHARE], KEY, BINDING)


DECODERS = {
    "report": Decoder(
        lambda data: wire.decode_report(SHAPES, data),
        wire.encode_report(SHAPES, MESSAGES),
        WireError,
    ),
    "records": Decoder(
        lambda data: wire.decode_records(data, lambda batch: batch % 9),
        wire.encode_records([RECORD, RECORD]),
        WireError,
    ),
    "batch": Decoder(
        lambda data: wire.decode_batch(SHAPES, data),
        wire.encode_batch(HEADER, SHAPES, MESSAGES),
        WireError,
    ),
    "counts": Decoder(
        lambda data: wire.decode_counts(BIT_SHAPES, data),
        wire.encode_counts(HEADER, BIT_SHAPES, {"a": 4, "b": 0}),
        WireError,
    ),
    "batch header": Decoder(wire.decode_batch_header, wire.encode_batch(HEADER, {}, {}), WireError),
    "flags": Decoder(lambda data: wire.decode_flags(data, 13), b"\xff\x1f", WireError),
    "words": Decoder(lambda data: wire.decode_words(data, 3), bytes(12), WireError),
    "sealed report": Decoder(
        lambda data: sealing.open_report(data, KEY, BINDING, bytes(16)),
        sealing.seal_report(b"payload", KEY.public_key(), BINDING, bytes(16)),
        SealError,
    ),
    "sealed rows": Decoder(
        sealed_rows, wire.encode_report(sealing.sealed_shapes(SHAPES), SEALED_ROWS), WireError
    ),
    "shares": Decoder(shared, SHARED.tobytes(), WireError),
    "helper's job": Decoder(
        lambda data: unsealing.encode_answer(unsealing.DecryptJob.decode(data)),
        JOB.encode(),
        unsealing.FrameError,
    ),
    "helper's answer": Decoder(JOB.read_answer, unsealing.encode_answer(JOB), unsealing.FrameError),
    "helper's input": Decoder(
        lambda data: unsealing.serve(io.BytesIO(data), io.BytesIO()),
        2 * unsealing.encode_frame(JOB.encode()),
        unsealing.FrameError,
    ),
    "model": Decoder(
        lambda data: signed_documents.verify_model(data, TRUSTED),
        signed_documents.sign_model(MODEL, "ee" * 32, SIGNER).encode(),
        DocumentError,
    ),
    "key list": Decoder(
        lambda data: KeyList.verify(data, "shuffler", TRUSTED),
        signed_documents.sign_document("keys", KEYS, [SIGNER]).encode(),
        DocumentError,
    ),
    "signature of a batch": Decoder(
        lambda data: signed_documents.verify_batch(b"body", data.decode("latin-1"), TRUSTED),
        signed_documents.sign_batch(b"body", SIGNER).encode(),
        SignatureError,
    ),
}


def damaged(good: bytes, rng: np.random.Generator) -> bytes:
    """Bits flipped, bytes replaced, a piece cut out or repeated, or all of it made up."""
    data = bytearray(good)
    for _ in range(int(rng.integers(1, 4))):
        start, end = sorted(int(place) for place in rng.integers(0, len(data) + 1, 2))
        kind = int(rng.integers(5))
        if kind == 0 and data:
            data[start % len(data)] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[start:end] = rng.bytes(end - start)
        elif kind == 2:
            del data[start:end]
        elif kind == 3:
            data[start:start] = data[start:end]
        elif rng.random() < 0.1:
            data = bytearray(rng.bytes(int(rng.integers(0, 2 * len(good) + 1))))
    return bytes(data)


def attack(decoder: Decoder, rng: np.random.Generator) -> None:
    data = damaged(decoder.good, rng)
    try:
        decoder.read(data)
    except decoder.refuses:
        pass
    except Exception as error:
        raise AssertionError(f"{type(error).__name__} on {data.hex()}: {error}") from error


@pytest.mark.parametrize("name", DECODERS)
def test_what_is_whole_is_read(name: str) -> None:
    DECODERS[name].read(DECODERS[name].good)


@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_reads_or_refuses_whatever_comes(name: str) -> None:
    rng = np.random.default_rng(7)
    for _ in range(1500):
        attack(DECODERS[name], rng)


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_a_decoder_reads_or_refuses_whatever_comes_in_a_minute(name: str) -> None:
    rng, end = np.random.default_rng(8), time.monotonic() + 60
    while time.monotonic() < end:
        attack(DECODERS[name], rng)


def test_a_damaged_file_of_keys_never_says_anything_else(tmp_path: Path) -> None:
    directory, rng = tmp_path / "keys", np.random.default_rng(9)
    store = keystore.Keystore.create(directory, "shuffler", b"secret")
    store.write({"sequence": 1, "keys": []})
    path, wanted = directory / keystore.FILE, store.read()
    good, refused = path.read_bytes(), 0
    for _ in range(1500):
        path.write_bytes(damaged(good, rng))
        try:
            # A space or a field that stands there twice changes nothing.
            assert store.read() == wanted
        except KeyringError:
            refused += 1
    assert refused > 1000
