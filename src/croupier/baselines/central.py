"""``central``: a trusted server that adds correlated noise to running sums.

The paper's way is a binary tree (Shariff and Sheffet 2018). ``certified`` takes the square root of
the matrix of prefix sums, which needs less than a third of that noise (MATH 6.4), and where batches
grow one fresh release a batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from croupier.arguments import positive
from croupier.baselines.server_noise import STRATEGIES, Strategy
from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.gdp import sigma_of
from croupier.privacy.guarantee import Guarantee, gaussian, unproved
from croupier.protocols.base import Floats, Mechanism, Release, RunningSum, Terms, needed
from croupier.protocols.releases import exact_part
from croupier.schedules import Schedule
from croupier.theory import constants, released

VIEWED_STEPS = 128
"""Prefixes that an audit reads: those soon after the user say most."""

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
