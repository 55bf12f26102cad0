"""A protocol under test, with the samples that its laws are tested on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from croupier.coins import SeededCoins
from croupier.contribution import Layout
from croupier.protocols.base import Protocol, ShuffleRelease
from croupier.shuffler import Messages, gather
from croupier.testing.report import Floats

SAME = 1e-9
"""Relative difference that is rounding."""

PREFIX = 3
"""Batches that are added up."""


@dataclass(frozen=True)
class Subject:
    """A protocol with the samples that its laws are tested on."""

    protocol: Protocol
    seed: int
    trials: int

    @property
    def layout(self) -> Layout:
        """The coordinates."""
        return self.protocol.layout

    @property
    def release(self) -> ShuffleRelease:
        """The batch that is run many times."""
        return self.protocol.release(0)

    @cached_property
    def tolerance(self) -> float:
        """What rounding may change in a batch sum."""
        largest = np.abs([self.layout.low, self.layout.high]).max()
        return SAME * self.release.users * float(largest)

    @cached_property
    def datasets(self) -> Floats:
        """Contributions ``(2, users, size)``: of random users, and of users at the range ends."""
        users = self.release.users
        return np.array([self.random_users(users, 0), _extreme_users(self.layout, users)])

    @cached_property
    def truth(self) -> Floats:
        """Exact batch sums ``(2, size)``."""
        return np.asarray(self.datasets.sum(axis=1))

    @cached_property
    def real(self) -> Floats:
        """Batch sums ``(2, trials, size)`` by randomize, shuffle and analyze."""
        coins = self.coins(1)
        runs = [
            [ShuffleRelease.run(self.release, data, coins) for _ in range(self.trials)]
            for data in self.datasets
        ]
        return np.array(runs)

    @cached_property
    def quick(self) -> Floats:
        """Batch sums ``(2, trials, size)`` by ``sample_sum``."""
        return np.array([self.sampled(0, data, self.rng(2 + i)) for i, data in self.numbered])

    @cached_property
    def prefix(self) -> tuple[Floats, float]:
        """Errors ``(trials, size)`` of a prefix estimate, and the variance it claims."""
        running, rng, truth = self.protocol.running_sum(), self.rng(4), np.zeros(self.layout.size)
        for index in range(PREFIX):
            data = self.random_users(self.protocol.release(index).users, index)
            truth = truth + data.sum(axis=0)
            total, variance = running.add(index, self.sampled(index, data, rng))
        return total - truth, variance

    @property
    def numbered(self) -> list[tuple[int, Floats]]:
        """Data sets with their numbers."""
        return list(enumerate(self.datasets))

    def sampled(self, index: int, data: Floats, rng: np.random.Generator) -> Floats:
        """Many draws ``(trials, size)`` of ``sample_sum`` for one batch ``(users, size)``."""
        many = np.broadcast_to(data, (self.trials, *data.shape))
        return self.protocol.release(index).sample_sum(many, rng)

    def random_users(self, users: int, stream: int) -> Floats:
        """Contributions ``(users, size)`` of features in the ball and rewards in [0, 1]."""
        rng = self.rng(100 + stream)
        features = rng.standard_normal((users, self.layout.dim))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        features *= self.layout.feature_norm * rng.random((users, 1))
        return self.layout.encode(features, rng.random(users))

    def coins(self, stream: int) -> SeededCoins:
        """Repeatable coins."""
        return SeededCoins(np.random.SeedSequence(self.seed, spawn_key=(stream,)))

    def rng(self, stream: int) -> np.random.Generator:
        """A repeatable generator."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stream,)))

    def reports(self) -> Messages:
        """The messages of one batch in order of arrival."""
        coins = self.coins(5)
        return gather([self.release.randomize(row, coins) for row in self.datasets[0]])


def _extreme_users(layout: Layout, users: int) -> Floats:
    """Contributions ``(users, size)`` that reach the ends of ranges, and one of nobody."""
    axes = np.eye(layout.dim)
    first, second = np.triu_indices(layout.dim, 1)
    between = [(axes[first] + sign * axes[second]) / math.sqrt(2) for sign in (1, -1)]
    features = np.concatenate([axes, -axes, *between, np.zeros((1, layout.dim))])
    chosen = np.resize(np.arange(len(features))[::-1], users)
    rewards = np.where(np.arange(users) % 4 == 3, 0.0, 1.0)
    return layout.encode(layout.feature_norm * features[chosen], rewards)
