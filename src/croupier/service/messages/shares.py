"""Shares: a report's counts in two uniform halves, neither of which says anything alone.

A device splits its counts c into a mask r, the expansion of a random seed, and c - r mod 2**32.
The shuffler gets the seed, the analyzer the rest, sealed. The analyzer says once which reports
opened, the shuffler adds up the masks of exactly these, once, and the two sums give the batch's
counts and nothing else. A count that stays open over several batches is masked until it closes:
the shuffler then releases one sum of its masks over all of them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from croupier.errors import RefusedError, SealError
from croupier.packing import MOST
from croupier.service.messages.sealing import BYTES, OVERHEAD, Binding, byte_rows, seal, unseal
from croupier.shuffler import Messages, Shapes
from croupier.wire import decode_words, encode_words

SEED = 32
REPORT, SHARE = "report", "share"
"""The channel that the shuffler permutes, seed and share together, and the one it releases."""

Words = NDArray[np.uint32]


def stored_shapes(size: int) -> Shapes:
    """What the shuffler holds of a report on ``size`` counts."""
    return {REPORT: ((1, SEED + _sealed_length(size)), BYTES)}


def released_shapes(size: int, users: int) -> Shapes:
    """What the analyzer gets of a batch."""
    return {SHARE: ((users, _sealed_length(size)), BYTES)}


def require_room(shapes: Shapes, users: Callable[[str], int]) -> None:
    """Counts of a channel's users must not wrap around; each is at most the number of its bits."""
    for name, (shape, _) in shapes.items():
        if users(name) * shape[0] > MOST:
            raise ValueError(
                f"users must keep the counts of {name!r} below 2**32, got {users(name)}"
            )


def share_report(tally: NDArray[np.int64], key: X25519PublicKey, binding: Binding) -> Messages:
    """A device's counts ``(size,)`` as the payload for the shuffler, the share sealed inside."""
    seed, share = split_counts(tally)
    sealed = seal(encode_words(share), key, binding.inner(SHARE))
    return {REPORT: byte_rows([seed + sealed], SEED + len(sealed))}


def split_counts(tally: NDArray[np.int64]) -> tuple[bytes, Words]:
    """A fresh seed, and the counts without its mask mod 2**32."""
    if tally.ndim != 1 or tally.size == 0 or tally.min() < 0 or tally.max() > MOST:
        raise ValueError(f"tally must be counts below 2**32, got {tally!r}")
    seed = secrets.token_bytes(SEED)
    return seed, tally.astype(np.uint32) - expand_seed(seed, tally.size)


def expand_seed(seed: bytes, size: int) -> Words:
    """The mask ``(size,)`` of a seed: the stream of AES-256-CTR from counter 0."""
    stream = Cipher(AES256(seed), CTR(bytes(16))).encryptor()
    return decode_words(stream.update(bytes(4 * size)), size)


def split_rows(rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Messages]:
    """Permuted payloads as the seeds ``(users, 32)`` that stay, and what is released."""
    return rows[:, :SEED], {SHARE: rows[:, SEED:]}


def open_shares(
    rows: NDArray[np.uint8], key: X25519PrivateKey, binding: Binding
) -> tuple[NDArray[np.bool_], Words]:
    """Which of the released rows ``(users, width)`` open, and the sum of their shares."""
    size = (rows.shape[1] - OVERHEAD) // 4
    info = binding.inner(SHARE)
    opened = np.zeros(len(rows), dtype=bool)
    total = np.zeros(size, np.uint32)
    for place, row in enumerate(rows):
        try:
            total += decode_words(unseal(row.tobytes(), key, info), size)
            opened[place] = True
        except SealError:
            continue
    return opened, total


def sum_masks(seeds: NDArray[np.uint8], opened: NDArray[np.bool_], size: int, least: int) -> Words:
    """The sum of the masks of the reports that opened; to be released once for a batch.

    Fewer than ``least`` are refused: an analyzer that claims that all but one did not open would
    read that one, and one that leaves out honest users takes their noise away.
    """
    if opened.shape != (len(seeds),):
        raise ValueError(f"opened must have {len(seeds)} flags, got {opened.shape}")
    count = int(opened.sum())
    if count < least:
        raise RefusedError(f"{count} of {len(seeds)} reports opened, at least {least} must")
    total = np.zeros(size, np.uint32)
    for seed in seeds[opened]:
        total += expand_seed(seed.tobytes(), size)
    return total


def join_sums(shares: Words, masks: Words) -> NDArray[np.int64]:
    """The batch's counts from the two sums, taken over the same reports."""
    return (shares + masks).astype(np.int64)


def _sealed_length(size: int) -> int:
    return 4 * size + OVERHEAD
