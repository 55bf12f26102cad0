"""``central``: a trusted server that adds correlated noise to running sums.

The paper's way is a binary tree (Shariff and Sheffet 2018). ``certified`` takes the square root of
the matrix of prefix sums, which needs less than a third of that noise (MATH 6.4), and where batches
grow one fresh release a batch.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from croupier.arguments import positive
from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.central import (
    toeplitz_coefficients,
    toeplitz_sensitivity,
    toeplitz_variance,
    toeplitz_variances,
    tree_sensitivity,
    tree_variance,
)
from croupier.privacy.gdp import sigma_of
from croupier.privacy.guarantee import Guarantee, gaussian, unproved
from croupier.protocols.base import Floats, Mechanism, Part, Release, RunningSum, Terms, needed
from croupier.protocols.releases import exact_part
from croupier.protocols.running_sums import Ahead, Correlated
from croupier.schedules import Schedule
from croupier.theory import constants, released

VIEWED_STEPS = 128
"""Prefixes that an audit reads: those soon after the user say most."""

DRAWN_AT_ONCE = 2**21
"""Numbers of fresh noise that are turned into prefix noise at once."""

SEES_RAW_DATA = "the server sees raw data; only what it publishes is private"


@dataclass(frozen=True)
class CentralRelease(Release):
    """A batch sum in the server's hands; a strategy draws N(0, sigma^2) once a node or step."""

    sigma: float
    strategy: str = "tree"

    def __post_init__(self) -> None:
        """Noise must be there, and a known way to add it."""
        positive("sigma", self.sigma)
        if self.strategy not in STRATEGIES:
            raise _unknown(self.strategy, tuple(STRATEGIES))

    @property
    def privacy_noise_std(self) -> float:
        """The noise of one node, or of one step."""
        return self.sigma

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The exact sum: noise comes with the running sum."""
        return self.finish(self.partial(contributions, rng), rng)

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The sum of some."""
        return exact_part(contributions)

    def finish(self, added: Floats, rng: np.random.Generator) -> Floats:
        """As it is."""
        return added

    def noise_ahead(self, count: int, rng: np.random.Generator) -> Floats:
        """None of any size."""
        return np.zeros((count, self.layout.size))


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
        lambda steps, present: math.sqrt(min(steps, present)),
        float,
        lambda sigma, _, rng: FreshSum(sigma, rng),
    ),
}


def _chosen(terms: Terms, schedule: Schedule) -> str:
    """The strategy's name; the paper's constants are stated for the tree alone.

    Of batches that grow there are few: correlated noise would gain little, and whoever learns batch
    by batch can weigh fresh noise better.
    """
    offered = tuple(STRATEGIES) if terms.calibration == "certified" else ("tree",)
    usual = "fresh" if len(schedule.sizes()) > 1 and "fresh" in offered else offered[0]
    name = usual if terms.strategy is None else terms.strategy
    if name not in offered:
        raise _unknown(name, offered, f" for {terms.calibration} noise")
    return name


def _unknown(name: str, offered: tuple[str, ...], where: str = "") -> ValueError:
    return ValueError(f"strategy must be one of {', '.join(offered)}{where}, got {name!r}")


@dataclass(frozen=True)
class Central(Mechanism):
    """JDP; with batches it is the paper's Batched-Central-LinUCB: a leaf is a batch sum.

    The server alone draws the noise, so ``honest_fraction`` plays no role.
    """

    name: ClassVar[str] = "central"
    release_type: ClassVar[type[Release]] = CentralRelease
    calibrations: ClassVar[tuple[str, ...]] = ("certified", "theorem", "released")
    trust: ClassVar[str] = "joint"

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """The least noise that meets the budget, or the tree's of Shariff and Sheffet or script."""
        asked, strategy = needed(budget, cls.name), _chosen(terms, schedule)
        if terms.calibration == "certified":
            moved = STRATEGIES[strategy].sensitivity(schedule.batches, terms.max_participations)
            sigma = sigma_of(layout.sensitivity * moved, asked.epsilon, asked.delta)
        else:
            sigma = _papers_sigma(asked, schedule, terms)
        made = tuple(CentralRelease(layout, users, sigma, strategy) for users in schedule.sizes())
        return cls(layout, schedule, made)

    @property
    def sigma(self) -> float:
        """Noise of a node, or of a step."""
        return float(self.release(0).parameters["sigma"])

    @property
    def strategy(self) -> Strategy:
        """How the noise is spread over the prefix sums."""
        return STRATEGIES[self.release(0).parameters["strategy"]]

    def running_sum(self, rng: np.random.Generator | None = None) -> RunningSum:
        """The strategy's noise, from the server's own randomness."""
        if rng is None:
            raise ValueError("rng must be given: the central server draws the noise, got None")
        return self.strategy.running(self.sigma, self.schedule.batches, rng)

    def sample_view(
        self, pair: Floats, truth: int, batches: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        """Published prefixes ``(trials, steps)`` along the pair's difference.

        Noise is the same in all directions, so one coordinate stands for all.
        """
        moved = pair[1] - pair[0]
        along = float(pair[truth] @ moved) / float(np.linalg.norm(moved))
        steps = min(max(VIEWED_STEPS, batches), self.schedule.batches)
        running = self.strategy.running(self.sigma, steps, rng)
        inputs = (np.full((trials, 1), along * (index < batches)) for index in range(steps))
        return np.hstack([running.part(index, one).sums for index, one in enumerate(inputs)])

    def largest_noise_variance(self, batches: int) -> float:
        """That of the worst prefix of the strategy."""
        return self.sigma**2 * self.strategy.variance(batches)

    def guarantee(self, participations: int = 1) -> Guarantee:
        """None against the server."""
        return unproved(SEES_RAW_DATA)

    def local_guarantee(self, draws: int = 1) -> Guarantee:
        """None against the server."""
        return unproved(SEES_RAW_DATA)

    def joint_guarantee(self, participations: int = 1) -> Guarantee:
        """Exact: the worst placement of a user's rounds in the strategy (``prop:JDP-return``)."""
        moved = self.strategy.sensitivity(self.schedule.batches, participations)
        mu = self.layout.sensitivity * moved / self.sigma
        return gaussian(mu, self.strategy.method, "the server is trusted")

    def released_scale(self, budget: Budget | None) -> released.Scale:
        """G = node noise sqrt(ln T) sqrt(d)."""
        spread = math.sqrt(math.log(self.schedule.rounds) * self.layout.dim)
        return released.private_scale(self.sigma * spread)


def _papers_sigma(budget: Budget, schedule: Schedule, terms: Terms) -> float:
    """Node noise of Shariff and Sheffet, or of the script, times the participations."""
    if terms.calibration != "theorem":
        return terms.max_participations * released.central_sigma(budget, schedule.rounds)
    if not terms.outside:
        constants.require(*constants.central_range(budget))
    return constants.central_sigma(budget, schedule.batches, terms.max_participations)
