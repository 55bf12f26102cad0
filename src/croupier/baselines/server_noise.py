"""How a trusted server adds noise: to nodes of a tree, to all prefixes, or batch by batch."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from croupier.privacy.central import (
    fresh_sensitivity,
    fresh_variance,
    toeplitz_coefficients,
    toeplitz_sensitivity,
    toeplitz_variance,
    toeplitz_variances,
    tree_sensitivity,
    tree_variance,
)
from croupier.protocols.base import Floats, Part, RunningSum
from croupier.protocols.running_sums import Ahead, Correlated

DRAWN_AT_ONCE = 2**21
"""Numbers of fresh noise that are turned into prefix noise at once."""


class ServerNoise(RunningSum):
    """Every batch completes a sum, with noise that the server draws."""

    @abstractmethod
    def part(self, index: int, sums: Floats) -> Part:
        """The sum with its noise."""


@dataclass(frozen=True)
class Node:
    """A complete subtree: its exact sum and the noise it got once and keeps."""

    exact: Floats
    noise: Floats


class TreeSum(Correlated, ServerNoise):
    """The streaming binary tree: step t adds up one node per set bit of t (Chan, Shi, Song)."""

    def __init__(self, sigma: float, rng: np.random.Generator) -> None:
        self._sigma = sigma
        self._rng = rng
        self.nodes: dict[int, Node] = {}
        """Complete nodes that make up the present prefix, by level."""
        self._steps = 0
        self._prefixes: dict[int, Floats] = {}
        """Noise of the last prefix whose last set bit is the key."""

    def part(self, index: int, sums: Floats) -> Part:
        """Close the node that step ``index`` completes, with fresh noise, and add up the prefix."""
        step = index + 1
        level = (step & -step).bit_length() - 1
        exact = sums + sum(self.nodes.pop(lower).exact for lower in range(level))
        noise = self._rng.normal(0.0, self._sigma, sums.shape)
        self.nodes[level] = Node(exact, noise)
        self._steps = step
        prefix = sum(node.exact + node.noise for node in self.nodes.values())
        return Part(0, step, np.asarray(prefix), len(self.nodes) * self._sigma**2)

    def ahead(self, fresh: Floats) -> Ahead | None:
        """The noise of each further prefix: that of the node it closes, and of those before it."""
        noise = self._rng.standard_normal(fresh.shape)
        noise *= self._sigma
        steps, last = np.arange(self._steps + 1, self._steps + 1 + len(fresh)), {}
        # Without its last set bit a step is the prefix before the node that it closes, and the
        # last set bit of that one is higher.
        for bit in (1 << level for level in reversed(range(int(steps[-1]).bit_length()))):
            place = (bit - int(steps[0])) % (2 * bit)
            rows = noise[place :: 2 * bit]
            if len(rows) == 0:
                continue
            before = int(steps[place]) - bit
            if before <= self._steps:
                rows[0] += self._prefixes.get(before & -before, 0.0)
                rows, place = rows[1:], place + 2 * bit
            rows += noise[place - bit :: 2 * bit][: len(rows)]
            last[bit] = (
                noise[place :: 2 * bit][-1].copy() if len(rows) else noise[place - 2 * bit].copy()
            )
        self._prefixes |= last
        self._steps += len(fresh)
        variances = np.bitwise_count(steps) * self._sigma**2
        return noise, variances, np.zeros(len(fresh), dtype=np.int64)


class FreshSum(ServerNoise):
    """Every batch with noise of its own, and published once."""

    def __init__(self, sigma: float, rng: np.random.Generator) -> None:
        self._sigma = sigma
        self._rng = rng
        self._batches = 0

    def part(self, index: int, sums: Floats) -> Part:
        """The batch alone."""
        noise = self._rng.normal(0.0, self._sigma, sums.shape)
        return Part(index, index + 1, sums + noise, self._sigma**2)

    def starts(self, stop: int) -> tuple[int, ...]:
        """With the next batch."""
        return (stop,)

    def ahead(self, fresh: Floats) -> Ahead | None:
        """Drawn batch by batch."""
        noise = self._rng.standard_normal(fresh.shape)
        noise *= self._sigma
        first = self._batches
        self._batches += len(fresh)
        return noise, np.full(len(fresh), self._sigma**2), np.arange(first, self._batches)


class ToeplitzSum(Correlated, ServerNoise):
    """The square root: prefix noise at step t is sum_k c_k z_(t-k), z fresh at every step.

    The noise of all ``steps`` is drawn with the first sum, whose shape it has, and kept.
    """

    def __init__(self, sigma: float, steps: int, rng: np.random.Generator) -> None:
        self._steps = steps
        self._sigma = sigma
        self._rng = rng
        self._variances = sigma**2 * toeplitz_variances(steps)
        self._exact: Floats | float = 0.0
        self._noise: Floats | None = None
        self._done = 0

    def part(self, index: int, sums: Floats) -> Part:
        """The exact sum so far with this step's noise."""
        if not 0 <= index < self._steps:
            raise ValueError(f"index must be below the {self._steps} steps planned, got {index}")
        self._exact = self._exact + sums
        noise = self._drawn(sums.size)[index].reshape(sums.shape)
        total = np.asarray(self._exact + noise)
        return Part(0, index + 1, total, float(self._variances[index]))

    def ahead(self, fresh: Floats) -> Ahead | None:
        """The noise of further steps, which is drawn already."""
        steps = slice(self._done, self._done + len(fresh))
        self._done = steps.stop
        starts = np.zeros(len(fresh), dtype=np.int64)
        return self._drawn(fresh.shape[1])[steps], self._variances[steps], starts

    def _drawn(self, width: int) -> Floats:
        if self._noise is None:
            self._noise = _rooted_noise(self._sigma, self._steps, width, self._rng)
        return self._noise


def _rooted_noise(sigma: float, steps: int, width: int, rng: np.random.Generator) -> Floats:
    """The root times fresh noise ``(steps, width)``, a few columns at a time to save memory."""
    length = next_fast_len(2 * steps - 1, real=True)
    root = rfft(sigma * toeplitz_coefficients(steps), length)
    rooted = np.empty((steps, width))
    for columns in np.array_split(np.arange(width), math.ceil(steps * width / DRAWN_AT_ONCE)):
        fresh = np.ascontiguousarray(rng.standard_normal((steps, columns.size)).T)
        for row in fresh:  # one by one, a transform stays in a processor's own memory
            row[:] = irfft(root * rfft(row, length), length)[:steps]
        rooted[:, columns] = fresh.T
    return rooted


@dataclass(frozen=True)
class Strategy:
    """A way to add noise to prefix sums: how far a user moves it, and its noise per unit."""

    method: str
    sensitivity: Callable[[int, int], float]
    """From steps and participations, in units of one swap."""
    variance: Callable[[int], float]
    """The largest of a prefix, from steps, for unit noise."""
    running: Callable[[float, int, np.random.Generator], ServerNoise]
    """From sigma, steps and the server's randomness."""


STRATEGIES = {
    "toeplitz": Strategy(
        "exact Gaussian square-root factorisation (MATH 3)",
        toeplitz_sensitivity,
        toeplitz_variance,
        ToeplitzSum,
    ),
    "tree": Strategy(
        "exact Gaussian binary tree (MATH 3)",
        tree_sensitivity,
        tree_variance,
        lambda sigma, _, rng: TreeSum(sigma, rng),
    ),
    "fresh": Strategy(
        "exact Gaussian, one release a batch",
        fresh_sensitivity,
        fresh_variance,
        lambda sigma, _, rng: FreshSum(sigma, rng),
    ),
}
