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
LEAST_FIRST = 20


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
    def largest(self) -> int | None:
        """The size at which batches stop growing, None where they go on or never grow."""
        return None

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

    def users(self, start: int, stop: int) -> int:
        """Users of the batches from ``start`` up to ``stop``."""
        return sum(self.size(index) for index in range(start, stop))

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
        _require_fits(self.batch_size, self.horizon)

    @property
    def first(self) -> int:
        """Users of the first batch."""
        return self.batch_size

    def size(self, index: int) -> int:
        """The same for every batch."""
        return self.batch_size

    def users(self, start: int, stop: int) -> int:
        """As many times the size."""
        return (stop - start) * self.batch_size

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
        _require_fits(self.batch_size, self.horizon)

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
        return _grown(self.batch_size, index)


@dataclass(frozen=True)
class DoublingBatches(Listed):
    """B_{m+1} = 2 B_m, for very many users of one common arm set (MATH 6.5)."""

    name: ClassVar[str] = "doubling"
    exponent: ClassVar[float | None] = None

    def uncut(self, index: int) -> int:
        """The first size times 2^index."""
        return self.batch_size << index


@dataclass(frozen=True)
class CappedBatches(Schedule):
    """Batches that grow like ``growing`` up to ``most`` users and stay there.

    For preferences that drift: what is older than a batch is known less well (docs/math.md 6.5).
    """

    batch_size: int
    horizon: int
    most: int
    name: ClassVar[str] = "capped"
    exponent: ClassVar[float | None] = GROWTH

    def __post_init__(self) -> None:
        """The first batch must fit, and no later one be smaller."""
        _require_fits(self.batch_size, self.horizon)
        whole("most", self.most, self.batch_size)

    @property
    def first(self) -> int:
        """Users of the first batch."""
        return self.batch_size

    @property
    def largest(self) -> int | None:
        """As given."""
        return self.most

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        grown, users = [self.batch_size], self.batch_size
        while grown[-1] < self.most and users < self.horizon:
            grown.append(min(self.most, _grown(self.batch_size, len(grown))))
            users += grown[-1]
        return tuple(grown)

    def sizes(self) -> tuple[int, ...]:
        """Those that grow, and the one that all others have."""
        return self._sizes

    def size(self, index: int) -> int:
        """Users of batch ``index``."""
        return self._sizes[min(index, len(self._sizes) - 1)]

    def users(self, start: int, stop: int) -> int:
        """Users of the batches from ``start`` up to ``stop``."""
        return self._before(stop) - self._before(start)

    def _before(self, index: int) -> int:
        listed = min(index, len(self._sizes))
        return sum(self._sizes[:listed]) + (index - listed) * self._sizes[-1]

    @cached_property
    def batches(self) -> int:
        """As many as fit."""
        fit, last = 0, len(self._sizes)
        while fit < last and self._before(fit + 1) <= self.horizon:
            fit += 1
        return fit if fit < last else last + (self.horizon - self._before(last)) // self._sizes[-1]

    @property
    def unreleased(self) -> int:
        """What is left at the end."""
        return self.horizon - self._before(self.batches)


def drift_most(features: int, reach: float, noise_std: float, length: float, drift: float) -> int:
    """Users beyond which a batch learns less than drift takes away (docs/math.md 6.5)."""
    heard = noise_std * length * features / (2 * reach**2 * drift)
    most: float = 2 * heard ** (2 / 3)
    return math.ceil(most)


def growing_first(
    features: int,
    reach: float,
    noise_std: float,
    length: float,
    horizon: int | None,
    blocks: int = 1,
) -> int:
    """The first batch of a growing schedule for ``noise_std`` per batch (docs/regret.md).

    Large enough that the first model is worth something, at most a tenth of the horizon. Features
    have norm ``reach`` and with their offset ``length``, as the layout has them; where there are
    ``blocks``, they are those of one, and every block needs as many users.
    """
    scale = 4 * (features + 1)
    heard = scale / 8 + math.sqrt((scale / 8) ** 2 + scale * (noise_std * length) ** 2)
    wanted = max(LEAST_FIRST, math.ceil(blocks * heard * features / reach**2))
    return wanted if horizon is None else max(1, min(wanted, horizon // 10))


def _grown(first: int, index: int) -> int:
    """The first size times (index + 1)^1.5."""
    times: float = (index + 1) ** GROWTH
    return round(first * times)


def _require_fits(batch_size: int, horizon: int | None) -> None:
    """The first batch must fit the horizon, if there is one."""
    whole("batch_size", batch_size, 1)
    if horizon is not None and batch_size > whole("horizon", horizon, 1):
        raise ValueError(f"batch_size must be at most the horizon {horizon}, got {batch_size}")


SCHEDULES: dict[str, Callable[[int, int | None], Schedule]] = {
    GrowingBatches.name: GrowingBatches,
    DoublingBatches.name: DoublingBatches,
}


def schedule(name: str, first: int, horizon: int | None, most: int | None = None) -> Schedule:
    """The schedule called ``name`` from its first size, the horizon and its largest batch."""
    if name in (FixedBatches.name, CappedBatches.name) and horizon is None:
        raise ValueError(f"horizon must be given for {name} batches, got None")
    if name == CappedBatches.name:
        if most is None:
            raise ValueError("most must be given for capped batches, got None")
        return CappedBatches(first, horizon, most)  # type: ignore[arg-type]
    if most is not None:
        raise ValueError(f"most is that of capped batches, not of {name} ones, got {most!r}")
    if name == FixedBatches.name:
        return FixedBatches(first, horizon)  # type: ignore[arg-type]
    if name not in SCHEDULES:
        known = [FixedBatches.name, CappedBatches.name, *SCHEDULES]
        raise UnknownNameError("batch schedule", name, known)
    return SCHEDULES[name](first, horizon)
