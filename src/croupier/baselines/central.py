"""``central``: a trusted server, a binary tree over running sums (Shariff and Sheffet 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from croupier.arguments import positive
from croupier.contribution import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.central import tree_sensitivity
from croupier.privacy.guarantee import Guarantee, gaussian, unproved
from croupier.protocols.base import Floats, Mechanism, Release, RunningSum, Terms, needed
from croupier.theory import constants, released
from croupier.theory.schedules import Schedule

SEES_RAW_DATA = "the server sees raw data; only what it publishes is private"


@dataclass(frozen=True)
class CentralRelease(Release):
    """A batch sum in the server's hands; the tree adds N(0, sigma^2) to every node."""

    sigma: float
    strategy: str = "tree"

    def __post_init__(self) -> None:
        """Noise must be there."""
        positive("sigma", self.sigma)

    @property
    def privacy_noise_std(self) -> float:
        """The noise of one node."""
        return self.sigma

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The exact sum: noise comes with the tree."""
        return np.asarray(contributions.sum(axis=-2))


@dataclass(frozen=True)
class Node:
    """A complete subtree: its exact sum and the noise it got once and keeps."""

    exact: Floats
    noise: Floats


class TreeSum(RunningSum):
    """The streaming binary tree: step t adds up one node per set bit of t (Chan, Shi, Song)."""

    def __init__(self, sigma: float, rng: np.random.Generator) -> None:
        self._sigma = sigma
        self._rng = rng
        self.nodes: dict[int, Node] = {}
        """Complete nodes that make up the present prefix, by level."""

    def add(self, index: int, sums: Floats) -> tuple[Floats, float]:
        """Close the node that step ``index`` completes, with fresh noise, and add up the prefix."""
        step = index + 1
        level = (step & -step).bit_length() - 1
        exact = sums + sum(self.nodes.pop(lower).exact for lower in range(level))
        noise = self._rng.normal(0.0, self._sigma, sums.shape)
        self.nodes[level] = Node(exact, noise)
        prefix = sum(node.exact + node.noise for node in self.nodes.values())
        return np.asarray(prefix), len(self.nodes) * self._sigma**2


@dataclass(frozen=True)
class Central(Mechanism):
    """JDP; with batches it is the paper's Batched-Central-LinUCB: a leaf is a batch sum."""

    name: ClassVar[str] = "central"
    release_type: ClassVar[type[Release]] = CentralRelease
    calibrations: ClassVar[tuple[str, ...]] = ("theorem", "released")
    trust: ClassVar[str] = "joint"

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """Node noise of Shariff and Sheffet, or of the script, times the participations."""
        asked = needed(budget, cls.name)
        if terms.calibration == "theorem" and not terms.outside:
            constants.require(*constants.central_range(asked))
        if terms.calibration == "theorem":
            sigma = constants.central_sigma(asked, schedule.batches, terms.max_participations)
        else:
            sigma = terms.max_participations * released.central_sigma(asked, schedule.rounds)
        made = tuple(CentralRelease(layout, users, sigma) for users in schedule.sizes())
        return cls(layout, schedule, made)

    @property
    def sigma(self) -> float:
        """Noise of a node."""
        return float(self.release(0).parameters["sigma"])

    def running_sum(self, rng: np.random.Generator | None = None) -> RunningSum:
        """The tree; the server's own randomness."""
        if rng is None:
            raise ValueError("rng must be given: the central server draws the noise, got None")
        return TreeSum(self.sigma, rng)

    def largest_noise_variance(self, batches: int) -> float:
        """A prefix has as many nodes as its index has set bits."""
        return ((batches + 1).bit_length() - 1) * self.sigma**2

    def guarantee(self, participations: int = 1) -> Guarantee:
        """None against the server."""
        return unproved(SEES_RAW_DATA)

    def local_guarantee(self) -> Guarantee:
        """None against the server."""
        return unproved(SEES_RAW_DATA)

    def joint_guarantee(self, participations: int = 1) -> Guarantee:
        """Exact: the worst placement of a user's rounds in the tree (``prop:JDP-return``)."""
        moved = tree_sensitivity(self.schedule.batches, participations)
        mu = self.layout.sensitivity * moved / self.sigma
        return gaussian(mu, "exact Gaussian binary tree (MATH 3)", "the server is trusted")

    def released_scale(self, budget: Budget | None) -> released.Scale:
        """G = node noise sqrt(ln T) sqrt(d)."""
        spread = math.sqrt(math.log(self.schedule.rounds) * self.layout.dim)
        return released.private_scale(self.sigma * spread)
