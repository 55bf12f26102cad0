"""Batch schedules: how many users each batch waits for, as a public function of its index."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from croupier.arguments import whole
from croupier.errors import UnknownNameError

MOST_BATCHES = 64
"""Batches of a schedule that grows; 64 growing ones hold 13,000 times the first."""

MOST_USERS = 10**8
GROWTH = 1.5


@dataclass(frozen=True)
class Span:
    """Rounds ``start`` up to ``stop`` of batch ``index``; ``complete`` if it is released."""

    index: int
    start: int
    stop: int
    complete: bool


class Schedule(ABC):
    """Sizes of batches 0, 1, ...; they may depend on the index, never on data."""

    name: ClassVar[str]
    exponent: ClassVar[float | None]
    """Sizes grow like this power of the index; None where they grow faster than any."""
    horizon: int | None
    """Rounds in all, None where the schedule runs for ever."""

    @property
    @abstractmethod
    def first(self) -> int:
        """Users of the first batch."""

    @abstractmethod
    def size(self, index: int) -> int:
        """Users of batch ``index``."""

    @abstractmethod
    def sizes(self) -> tuple[int, ...]:
        """Sizes of batches 0, 1, ...; the last one listed serves all later batches."""

    @property
    def rounds(self) -> int:
        """The horizon, or an error where there is none."""
        if self.horizon is None:
            raise ValueError(f"horizon must be given, got a {self.name!r} schedule without one")
        return self.horizon

    def spans(self) -> Iterator[Span]:
        """The batches of the horizon; a last one that stays short is not complete."""
        start, index = 0, 0
        while start < self.rounds:
            stop = min(start + self.size(index), self.rounds)
            yield Span(index, start, stop, complete=stop - start == self.size(index))
            start, index = stop, index + 1

    @property
    def unreleased(self) -> int:
        """Rounds at the end whose batch stays open."""
        return sum(span.stop - span.start for span in self.spans() if not span.complete)

    @property
    def batches(self) -> int:
        """Batches released within the horizon."""
        return sum(span.complete for span in self.spans())


@dataclass(frozen=True)
class FixedBatches(Schedule):
    """Every batch has ``batch_size`` users; 1 is the sequential algorithm."""

    batch_size: int
    horizon: int
    name: ClassVar[str] = "fixed"
    exponent: ClassVar[float | None] = 0.0

    def __post_init__(self) -> None:
        """A batch must fit the horizon."""
        whole("batch_size", self.batch_size, 1)
        whole("horizon", self.horizon, 1)
        if self.batch_size > self.horizon:
            raise ValueError(
                f"batch_size must be at most the horizon {self.horizon}, got {self.batch_size}"
            )

    @property
    def first(self) -> int:
        """Users of the first batch."""
        return self.batch_size

    def size(self, index: int) -> int:
        """The same for every batch."""
        return self.batch_size

    def sizes(self) -> tuple[int, ...]:
        """One size says it all."""
        return (self.batch_size,)

    @property
    def unreleased(self) -> int:
        """T mod B."""
        return self.horizon % self.batch_size

    @property
    def batches(self) -> int:
        """M = T / B, rounded down."""
        return self.horizon // self.batch_size


@dataclass(frozen=True)
class Listed(Schedule):
    """A schedule whose sizes grow: all of them are listed, and the list is the plan's life.

    With a horizon the last batch is cut to what is left; without one the list ends with 64
    batches or a hundred million users.
    """

    batch_size: int
    horizon: int | None = None

    def __post_init__(self) -> None:
        """The first batch must fit."""
        whole("batch_size", self.batch_size, 1)
        if self.horizon is not None and self.batch_size > whole("horizon", self.horizon, 1):
            raise ValueError(
                f"batch_size must be at most the horizon {self.horizon}, got {self.batch_size}"
            )

    @abstractmethod
    def uncut(self, index: int) -> int:
        """The size of batch ``index`` were there no horizon."""

    @property
    def first(self) -> int:
        """Users of the first batch."""
        return self.batch_size

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        sizes: list[int] = []
        left = self.horizon
        while len(sizes) < MOST_BATCHES and sum(sizes) < MOST_USERS and left != 0:
            wanted = self.uncut(len(sizes))
            sizes.append(wanted if left is None else min(wanted, left))
            left = None if left is None else left - sizes[-1]
        if left:
            raise ValueError(
                f"horizon must be at most {sum(sizes)}, the users of {len(sizes)} batches, "
                f"got {self.horizon}"
            )
        return tuple(sizes)

    def sizes(self) -> tuple[int, ...]:
        """Every batch of the plan."""
        return self._sizes

    def size(self, index: int) -> int:
        """Users of batch ``index``; there is none after the last."""
        if not 0 <= index < len(self._sizes):
            raise ValueError(f"index must be below {len(self._sizes)}, got {index}")
        return self._sizes[index]

    @property
    def rounds(self) -> int:
        """Users of all batches."""
        return sum(self._sizes)

    @property
    def unreleased(self) -> int:
        """None: the last batch is cut to fit."""
        return 0

    @property
    def batches(self) -> int:
        """As many as are listed."""
        return len(self._sizes)


@dataclass(frozen=True)
class GrowingBatches(Listed):
    """B_m = round(B_1 m^1.5): the paper's rate without knowing the horizon (MATH 6.5)."""

    name: ClassVar[str] = "growing"
    exponent: ClassVar[float | None] = GROWTH

    def uncut(self, index: int) -> int:
        """The first size times (index + 1)^1.5."""
        grown: float = (index + 1) ** GROWTH
        return round(self.batch_size * grown)


@dataclass(frozen=True)
class DoublingBatches(Listed):
    """B_{m+1} = 2 B_m, for very many users of one common arm set (MATH 6.5)."""

    name: ClassVar[str] = "doubling"
    exponent: ClassVar[float | None] = None

    def uncut(self, index: int) -> int:
        """The first size times 2^index."""
        return self.batch_size << index


def growing_first(
    dim: int, noise_std: float, horizon: int | None, matrix_noise: float = 1.0
) -> int:
    """The first batch of a growing schedule for ``noise_std`` per batch (MATH 6.5).

    Large enough that the first model is worth something, at most a tenth of the horizon.
    ``matrix_noise`` is 1/w, the noise of the gram matrix for noise 1 per coordinate.
    """
    spread = (1 + matrix_noise**2 / 2) * noise_std**2
    wanted = max(20, math.ceil(dim**2 / 2 * (1 + math.sqrt(1 + 16 * spread / dim))))
    return wanted if horizon is None else max(1, min(wanted, horizon // 10))


SCHEDULES: dict[str, Callable[[int, int | None], Schedule]] = {
    GrowingBatches.name: GrowingBatches,
    DoublingBatches.name: DoublingBatches,
}


def schedule(name: str, first: int, horizon: int | None) -> Schedule:
    """The schedule called ``name`` from its first size and the horizon."""
    if name == FixedBatches.name:
        if horizon is None:
            raise ValueError("horizon must be given for fixed batches, got None")
        return FixedBatches(first, horizon)
    if name not in SCHEDULES:
        raise UnknownNameError("batch schedule", name, [FixedBatches.name, *SCHEDULES])
    return SCHEDULES[name](first, horizon)
