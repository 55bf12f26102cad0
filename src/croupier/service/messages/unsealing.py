"""Opening seals, here or in a helper process that runs this file.

It imports nothing else of this package, so that a helper starts at once and stays small. A helper
reads jobs and writes answers in their order, each a frame, and ends with its input: whatever
becomes of the process that started it, it does not stay behind.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedIOBase, FileIO, RawIOBase
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)
"""The one suite that reports are sealed with."""

OVERHEAD = 48
"""Bytes that a seal adds: an X25519 point and a tag."""

LONGEST = 2**26
"""Bytes of the longest frame; one that claims more is not a frame."""

READY = b""
"""The first answer of a helper, before any job."""

_KEY = 32
_LENGTH = struct.Struct("<I")
_SIZES = struct.Struct("<HHI")
_START = _KEY + _SIZES.size

Stream = RawIOBase | BufferedIOBase


class FrameError(ValueError):
    """Bytes between a process and its helper that cannot be a job, an answer or a frame."""


def open_seal(sealed: bytes, key: X25519PrivateKey, info: bytes) -> bytes | None:
    """What was sealed, None if key, info or a single bit differ."""
    try:
        return SUITE.decrypt(sealed, key, info=info)
    except InvalidTag:
        return None


@dataclass(frozen=True)
class DecryptJob:
    """Reports for one key, each a name and a seal, all of one length.

    A seal's info is ``prefix`` and then the name.
    """

    key: X25519PrivateKey
    prefix: bytes
    reports: Sequence[tuple[bytes, bytes]]

    def open_reports(self) -> list[bytes | None]:
        """Every payload, None where a seal does not open."""
        return [open_seal(sealed, self.key, self.prefix + name) for name, sealed in self.reports]

    def encode(self) -> bytes:
        """The job as a helper reads it; with its key, so nothing to keep or to log."""
        lengths = {(len(name), len(sealed)) for name, sealed in self.reports}
        if len(lengths) != 1:
            raise ValueError(f"reports of a job must have one length, got {sorted(lengths)}")
        sizes = _SIZES.pack(len(self.prefix), *lengths.pop())
        pieces = (piece for report in self.reports for piece in report)
        return b"".join((self.key.private_bytes_raw(), sizes, self.prefix, *pieces))

    @classmethod
    def decode(cls, body: bytes | bytearray) -> DecryptJob:
        """A job of at least one report, with nothing left over."""
        view = memoryview(body)
        if len(view) < _START:
            raise FrameError(f"a job has at least {_START} bytes, got {len(view)}")
        prefix, name, sealed = _SIZES.unpack_from(view, _KEY)
        start, step = _START + prefix, name + sealed
        if sealed < OVERHEAD or len(view) <= start or (len(view) - start) % step:
            raise FrameError(f"no reports of {name} and {sealed} bytes fill {len(view)} bytes")
        key = X25519PrivateKey.from_private_bytes(view[:_KEY])
        places = range(start, len(view), step)
        reports = [(bytes(view[at:][:name]), bytes(view[at + name :][:sealed])) for at in places]
        return cls(key, bytes(view[_START:start]), reports)

    def read_answer(self, body: bytes) -> list[bytes | None]:
        """What a helper's answer says about every report."""
        step = 1 + len(self.reports[0][1]) - OVERHEAD
        if len(body) != step * len(self.reports) or not set(body[::step]) <= {0, 1}:
            raise FrameError(f"no answer for {len(self.reports)} reports, {len(body)} bytes")
        places = range(0, len(body), step)
        return [body[at + 1 : at + step] if body[at] else None for at in places]


def encode_answer(job: DecryptJob) -> bytes:
    """For each report whether it opened, and its payload or as many zeros."""
    nothing = bytes(1 + len(job.reports[0][1]) - OVERHEAD)
    return b"".join(nothing if one is None else b"\1" + one for one in job.open_reports())


# Frames


def encode_frame(body: bytes) -> bytes:
    """A body behind its length."""
    return _LENGTH.pack(len(body)) + body


def cut_frame(data: bytearray) -> bytes | None:
    """The first frame's body, taken out of the data; None while it is not complete."""
    if len(data) < _LENGTH.size:
        return None
    end = _LENGTH.size + _frame_length(data)
    if len(data) < end:
        return None
    body = bytes(data[_LENGTH.size : end])
    del data[:end]
    return body


def read_frame(source: Stream) -> bytearray | None:
    """The next frame's body, None at the end; an end within a frame is an error."""
    head = _read_bytes(source, _LENGTH.size)
    if not head:
        return None
    length = _frame_length(head)
    body = _read_bytes(source, length)
    if len(body) < length:
        raise FrameError(f"the input ended after {len(body)} of {length} bytes")
    return body


def _frame_length(head: bytearray) -> int:
    if len(head) < _LENGTH.size:
        raise FrameError(f"the input ended after {len(head)} bytes of a length")
    length: int = _LENGTH.unpack_from(head)[0]
    if length > LONGEST:
        raise FrameError(f"a frame has at most {LONGEST} bytes, got {length}")
    return length


def _read_bytes(source: Stream, count: int) -> bytearray:
    """So many bytes, fewer at the end; not through a buffer, in which a key would stay."""
    data, found = bytearray(count), 0
    with memoryview(data) as view:
        while found < count and (more := source.readinto(view[found:])):
            found += more
    del data[found:]
    return data


# The helper


def serve(source: Stream, sink: BinaryIO) -> None:
    """Say that we are ready, then answer jobs until there are no more."""
    sink.write(encode_frame(READY))
    sink.flush()
    while (body := read_frame(source)) is not None:
        sink.write(encode_frame(encode_answer(DecryptJob.decode(body))))
        sink.flush()
        body[:_KEY] = bytes(_KEY)


def main() -> None:
    """Answer the process that started us; its signals are not ours, its end is."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        serve(FileIO(0), sys.stdout.buffer)
    except (FrameError, OSError):
        os._exit(1)


if __name__ == "__main__":
    main()
