"""The seam: what a protocol (or a baseline) is to everybody else.

A mechanism makes one ``Release`` per batch and says what the releases together are worth. A
baseline stops there. A shuffle protocol's releases also ``randomize`` on a device and ``analyze``
on the server, which makes it deployable.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import fraction, positive, whole
from croupier.errors import GuaranteeError, RefusedError
from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee
from croupier.protocols.collecting import Collector
from croupier.protocols.releases import (
    REAL_BITS,
    VIEWED_AT_ONCE,
    AdditiveRelease,
    Counted,
    Floats,
    Release,
    ShuffleRelease,
)
from croupier.protocols.running_sums import Ahead, Part, RunningSum
from croupier.schedules import Schedule
from croupier.theory.released import Scale

__all__ = [
    "REAL_BITS",
    "VIEWED_AT_ONCE",
    "AdditiveRelease",
    "Counted",
    "Floats",
    "FreshNoise",
    "Mechanism",
    "Part",
    "Protocol",
    "Release",
    "RunningSum",
    "ShuffleRelease",
    "Terms",
    "honest_users",
    "most_draws",
    "needed",
]


SPARE_DRAWS = 3


@dataclass(frozen=True)
class Terms:
    """What a calibration is asked for besides the budget.

    ``outside`` accepts a formula beyond its theorem's range, for pictures of what it would do.
    ``overhead`` is how much more noise than the Gaussian floor may be added to save bits;
    ``strategy`` names one of several ways of a mechanism, None its default. ``levels`` is the
    height of a tree of batches, None for its default and for mechanisms without one.
    """

    calibration: str
    max_participations: int = 1
    honest_fraction: float = 1.0
    outside: bool = False
    overhead: float = 0.05
    strategy: str | None = None
    levels: int | None = None

    def __post_init__(self) -> None:
        """Refuse terms that cannot be kept."""
        whole("max_participations", self.max_participations, 1)
        fraction("honest_fraction", self.honest_fraction)
        positive("overhead", self.overhead)
        if self.levels is not None:
            whole("levels", self.levels, 1)


class FreshNoise(RunningSum):
    """The default: every release brings its own noise, and is a part by itself."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._batches = 0

    def part(self, index: int, sums: Floats) -> Part:
        """The batch alone."""
        return Part(index, index + 1, sums, self._mechanism.release(index).noise_std ** 2)

    def starts(self, stop: int) -> tuple[int, ...]:
        """With the next batch."""
        return (stop,)

    def ahead(self, fresh: Floats) -> Ahead | None:
        """As it is."""
        batches = range(self._batches, self._batches + len(fresh))
        self._batches = batches.stop
        runs = self._mechanism.runs(batches)
        variances = np.concatenate([np.full(count, one.noise_std**2) for one, count in runs])
        return fresh, variances, np.array(batches)


@dataclass(frozen=True)
class Mechanism(ABC):
    """A private sum of bounded vectors per batch; knows nothing of bandits.

    ``releases`` has one entry per batch index, the last one serving all later batches.
    ``honest_fraction`` of a batch's users are assumed to add their noise and to keep their coins to
    themselves; guarantees rest on it. ``colluders`` is how many certainly do not, whatever that
    share: one where another user looks.
    """

    layout: Layout
    schedule: Schedule
    releases: tuple[Release, ...]
    honest_fraction: float = 1.0
    colluders: int = 0

    name: ClassVar[str]
    release_type: ClassVar[type[Release]]
    calibrations: ClassVar[tuple[str, ...]]
    takes_levels: ClassVar[bool] = False
    """Whether ``Terms.levels`` means anything to it."""
    publication: ClassVar[str] = "every"
    """The rule by which its models are published unless another is named."""
    trust: ClassVar[str] = "shuffle"
    """Which of a plan's guarantees its budget is about: shuffle, joint, local or none."""

    @classmethod
    @abstractmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """The mechanism that the named calibration gives for this budget."""

    @abstractmethod
    def guarantee(self, participations: int = 1) -> Guarantee:
        """Against the analyzer, for a user in that many batches."""

    @abstractmethod
    def local_guarantee(self, draws: int = 1) -> Guarantee:
        """Of so many reports of a user alone, against the shuffler and the network."""

    def joint_guarantee(self, participations: int = 1) -> Guarantee:
        """Against other users: the coalition that the plan is made for, and never less than one.

        They see models, which are post-processing, but they know their own data and coins.
        """
        return replace(self, colluders=1).guarantee(participations)

    def release(self, index: int) -> Release:
        """The public parameters of batch ``index``."""
        return self.releases[min(index, len(self.releases) - 1)]

    def running_sum(self, rng: np.random.Generator | None = None) -> RunningSum:
        """Which sums are new. ``rng`` is for baselines whose server draws the noise itself."""
        return FreshNoise(self)

    def covers(self, index: int) -> tuple[range, ...]:
        """The batches that each sum released with batch ``index`` adds up: that batch alone."""
        return (range(index, index + 1),)

    def sum_variances(self, index: int) -> tuple[float, ...]:
        """The noise variance of each sum that is released with batch ``index``."""
        return (self.release(index).noise_std ** 2,) * len(self.covers(index))

    def completed(self, batches: range) -> NDArray[np.int64]:
        """How many sums are released with each of these batches."""
        return np.ones(len(batches), dtype=np.int64)

    def runs(self, batches: range) -> Iterator[tuple[Release, int]]:
        """The releases of these batches in order, and how many in a row each one serves."""
        last = max(batches.start, len(self.releases) - 1)
        alone = range(batches.start, min(batches.stop, last))
        yield from ((self.release(index), 1) for index in alone)
        if last < batches.stop:
            yield self.release(last), batches.stop - last

    def collector(self, rng: np.random.Generator) -> Collector:
        """Simulates what is released, batch after batch."""
        return Collector(self, rng)

    def sample_view(
        self, pair: Floats, truth: int, batches: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        """What an audit reads off all releases ``(trials, features)``, the user in ``batches``.

        The coins of users who are not honest are known, so these users are left out. Batches of
        the same release are added up, which keeps all that a linear test can use.
        """
        parts: dict[int, Floats] = {}
        for index in range(batches):
            honest = replace(self.release(index), users=self.honest_users(index))
            seen = honest.sample_view(pair, truth, trials, rng)
            kind = min(index, len(self.releases) - 1)
            parts[kind] = parts[kind] + seen if kind in parts else seen
        return np.hstack(list(parts.values()))

    def largest_noise_variance(self, batches: int) -> float:
        """The largest noise variance of a prefix sum over the first ``batches`` releases."""
        listed = min(batches, len(self.releases))
        early = sum(self.release(index).noise_std ** 2 for index in range(listed))
        return early + (batches - listed) * self.release(listed).noise_std ** 2

    def formula(self, budget: Budget | None, terms: Terms) -> dict[str, float]:
        """The calibration's own numbers for the first batch, where rounding changed them."""
        return {}

    def noise_floor(self, budget: Budget | None, terms: Terms) -> float | None:
        """Noise on a first batch's sum below which no analysis can meet the budget, if known."""
        return None

    def words(self) -> dict[str, str]:
        """What people should know of it besides its parameters, by heading."""
        return {}

    def released_scale(self, budget: Budget | None) -> Scale:
        """The confidence scale of the authors' script for one batch's budget (MATH 8)."""
        raise GuaranteeError(f"{self.name} has no constants in the authors' script")

    def honest_users(self, index: int) -> int:
        """Users of batch ``index`` who are assumed to add their noise, at least the swapped one."""
        return honest_users(self.release(index).users, self.honest_fraction, self.colluders)

    @classmethod
    def restore(
        cls,
        layout: Layout,
        schedule: Schedule,
        releases: list[tuple[int, dict[str, Any]]],
        honest_fraction: float = 1.0,
    ) -> Self:
        """The mechanism with the given (users, parameters) per batch."""
        made = tuple(cls.release_type(layout, users, **own) for users, own in releases)
        return cls(layout, schedule, made, honest_fraction)


class Protocol(Mechanism):
    """A shuffle protocol: a mechanism whose releases devices and an analyzer can run."""

    release_type: ClassVar[type[ShuffleRelease]]

    def release(self, index: int) -> ShuffleRelease:
        """The public parameters of batch ``index``, with the device's and analyzer's parts."""
        release = super().release(index)
        if not isinstance(release, ShuffleRelease):
            raise TypeError(f"{self.name} must make ShuffleReleases, made {type(release).__name__}")
        return release

    def closing(self, index: int) -> frozenset[str] | None:
        """Channels that are released when batch ``index`` is complete; None for all of them.

        The other channels stay open, and the shuffler permutes them over all of their batches.
        """
        return None


def require_protocol(mechanism: Mechanism) -> Protocol:
    """The mechanism as one that can be deployed; a baseline is refused."""
    if not isinstance(mechanism, Protocol):
        raise RefusedError(f"{mechanism.name} is a baseline for simulations and cannot be deployed")
    return mechanism


def honest_users(users: int, honest_fraction: float, colluders: int = 0) -> int:
    """Of a batch: the honest share rounded down, without the colluders, with the swapped user."""
    return max(1, min(math.floor(honest_fraction * users), users - colluders))


def most_draws(participations: int) -> int:
    """Reports that a device ever makes: a batch may close before one arrives, then another is made.

    Every participation has one to spare, and a user three at least. Whoever answers as a shuffler
    can gather these and no more.
    """
    return participations + max(participations, SPARE_DRAWS)


def needed(budget: Budget | None, name: str) -> Budget:
    """The budget, or an error where a private mechanism was given none."""
    if budget is None:
        raise ValueError(f"epsilon and delta must be given for {name}, got None")
    return budget
