"""What a helper reads and writes: strictly, with nothing kept, and opened as anywhere else."""

from __future__ import annotations

import io
import secrets
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from croupier.service.messages import unsealing
from croupier.service.messages.sealing import Binding, open_report, seal, seal_report
from croupier.service.messages.unsealing import (
    LONGEST,
    READY,
    DecryptJob,
    FrameError,
    encode_answer,
    encode_frame,
    serve,
)
from croupier.wire import Transport

KEY, OTHER = X25519PrivateKey.generate(), X25519PrivateKey.generate()
BINDING = Binding(Transport.BITS, "0f" * 16, 3, 2, "cd" * 32)
PATIENCE = 60.0
"""Seconds after which something that should happen has not."""


def report(payload: bytes, key: X25519PrivateKey = KEY, binding: Binding = BINDING) -> Any:
    name = secrets.token_bytes(16)
    return name, seal_report(payload, key.public_key(), binding, name)


def altered(reported: tuple[bytes, bytes], place: int) -> tuple[bytes, bytes]:
    name, sealed = reported
    return name, sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]


def job(*payloads: bytes) -> DecryptJob:
    return DecryptJob(KEY, BINDING.outer_prefix, [report(payload) for payload in payloads])


def mixed() -> DecryptJob:
    """Reports that open, and every way in which one does not."""
    good = [report(bytes([number]) * 9) for number in range(8)]
    elsewhere = Binding(Transport.BITS, "0f" * 16, 4, 2, "cd" * 32)
    bad = [
        report(bytes(9), key=OTHER),
        report(bytes(9), binding=elsewhere),
        (good[0][0], good[1][1]),
        *(altered(good[2], place) for place in (0, 31, 32, 40, 56)),
        (bytes(16), bytes(57)),
    ]
    return DecryptJob(KEY, BINDING.outer_prefix, [*good[:4], *bad, *good[4:]])


def test_a_job_opens_what_a_report_alone_does() -> None:
    name, sealed = report(b"payload")
    assert DecryptJob(KEY, BINDING.outer_prefix, [(name, sealed)]).open_reports() == [
        open_report(sealed, KEY, BINDING, name)
    ]
    found = mixed().open_reports()
    assert [one is None for one in found] == [False] * 4 + [True] * 9 + [False] * 4


def helped(*pieces: bytes) -> tuple[int, bytes]:
    """Exit code and output of a helper with this input."""
    done = subprocess.run(
        [sys.executable, unsealing.__file__],
        input=b"".join(pieces),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stderr == b""
    return done.returncode, done.stdout


def test_a_helper_ends_with_its_input() -> None:
    assert helped() == (0, encode_frame(READY))
    asked = mixed()
    wanted = encode_frame(READY) + encode_frame(encode_answer(asked))
    assert helped(encode_frame(asked.encode())) == (0, wanted)


GOOD = job(b"payload", b"another").encode()


@pytest.mark.parametrize(
    "last",
    [
        b"\1",
        encode_frame(GOOD)[:-1],
        encode_frame(GOOD[:-1]),
        encode_frame(GOOD + b"\0"),
        encode_frame(GOOD[:39]),
        encode_frame(READY),
        (LONGEST + 1).to_bytes(4, "little") + bytes(100),
        b"\xff" * 100,
    ],
    ids=["length", "cut", "short", "long", "head", "empty", "absurd", "ones"],
)
def test_a_helper_ends_at_once_with_what_is_no_job(last: bytes) -> None:
    """What it was asked before is answered."""
    code, said = helped(encode_frame(GOOD), last)
    assert (code, said) == (
        1,
        encode_frame(READY) + encode_frame(encode_answer(DecryptJob.decode(GOOD))),
    )


@pytest.mark.parametrize("sizes", [(0, 16, 47), (0, 0, 0), (9000, 16, 55), (116, 17, 55)])
def test_a_job_of_other_sizes_is_refused(sizes: Sequence[int]) -> None:
    packed = unsealing._SIZES.pack(*sizes)
    with pytest.raises(FrameError):
        DecryptJob.decode(GOOD[:32] + packed + GOOD[40:])


def test_a_job_is_read_as_it_was_written() -> None:
    asked = mixed()
    found = DecryptJob.decode(asked.encode())
    assert (found.prefix, found.reports) == (asked.prefix, asked.reports)
    assert found.key.private_bytes_raw() == KEY.private_bytes_raw()


def test_a_job_of_several_lengths_is_not_written() -> None:
    with pytest.raises(ValueError, match="reports of a job must have one length"):
        job(b"payload", b"payloads").encode()


class Watched(io.BytesIO):
    """Remembers what was read into."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.into: list[bytearray] = []

    def readinto(self, buffer: Any, /) -> int:
        self.into.append(buffer.obj)
        return super().readinto(buffer)


def test_a_helper_overwrites_the_key_of_a_job_that_is_done() -> None:
    source, sink = Watched(encode_frame(GOOD) + encode_frame(GOOD)), io.BytesIO()
    serve(source, sink)
    assert sink.getvalue() == encode_frame(READY) + 2 * encode_frame(
        encode_answer(DecryptJob.decode(GOOD))
    )
    bodies = [bytes(one) for one in source.into if len(one) == len(GOOD)]
    assert bodies == [bytes(32) + GOOD[32:]] * 2


def test_a_helper_imports_nothing_that_makes_it_large() -> None:
    code = f"import runpy, sys; runpy.run_path({unsealing.__file__!r}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"croupier", "numpy", "scipy", "asyncio"} & set(done.stdout.split())


def test_seals_of_the_helpers_suite_are_those_of_devices() -> None:
    sealed = seal(b"payload", KEY.public_key(), b"info")
    assert unsealing.open_seal(sealed, KEY, b"info") == b"payload"
    assert unsealing.open_seal(sealed, KEY, b"inf") is None
