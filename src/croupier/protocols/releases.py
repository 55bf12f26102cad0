"""One batch's sum: what is public of it, what its devices and analyzer do, how it is simulated."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.coins import Coins, SeededCoins
from croupier.layouts import Layout
from croupier.protocols.rounding import Rounding
from croupier.shuffler import Messages, gather, shuffle

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
    def report_weight(self) -> float:
        """How far one well-formed report can move the vector's sums, over an honest one's most."""
        return math.inf

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

    Such reports can be split into shares, so that nothing but their sum is ever seen, and of bits
    a shuffler hands on how many are ones, which is all that permuting them leaves. A count is
    released when its channel closes, added up over all batches that the channel was open in.
    """

    @property
    def counted(self) -> tuple[str, ...]:
        """The channel that each count of a report's tally is of, in order."""
        return self.layout.labels

    @abstractmethod
    def tally(self, messages: Messages) -> NDArray[np.int64]:
        """What is counted ``(counts,)``, of one report or of many; adds up over users.

        Of a channel of bits it is the number of ones, which a shuffler that reads bits counts.

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


def sum_std(release: Release, sigma: float) -> float:
    """Noise of a batch sum when every user adds ``sigma`` per coordinate."""
    return math.sqrt(release.users) * sigma


def exact_part(contributions: Floats) -> Floats:
    """The ``partial`` of releases that add up contributions as they are."""
    return np.asarray(contributions.sum(axis=-2))


def gaussian_finish(release: Release, added: Floats, rng: np.random.Generator) -> Floats:
    """The ``finish`` of releases with one Gaussian for the noise of all users."""
    return np.asarray(added + rng.normal(0.0, release.privacy_noise_std, added.shape))


def gaussian_ahead(release: Release, count: int, rng: np.random.Generator) -> Floats:
    """The ``noise_ahead`` of the same."""
    drawn = rng.standard_normal((count, release.layout.size))
    drawn *= release.privacy_noise_std
    return drawn
