"""The seam: what a protocol (or a baseline) is to everybody else.

A mechanism makes one ``Release`` per batch and says what the releases together are worth. A
baseline stops there. A shuffle protocol's releases also ``randomize`` on a device and ``analyze``
on the server, which makes it deployable.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import fraction, positive, whole
from croupier.coins import Coins, SeededCoins
from croupier.contribution import Layout
from croupier.errors import GuaranteeError
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee
from croupier.protocols.collecting import Collector
from croupier.protocols.rounding import Rounding
from croupier.shuffler import Messages, gather, shuffle
from croupier.theory.released import Scale
from croupier.theory.schedules import Schedule

Floats = NDArray[np.float64]

Counted = int | NDArray[np.int64]
"""Reports behind a tally: one number for all of its counts, or one for each."""

REAL_BITS = 64
"""Bits of one real number in a report."""

VIEWED_AT_ONCE = 2**18
"""Numbers that a simulated view holds in memory at once."""


@dataclass(frozen=True)
class Release(ABC):
    """The public parameters of one batch sum; further fields are the mechanism's own."""

    layout: Layout
    users: int

    @property
    def parameters(self) -> dict[str, Any]:
        """The mechanism's own parameters, as plain values."""
        return {field.name: getattr(self, field.name) for field in fields(self)[2:]}

    @property
    def report_bits(self) -> int:
        """Bits that one user sends."""
        return REAL_BITS * self.layout.size

    @property
    @abstractmethod
    def privacy_noise_std(self) -> float:
        """Noise added for privacy on one coordinate of the batch sum."""

    @property
    def noise_std(self) -> float:
        """All noise on one coordinate of the batch sum, worst-case rounding included."""
        return self.privacy_noise_std

    @abstractmethod
    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """Released sums ``(..., size)`` of contributions ``(..., users, size)``.

        Where sums are released of several batches together, the part of each that is this batch's.
        """

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats | None:
        """What some users ``(..., any, size)`` add to the batch; such parts add up.

        None where only a whole batch can be sampled. With parts a simulated batch may be of any
        size: ``finish`` of all of them must have the law of ``sample_sum``.
        """
        return None

    def finish(self, added: Floats, rng: np.random.Generator) -> Floats:
        """Released sums ``(..., size)`` from the parts of all users, added up."""
        raise NotImplementedError(f"{type(self).__name__} has parts but does not finish them")

    def noise_ahead(self, count: int, rng: np.random.Generator) -> Floats | None:
        """Noise ``(count, k * size)`` of as many batches; None where it depends on the data.

        It is that of ``finish``: what ``roundings`` do to contributions one by one comes on top.
        """
        return None

    @property
    def rounding(self) -> float | None:
        """Steps per unit above ``low`` to which contributions are rounded at random, if any."""
        return None

    @property
    def roundings(self) -> tuple[Rounding, ...]:
        """The same for each of k sums that users are in, or where more happens than rounding.

        A user's roundings are drawn sum by sum, one number a coordinate.
        """
        return () if self.rounding is None else (Rounding(self.rounding, self.users),)

    def sample_view(
        self, pair: Floats, truth: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        """What an audit reads off this batch, ``(trials, features)`` (MATH 7.5).

        One user has the contribution ``pair[truth]`` and all others that of phi = 0. The default
        is for views that say no more than the released sum.
        """
        batch = np.zeros((self.users, self.layout.size))
        batch[0] = pair[truth]
        chunk = max(1, VIEWED_AT_ONCE // batch.size)
        counts = (min(chunk, trials - start) for start in range(0, trials, chunk))
        drawn = [self.sample_sum(np.broadcast_to(batch, (n, *batch.shape)), rng) for n in counts]
        return np.concatenate(drawn)


class ShuffleRelease(Release):
    """A release that devices and an analyzer can run."""

    @abstractmethod
    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        """One user's messages: a fixed number of rows per channel, without identity."""

    @abstractmethod
    def analyze(self, messages: Messages) -> Floats:
        """The unbiased batch sum ``(size,)`` from permuted messages, blind to their order."""

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The real path: randomize, shuffle, analyze. Shortcuts must keep its law."""
        coins = SeededCoins(np.random.SeedSequence(int(rng.integers(2**63))))
        batches = contributions.reshape(-1, *contributions.shape[-2:])
        sums = [self.run(batch, coins) for batch in batches]
        return np.array(sums).reshape(*contributions.shape[:-2], self.layout.size)

    def run(self, contributions: Floats, coins: Coins) -> Floats:
        """Devices, shuffler and analyzer on the contributions ``(users, size)`` of one batch."""
        reports = [self.randomize(row, coins) for row in contributions]
        return self.analyze(shuffle(gather(reports), coins))


class AdditiveRelease(ShuffleRelease):
    """A release whose analysis only needs whole numbers that add up over users.

    Such reports can be split into shares, so that nothing but their sum is ever seen. A count is
    released when its channel closes, added up over all batches that the channel was open in.
    """

    @property
    def counted(self) -> tuple[str, ...]:
        """The channel that each count of a report's tally is of, in order."""
        return self.layout.labels

    @abstractmethod
    def tally(self, messages: Messages) -> NDArray[np.int64]:
        """What is counted ``(counts,)``, of one report or of many; adds up over users.

        Where only some channels are there, as when they close, the counts of these in order.
        """

    @abstractmethod
    def settle(self, tally: NDArray[np.int64], users: Counted) -> Floats:
        """The unbiased sums from the tally of ``users`` reports, of each count where they differ.

        The tally is of the channels that close together.
        """

    def analyze(self, messages: Messages) -> Floats:
        """Count, then take off what noise and shift put in."""
        return self.settle(self.tally(messages), self.users)


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


class RunningSum(ABC):
    """Prefix estimates from batch releases."""

    @abstractmethod
    def add(self, index: int, sums: Floats) -> tuple[Floats, float]:
        """The estimate of everything up to batch ``index``, and its noise variance."""

    def ahead(self, fresh: Floats) -> tuple[Floats, Floats] | None:
        """Noise ``(batches, size)`` and variance ``(batches,)`` of the next prefixes.

        ``fresh (batches, k * size)`` is the noise that each batch adds to the k sums it is in.
        None where a prefix is not made of the sums of batches and noise that can be drawn ahead.
        """
        return None


class FreshNoise(RunningSum):
    """The default: every release brings its own noise, so variances add up."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._total: Floats | float = 0.0
        self._variance = 0.0
        self._batches = 0

    def add(self, index: int, sums: Floats) -> tuple[Floats, float]:
        """The sum so far and the sum of the variances."""
        self._total = self._total + sums
        self._variance += self._mechanism.release(index).noise_std ** 2
        return np.asarray(self._total), self._variance

    def ahead(self, fresh: Floats) -> tuple[Floats, Floats] | None:
        """Everything so far and each further batch."""
        runs = self._mechanism.runs(range(self._batches, self._batches + len(fresh)))
        variances = np.concatenate([np.full(count, one.noise_std**2) for one, count in runs])
        variances[0] += self._variance
        fresh = fresh.copy()
        fresh[0] += self._total
        noise = np.add.accumulate(fresh, axis=0)
        variances = np.cumsum(variances)
        self._total, self._variance = noise[-1].copy(), float(variances[-1])
        self._batches += len(fresh)
        return noise, variances


@dataclass(frozen=True)
class Mechanism(ABC):
    """A private sum of bounded vectors per batch; knows nothing of bandits.

    ``releases`` has one entry per batch index, the last one serving all later batches.
    ``honest_fraction`` of a batch's users are assumed to add their noise; guarantees rest on it.
    """

    layout: Layout
    schedule: Schedule
    releases: tuple[Release, ...]
    honest_fraction: float = 1.0

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
    def local_guarantee(self) -> Guarantee:
        """Of one report alone, against the shuffler and the network."""

    def joint_guarantee(self, participations: int = 1) -> Guarantee:
        """Against all other users, by the billboard lemma: what they see is post-processing."""
        return self.guarantee(participations)

    def release(self, index: int) -> Release:
        """The public parameters of batch ``index``."""
        return self.releases[min(index, len(self.releases) - 1)]

    def running_sum(self, rng: np.random.Generator | None = None) -> RunningSum:
        """Adds up releases. ``rng`` is for baselines whose server draws the noise itself."""
        return FreshNoise(self)

    def covers(self, index: int) -> tuple[range, ...]:
        """The batches that each sum released with batch ``index`` adds up: that batch alone."""
        return (range(index, index + 1),)

    def completed(self, places: range) -> NDArray[np.int64]:
        """How many sums are released with each of these batches."""
        return np.ones(len(places), dtype=np.int64)

    def runs(self, places: range) -> Iterator[tuple[Release, int]]:
        """The releases of these batches in order, and how many in a row each one serves."""
        last = max(places.start, len(self.releases) - 1)
        alone = range(places.start, min(places.stop, last))
        yield from ((self.release(index), 1) for index in alone)
        if last < places.stop:
            yield self.release(last), places.stop - last

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
        return max(1, math.floor(self.honest_fraction * self.release(index).users))

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


def needed(budget: Budget | None, name: str) -> Budget:
    """The budget, or an error where a private mechanism was given none."""
    if budget is None:
        raise ValueError(f"epsilon and delta must be given for {name}, got None")
    return budget


def sum_std(release: Release, sigma: float) -> float:
    """Noise of a batch sum when every user adds ``sigma`` per coordinate."""
    return math.sqrt(release.users) * sigma
