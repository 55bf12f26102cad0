"""The randomness of a device or a shuffler: bytes, and the few draws made of them.

A deployed role can only be given ``SystemCoins``. ``SeededCoins`` belong to tests.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from croupier.errors import MissingExtraError

if TYPE_CHECKING:
    from opendp.mod import Measurement


class Coins(ABC):
    """A source of fair bytes."""

    @abstractmethod
    def token(self, count: int) -> bytes:
        """``count`` uniform bytes."""

    def bits(self, count: int) -> int:
        """``count`` fair bits as one integer."""
        size = (count + 7) // 8
        return int.from_bytes(self.token(size), "little") >> (8 * size - count)

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` uniform 64-bit words."""
        return np.frombuffer(self.token(8 * count), dtype=np.uint64)

    def below(self, numerator: NDArray[np.uint64], power: int) -> NDArray[np.bool_]:
        """True with probability ``numerator / 2**power`` each, by integer comparison."""
        draws = self.words(numerator.size).reshape(numerator.shape) >> np.uint64(64 - power)
        return draws < numerator

    def permutation(self, count: int) -> NDArray[np.intp]:
        """A uniform permutation: the order of distinct random keys."""
        while True:
            keys = self.words(count)
            order = np.argsort(keys, kind="stable")
            # Equal keys would keep arrival order, so they are drawn again.
            if not np.any(np.diff(keys[order]) == 0):
                return order

    def normal(self, count: int) -> NDArray[np.float64]:
        """``count`` standard normals, by inversion of 52-bit uniforms; never privacy noise."""
        uniform = (self.words(count) >> np.uint64(12)).astype(np.float64) + 0.5
        return np.asarray(ndtri(uniform * 2.0**-52), dtype=np.float64)

    @abstractmethod
    def discrete_gaussian(self, scale: float, count: int) -> NDArray[np.int64]:
        """``count`` integers k with probability proportional to exp(-k^2 / (2 scale^2))."""


class SystemCoins(Coins):
    """The operating system's randomness."""

    def token(self, count: int) -> bytes:
        """``count`` bytes that nobody can predict or repeat."""
        return secrets.token_bytes(count)

    def discrete_gaussian(self, scale: float, count: int) -> NDArray[np.int64]:
        """OpenDP's exact sampler, which cannot be seeded (MATH 5).

        It rejects, so its time depends on its own draws; it is asked about zeros, so not on data.
        """
        return np.array(_gaussian_noise(scale)([0] * count), dtype=np.int64)


class SeededCoins(Coins):
    """Repeatable coins for tests; never give them to a device."""

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._generator = np.random.default_rng(seed)  # noqa: TID251 - repeatable on purpose

    def token(self, count: int) -> bytes:
        """``count`` bytes that follow from the seed."""
        return self._generator.bytes(count)

    def discrete_gaussian(self, scale: float, count: int) -> NDArray[np.int64]:
        """Rounded normals: close in law where ``scale`` is large, and repeatable."""
        return np.rint(scale * self.normal(count)).astype(np.int64)


@lru_cache(maxsize=16)
def _gaussian_noise(scale: float) -> Measurement:
    """The discrete Gaussian mechanism on vectors of integers."""
    try:
        import opendp.prelude as dp
    except ImportError as missing:
        raise MissingExtraError("opendp", "exact") from missing
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)
