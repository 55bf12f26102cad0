"""The layout of arms with parameters of their own: a feature is zero outside one block.

Within its block a user's contribution is that of a light offset, and elsewhere it is zero, so that
neither data nor noise is there of two blocks together. Offsets differ between arms, which is why
models score them, and the entry of the offset alone counts the users of a block.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole
from croupier.layouts.base import Floats, Layout, Moments, symmetric
from croupier.layouts.light_offset import LightOffset


@dataclass(frozen=True)
class CountedOffset(LightOffset):
    """One block: its last entry, the offset's, says how many users chose it and is sent."""

    name: ClassVar[str] = "counted-offset"

    @cached_property
    def triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """All of it, row by row."""
        return np.triu_indices(self.summed)

    def decode(self, sums: Floats, users: int) -> Moments:
        """Moments of h, none of them known beforehand."""
        shrunk = sums / self.stretch
        matrix = symmetric(shrunk[..., self.summed :], self.triangle, self.summed)
        return Moments(shrunk[..., : self.summed] / self.length, matrix / self.length**2)


@dataclass(frozen=True)
class Blocks(Layout):
    """``blocks`` of equally many features, of which all but one are zero.

    ``constant`` is the index within a block, and the value, of an entry that is the same in every
    block. What is scored of a block is its other entries, and 1 for its offset. Coordinates are the
    vectors of all blocks, then the triangles of all blocks.
    """

    blocks: int = 2

    name: ClassVar[str] = "blocks"
    centre: ClassVar[float] = LightOffset.centre

    def __post_init__(self) -> None:
        """Blocks are as large as each other, and each fits a light offset."""
        if whole("dim", self.dim, 1) % whole("blocks", self.blocks, 2):
            raise ValueError(f"dim must be a multiple of {self.blocks} blocks, got {self.dim}")
        super().__post_init__()

    @cached_property
    def one(self) -> CountedOffset:
        """A block alone."""
        return CountedOffset(self.width, self.feature_norm, self.reward_range, self.constant)

    def _check_constant(self, index: int, value: float) -> None:
        """Left to the block that it is in."""

    @property
    def content(self) -> dict[str, Any]:
        """With their number."""
        return {**super().content, "blocks": self.blocks}

    @property
    def width(self) -> int:
        """Features of a block."""
        return self.dim // self.blocks

    # Features

    @property
    def free(self) -> int:
        """Entries of one block without its constant."""
        return self.one.scored

    @property
    def scored(self) -> int:
        """Those of all blocks with their offsets."""
        return self.blocks * self.one.summed

    @property
    def norm(self) -> float:
        """r of a block, its offset not counted."""
        return self.one.norm

    @property
    def length(self) -> float:
        """a of a block."""
        return self.one.length

    def own(self, features: Floats, name: str = "features") -> Floats:
        """The entries ``(..., width)`` of the one block that is not zero."""
        cut = self._cut(features)
        filled = (cut != 0).any(axis=-1).sum(axis=-1)
        if filled.size and not (filled == 1).all():
            found = int(filled[filled != 1].flat[0])
            raise ValueError(
                f"{name} must be zero outside one of {self.blocks} blocks of {self.width} entries "
                f"and not inside it, got {found} blocks that are not zero"
            )
        return np.take_along_axis(cut, _largest(cut), axis=-2)[..., 0, :]

    def score_features(self, features: Floats) -> Floats:
        """Of the largest block, whatever was checked before; zero in all others."""
        cut = self._cut(features)
        block = np.arange(self.blocks)[:, None] == _largest(cut)
        scored = np.concatenate([self.one.score_features(cut), np.ones(block.shape)], axis=-1)
        return np.where(block, scored, 0.0).reshape(*features.shape[:-1], self.scored)

    def placed(self, entries: Floats, block: int = 0) -> Floats:
        """What a model scores of free entries ``(..., free)`` in a block."""
        scored = np.zeros((*entries.shape[:-1], self.blocks, self.one.summed))
        scored[..., block, : self.free] = entries
        scored[..., block, self.free] = 1.0
        return scored.reshape(*entries.shape[:-1], self.scored)

    def _cut(self, features: Floats) -> Floats:
        return features.reshape(*features.shape[:-1], self.blocks, self.width)

    # Contributions

    @property
    def summed(self) -> int:
        """As many as are scored."""
        return self.scored

    @property
    def moment_norm(self) -> float:
        """Of h, in one block."""
        return self.one.moment_norm

    @property
    def units(self) -> Floats:
        """Of one block."""
        return self.one.units

    @property
    def entry_factors(self) -> Floats:
        """The offset is 1 where it is scored."""
        inside = np.append(np.ones(self.free), self.one.offset)
        return np.tile(inside, self.blocks)

    @property
    def sensitivity(self) -> float:
        """That of one block, since two users in different ones are closer (docs/guarantees.md)."""
        return self.one.sensitivity

    @property
    def worst_cosine(self) -> float:
        """Of two users in one block."""
        return self.one.worst_cosine

    @property
    def worst_rewards(self) -> tuple[float, float]:
        """Of these two."""
        return self.one.worst_rewards

    @property
    def largest_gain(self) -> float:
        """Of the only block."""
        return self.one.largest_gain

    @property
    def matrix_noise_factor(self) -> float:
        """In every block."""
        return self.one.matrix_noise_factor

    @cached_property
    def triangle(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Block by block: nothing is sent of two blocks together."""
        starts = self.one.summed * np.arange(self.blocks)[:, None]
        rows, columns = ((starts + places).ravel() for places in self.one.triangle)
        return rows, columns

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Those of a block with its number: ``b0.u0``, ..., ``b0.v0.0``, ..."""
        names = (tuple(f"b{block}.{label}" for label in self.one.labels) for block in self._every)
        return self._arranged(names)

    @property
    def _every(self) -> range:
        return range(self.blocks)

    def _arranged(self, rows: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Vectors of all blocks before their triangles, from a row ``(size of one,)`` a block."""
        listed, vector = list(rows), self.one.summed
        vectors = (value for row in listed for value in row[:vector])
        return (*vectors, *(value for row in listed for value in row[vector:]))

    def _repeated(self, row: Floats) -> Floats:
        """A row of one block for all of them."""
        return np.array(self._arranged(tuple(row.tolist()) for _ in self._every))

    @cached_property
    def stretch(self) -> Floats:
        """Of one block."""
        return self._repeated(self.one.stretch)

    @cached_property
    def whole_stretch(self) -> tuple[int, ...]:
        """Of one block."""
        return self._arranged(self.one.whole_stretch for _ in self._every)

    @cached_property
    def low(self) -> Floats:
        """Of one block."""
        return self._repeated(self.one.low)

    @cached_property
    def high(self) -> Floats:
        """Of one block."""
        return self._repeated(self.one.high)

    def encode(self, features: Floats, rewards: Floats) -> Floats:
        """Contributions ``(..., size)``, zero but for the own block's."""
        rows, columns = self.triangle
        entries = features * self.entry_factors
        vector = entries * (rewards - self.centre)[..., None]
        products = entries[..., rows] * entries[..., columns]
        return np.concatenate([vector, products], axis=-1) * self.stretch

    def decode(self, sums: Floats, users: int) -> Moments:
        """Moments with an axis of blocks: ``(..., blocks, p)`` and ``(..., blocks, p, p)``."""
        return self.one.decode(self._by_block(sums), users)

    def _by_block(self, sums: Floats) -> Floats:
        """``(..., size)`` as ``(..., blocks, size of one)``."""
        shape = (*sums.shape[:-1], self.blocks, -1)
        parts = sums[..., : self.summed], sums[..., self.summed :]
        return np.concatenate([part.reshape(shape) for part in parts], axis=-1)

    def products(self, features: Floats, gain: int) -> list[int]:
        """Of the block whose offset is scored, and zeros."""
        cut = features.reshape(self.blocks, self.one.summed)
        chosen = int(np.argmax(cut[:, -1]))
        none = (0,) * self.one.size
        own = tuple(self.one.products(cut[chosen, :-1], gain))
        return list(self._arranged(own if block == chosen else none for block in self._every))


def _largest(cut: Floats) -> NDArray[np.intp]:
    """The block ``(..., 1, 1)`` with the largest entry."""
    return np.asarray(np.abs(cut).max(axis=-1, keepdims=True).argmax(axis=-2, keepdims=True))
