"""Rows of channels as bytes: packed bits and little-endian numbers, with strict decoding.

The part of ``croupier.wire`` that knows nothing of reports, records or batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.errors import WireError
from croupier.shuffler import Messages, Shapes

MOST = 2**32 - 1
"""Counts and indices are 32-bit."""

MOST_IN_A_BYTE = 255
"""So many bits add up in a byte."""

WRONG_LENGTH = "wrong-length"
BAD_PADDING = "bad-padding"
BAD_VERSION = "bad-version"
MALFORMED = "malformed"


@dataclass(frozen=True)
class Channel:
    """Shape and type of one channel's rows; one ``uint8`` per row is a bit."""

    rows: int
    width: int
    dtype: np.dtype[Any]

    @cached_property
    def is_bits(self) -> bool:
        """Whether eight rows share a byte."""
        return self.width == 1 and self.dtype == np.uint8

    @property
    def row_length(self) -> int:
        """Bytes of a row by itself."""
        return self.width * self.dtype.itemsize

    @property
    def length(self) -> int:
        """Bytes of all rows, when the channel stands alone."""
        return packed_length(self.rows) if self.is_bits else self.rows * self.row_length

    def encode(self, rows: NDArray[Any]) -> bytes:
        """The rows in order."""
        return pack(rows) if self.is_bits else self.plain(rows)

    def decode(self, data: bytes) -> NDArray[Any]:
        """The rows ``(rows, width)`` of exactly ``length`` bytes."""
        return unpack(data, self.rows)[:, None] if self.is_bits else self.from_plain(data)

    def plain(self, rows: NDArray[Any]) -> bytes:
        """Every number by itself, also bits."""
        return rows.astype(self.dtype.newbyteorder("<")).tobytes()

    def from_plain(self, data: bytes) -> NDArray[Any]:
        """The rows ``(count, width)`` of as many whole rows as there are."""
        numbers = np.frombuffer(data, self.dtype.newbyteorder("<"))
        return numbers.astype(self.dtype).reshape(-1, self.width)


def channels(shapes: Shapes) -> Mapping[str, Channel]:
    """The channels of a report or a batch, checked."""
    return _channels(tuple(shapes.items()))


@lru_cache(maxsize=64)
def _channels(shapes: tuple[tuple[str, tuple[tuple[int, ...], str]], ...]) -> Mapping[str, Channel]:
    """Asked for with every report, and the same for all of a batch."""
    return {name: _channel(name, shape, kind) for name, (shape, kind) in shapes}


def _channel(name: str, shape: tuple[int, ...], kind: str) -> Channel:
    dtype = np.dtype(kind)
    if len(shape) != 2 or shape[1] < 1 or dtype.kind not in "iuf":
        raise ValueError(f"shapes must be rows of numbers, got {shape} of {kind} for {name!r}")
    return Channel(fits(f"rows of {name!r}", shape[0]), shape[1], dtype)


def ordered(shapes: Shapes, messages: Messages) -> dict[str, NDArray[Any]]:
    """The rows in the order of ``shapes``, which they must follow."""
    if messages.keys() != shapes.keys():
        raise ValueError(f"messages must be for {list(shapes)}, got {list(messages)}")
    return {name: _checked(name, one, messages[name]) for name, one in channels(shapes).items()}


def _checked(name: str, channel: Channel, rows: NDArray[Any]) -> NDArray[Any]:
    if rows.shape != (channel.rows, channel.width) or rows.dtype != channel.dtype:
        raise ValueError(
            f"messages must have {channel.rows} rows of {channel.width} {channel.dtype} for "
            f"{name!r}, got {rows.shape} of {rows.dtype}"
        )
    return rows


def decode_each(parts: Mapping[str, Channel], data: bytes) -> dict[str, NDArray[Any]]:
    """One channel after the other, each by itself."""
    exact("rows", data, sum(channel.length for channel in parts.values()))
    found, start = {}, 0
    for name, channel in parts.items():
        found[name] = channel.decode(data[start : start + channel.length])
        start += channel.length
    return found


def packed_length(count: int) -> int:
    """Bytes of ``count`` bits."""
    return -(-count // 8)


def count_ones(payloads: Sequence[bytes], count: int) -> NDArray[np.int64]:
    """How many of the payloads, each of ``count`` packed bits, have a one at each place.

    Payloads are never read one by one; what ``unpack`` refuses in any of them is refused.
    """
    for payload in payloads:
        exact("bits", payload, packed_length(count))
    together = np.frombuffer(b"".join(payloads), np.uint8).reshape(
        len(payloads), packed_length(count)
    )
    if count % 8 and np.any(together[:, -1] >> count % 8):
        raise WireError(BAD_PADDING, f"the last byte has bits set beyond the {count} that count")
    ones = np.zeros(count, np.int64)
    for start in range(0, len(together), MOST_IN_A_BYTE):
        few = together[start : start + MOST_IN_A_BYTE]
        bits = np.unpackbits(few, axis=1, count=count, bitorder="little")
        ones += bits.sum(axis=0, dtype=np.uint8)
    return ones


def pack(bits: NDArray[np.uint8]) -> bytes:
    """Eight to a byte, the first in the lowest bit."""
    if bits.size and bits.max() > 1:
        raise ValueError(f"messages must hold bits in a channel of bits, got {bits.max()}")
    return np.packbits(bits, axis=None, bitorder="little").tobytes()


def unpack(data: bytes, count: int) -> NDArray[np.uint8]:
    """The bits ``(count,)``; those that fill up the last byte must be 0."""
    exact("bits", data, packed_length(count))
    if count % 8 and data[-1] >> count % 8:
        raise WireError(BAD_PADDING, f"the last byte has bits set beyond the {count} that count")
    return np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little")


def exact(what: str, data: bytes, length: int) -> None:
    """Refuse anything longer or shorter."""
    if len(data) != length:
        raise WireError(WRONG_LENGTH, f"the {what} must have {length} bytes, got {len(data)}")


def fits(name: str, value: int) -> int:
    """A count or index of 32 bits."""
    if not 0 <= value <= MOST:
        raise WireError(MALFORMED, f"{name} must fit in 32 bits, got {value}")
    return int(value)


def sized(name: str, value: bytes, size: int) -> bytes:
    """An identifier of ``size`` bytes."""
    if len(value) != size:
        raise ValueError(f"{name} must have {size} bytes, got {len(value)}")
    return value


def raw(name: str, digits: str, size: int) -> bytes:
    """The ``size`` bytes behind hex digits."""
    try:
        value = bytes.fromhex(digits)
    except ValueError:
        value = b""
    if value.hex() != digits or len(value) != size:
        raise ValueError(f"{name} must be {2 * size} lower-case hex digits, got {digits!r}")
    return value
