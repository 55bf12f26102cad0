"""Messages as bytes: reports, uploaded records and released batches, of public length.

Integers are little-endian. Every length follows from shapes, which are public, so that it tells
nothing of the data. Decoders are strict: what an encoder would not have written is refused.
No cryptography and no input or output here; ``docs/wire.md`` has the layouts and test vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from croupier.errors import WireError
from croupier.packing import (
    BAD_VERSION,
    MALFORMED,
    WRONG_LENGTH,
    Channel,
    channels,
    decode_each,
    exact,
    fits,
    ordered,
    pack,
    packed_length,
    raw,
    sized,
    unpack,
)
from croupier.shuffler import Messages, Shapes

Counts = Mapping[str, int]
"""Channel of bits to how many are ones."""

VERSION = 1
PLAN_ID, MODEL_HASH, KEY_ID, REPORT_ID, ACCOUNT = 16, 32, 8, 16, 32
"""Bytes of each identifier."""

NO_KEY = bytes(KEY_ID)

_RECORD = struct.Struct(f"<BB{KEY_ID}sI{MODEL_HASH}s{REPORT_ID}s{ACCOUNT}s")
_BATCH = struct.Struct(f"<BB{PLAN_ID}sII{MODEL_HASH}s{KEY_ID}s")
_COUNT = struct.Struct("<Q")
_NO_BITS = np.zeros((0, 1), np.uint8)


class Transport(IntEnum):
    """How a report travels: bits that the shuffler reads, shares, or rows sealed inside."""

    BITS = 0
    SHARES = 1
    SEALED = 2


_TRANSPORTS = {one.value: one for one in Transport}


@dataclass(frozen=True)
class Record:
    """One upload. ``model_hash`` is in hex like ``Model.hash``, the other fields are bytes."""

    transport: Transport
    key_id: bytes
    batch: int
    model_hash: str
    report_id: bytes
    account: bytes
    sealed: bytes


@dataclass(frozen=True)
class BatchHeader:
    """What a released batch says of itself; ``key_id`` is that of the inner seals, if any."""

    transport: Transport
    plan_id: str
    batch: int
    users: int
    model_hash: str
    key_id: bytes = NO_KEY


def report_length(shapes: Shapes) -> int:
    """Bytes of every report of these shapes."""
    bits, others = _split(shapes)
    return packed_length(_count(bits)) + sum(one.length for one in others.values())


def encode_report(shapes: Shapes, messages: Messages) -> bytes:
    """All channels of bits packed together, then the other channels, each in order of shapes."""
    bits, others = _split(shapes)
    found = ordered(shapes, messages)
    packed = pack(np.concatenate([_NO_BITS, *(found[name] for name in bits)]))
    return packed + b"".join(one.encode(found[name]) for name, one in others.items())


def decode_report(shapes: Shapes, data: bytes) -> Messages:
    """The messages of one report; any deviation is a ``WireError``."""
    exact("report", data, report_length(shapes))
    bits, others = _split(shapes)
    end = packed_length(_count(bits))
    found = decode_each(others, data[end:])
    left = unpack(data[:end], _count(bits))[:, None]
    for name, one in bits.items():
        found[name], left = left[: one.rows], left[one.rows :]
    return {name: found[name] for name in shapes}


def _split(shapes: Shapes) -> tuple[dict[str, Channel], dict[str, Channel]]:
    """Channels of bits, and the others."""
    every = channels(shapes)
    bits = {name: one for name, one in every.items() if one.is_bits}
    return bits, {name: one for name, one in every.items() if not one.is_bits}


def _count(bits: dict[str, Channel]) -> int:
    return sum(channel.rows for channel in bits.values())


def record_length(sealed_length: int) -> int:
    """Bytes of one record."""
    return _RECORD.size + sealed_length


def encode_records(records: Sequence[Record]) -> bytes:
    """What a device uploads, one record after the other."""
    return b"".join(_encode_record(record) for record in records)


def decode_records(data: bytes, sealed_length: int | Callable[[int], int]) -> list[Record]:
    """At least one record; ``sealed_length`` may be a function of a record's batch.

    A report for an old batch of a growing plan has another length, and is told that it is stale
    only if it can be read.
    """
    records: list[Record] = []
    start = 0
    while start < len(data) or not records:
        record = _decode_record(data, start, sealed_length)
        records.append(record)
        start += _RECORD.size + len(record.sealed)
    return records


def replace_account(
    data: bytes, sealed_length: int | Callable[[int], int], account: bytes
) -> bytes:
    """The bytes of one record, no more and no less, under another account.

    For a gateway: the account stands beside what is sealed, and it knows whose record it is.
    """
    record = _decode_record(data, 0, sealed_length)
    exact("record", data, record_length(len(record.sealed)))
    return encode_records([replace(record, account=account)])


def _encode_record(record: Record) -> bytes:
    header = _RECORD.pack(
        VERSION,
        record.transport,
        sized("key_id", record.key_id, KEY_ID),
        fits("batch", record.batch),
        raw("model_hash", record.model_hash, MODEL_HASH),
        sized("report_id", record.report_id, REPORT_ID),
        sized("account", record.account, ACCOUNT),
    )
    return header + record.sealed


def _decode_record(data: bytes, start: int, sealed_length: int | Callable[[int], int]) -> Record:
    """The record at ``start``."""
    left = len(data) - start
    _at_least("record", left, _RECORD.size)
    version, number, key_id, batch, model_hash, report_id, account = _RECORD.unpack_from(
        data, start
    )
    transport = _transport(version, number)
    length = record_length(sealed_length(batch) if callable(sealed_length) else sealed_length)
    _at_least("record", left, length)
    sealed = data[start + _RECORD.size : start + length]
    return Record(transport, key_id, batch, model_hash.hex(), report_id, account, sealed)


def batch_shapes(shapes: Shapes, users: int) -> Shapes:
    """What ``users`` reports of these shapes look like together."""
    return {name: ((rows * users, width), kind) for name, ((rows, width), kind) in shapes.items()}


def encode_batch(header: BatchHeader, shapes: Shapes, messages: Messages) -> bytes:
    """A released batch: its header, then every channel by itself in the order of ``shapes``."""
    found = ordered(shapes, messages)
    parts = [one.encode(found[name]) for name, one in channels(shapes).items()]
    return _encode_header(header) + b"".join(parts)


def decode_batch(shapes: Shapes, data: bytes) -> tuple[BatchHeader, Messages]:
    """The header, and the rows ``(count, width)`` of the channels that this batch closes."""
    header = decode_batch_header(data)
    return header, decode_each(channels(shapes), data[_BATCH.size :])


def encode_counts(header: BatchHeader, shapes: Shapes, counts: Counts) -> bytes:
    """A released batch of bits: its header, then the ones of each channel in order of ``shapes``.

    A uniformly permuted channel of bits says its number of ones and nothing else.
    """
    if counts.keys() != shapes.keys():
        raise ValueError(f"counts must be for {list(shapes)}, got {list(counts)}")
    found = [_possible(name, shapes, counts[name]) for name in shapes]
    return _encode_header(header) + b"".join(_COUNT.pack(count) for count in found)


def decode_counts(shapes: Shapes, data: bytes) -> tuple[BatchHeader, Counts]:
    """The header, and the ones of the channels of bits that this batch closes."""
    header = decode_batch_header(data)
    exact("batch", data, counts_length(shapes))
    found = (count for (count,) in _COUNT.iter_unpack(data[_BATCH.size :]))
    return header, {name: _possible(name, shapes, next(found)) for name in shapes}


def _possible(name: str, shapes: Shapes, count: int) -> int:
    """A number of ones that the channel has bits for."""
    (most, _), _ = shapes[name]
    if not 0 <= count <= most:
        raise WireError(MALFORMED, f"ones of {name!r} must be 0 to {most}, got {count}")
    return count


def batch_length(shapes: Shapes) -> int:
    """Bytes of a released batch of these rows."""
    return _BATCH.size + sum(one.length for one in channels(shapes).values())


def counts_length(shapes: Shapes) -> int:
    """Bytes of a released batch of the counts of these rows."""
    return _BATCH.size + _COUNT.size * len(shapes)


def decode_batch_header(data: bytes) -> BatchHeader:
    """The header alone, from which the shapes of the rest follow."""
    _at_least("batch", len(data), _BATCH.size)
    version, number, plan_id, batch, users, model_hash, key_id = _BATCH.unpack_from(data)
    transport = _transport(version, number)
    return BatchHeader(transport, plan_id.hex(), batch, users, model_hash.hex(), key_id)


def _encode_header(header: BatchHeader) -> bytes:
    return _BATCH.pack(
        VERSION,
        header.transport,
        raw("plan_id", header.plan_id, PLAN_ID),
        fits("batch", header.batch),
        fits("users", header.users),
        raw("model_hash", header.model_hash, MODEL_HASH),
        sized("key_id", header.key_id, KEY_ID),
    )


def encode_flags(flags: NDArray[np.bool_]) -> bytes:
    """A yes or no per report of a batch, packed like bits."""
    return pack(flags.astype(np.uint8))


def decode_flags(data: bytes, count: int) -> NDArray[np.bool_]:
    """The ``count`` flags."""
    return unpack(data, count).astype(bool)


def encode_words(words: NDArray[np.uint32]) -> bytes:
    """32-bit words, as in a sum of shares."""
    return words.astype("<u4").tobytes()


def decode_words(data: bytes, count: int) -> NDArray[np.uint32]:
    """The ``count`` words."""
    exact("words", data, 4 * count)
    return np.frombuffer(data, "<u4").astype(np.uint32)


def _at_least(what: str, found: int, length: int) -> None:
    if found < length:
        raise WireError(WRONG_LENGTH, f"a {what} must have {length} bytes, got {found}")


def _transport(version: int, number: int) -> Transport:
    """The transport of the second byte, if the first is our version."""
    if version != VERSION:
        raise WireError(BAD_VERSION, f"version must be {VERSION}, got {version}")
    found = _TRANSPORTS.get(number)
    if found is None:
        raise WireError(MALFORMED, f"transport must be 0, 1 or 2, got {number}")
    return found
