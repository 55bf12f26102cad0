"""Batch schedules: how many users each batch waits for, as a public function of its index."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from croupier.arguments import whole
from croupier.errors import UnknownNameError


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
    exponent: ClassVar[float]
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
    exponent: ClassVar[float] = 0.0

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


SCHEDULES: dict[str, Callable[[int, int], Schedule]] = {FixedBatches.name: FixedBatches}


def schedule(name: str, first: int, horizon: int) -> Schedule:
    """The schedule called ``name`` from its first size and the horizon."""
    if name not in SCHEDULES:
        raise UnknownNameError("batch schedule", name, SCHEDULES)
    return SCHEDULES[name](first, horizon)
