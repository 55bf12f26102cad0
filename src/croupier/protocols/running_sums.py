"""What is known after each batch: which released sum is new, and what it is added to.

A prefix of batches is one that came before and one more released sum: the batch alone, a node of a
tree, or, where a server's noise is correlated, everything from the start. Whoever learns from sums
folds them in this way and need not know how a mechanism spreads its noise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
State = TypeVar("State")


@dataclass(frozen=True, eq=False)
class Part:
    """The released sum ``(..., size)`` of the batches ``start`` to ``stop`` and its noise variance.

    All batches before ``stop`` are those before ``start`` and these.
    """

    start: int
    stop: int
    sums: Floats
    variance: float


Ahead = tuple[Floats, Floats, NDArray[np.int64]]
"""Of parts that are to come: noise ``(parts, size)``, variance ``(parts,)``, first batch."""


class RunningSum(ABC):
    """Says which released sum is new after each batch."""

    @abstractmethod
    def part(self, index: int, sums: Floats) -> Part | None:
        """The sum that batch ``index`` completes; None if nothing is learnt from that batch."""

    @abstractmethod
    def starts(self, stop: int) -> Collection[int]:
        """The batches, up to ``stop``, with which a later part may start."""

    def ahead(self, fresh: Floats) -> Ahead | None:
        """Noise and variances of the next parts, and where these start.

        ``fresh (batches, k * size)`` is the noise that each batch adds to the k sums it is in.
        None where a part is not made of the sums of batches and noise that can be drawn ahead.
        """
        return None


class Correlated(RunningSum):
    """Noise of different prefixes has draws in common, so that only one prefix counts at a time."""

    def starts(self, stop: int) -> Collection[int]:
        """Always anew."""
        return (0,)


class Fold(Generic[State]):
    """A state after each batch, from parts; earlier states are kept while a part may need them."""

    def __init__(
        self, running: RunningSum, first: State, learn: Callable[[State, Part], State]
    ) -> None:
        self._running = running
        self._learn = learn
        self._before = {0: first}
        self.state = first

    def add(self, part: Part | None, stop: int) -> State:
        """The state after the batches before ``stop``, the last of which completed ``part``."""
        if part is not None:
            self.state = self._learn(self._before[part.start], part)
        known = {**self._before, stop: self.state}
        self._before = {start: known[start] for start in self._running.starts(stop)}
        return self.state


class PrefixSums:
    """Estimates of everything so far, and their noise variances."""

    def __init__(self, running: RunningSum, size: int) -> None:
        self._running = running
        first: tuple[Floats, float] = (np.zeros(size), 0.0)
        self._fold = Fold(running, first, _added)

    def add(self, index: int, sums: Floats) -> tuple[Floats, float]:
        """The estimate of everything up to batch ``index``, and its noise variance."""
        return self._fold.add(self._running.part(index, sums), index + 1)


def _added(before: tuple[Floats, float], part: Part) -> tuple[Floats, float]:
    return before[0] + part.sums, before[1] + part.variance
