"""A protocol under test, with the samples that its laws are tested on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from croupier.coins import SeededCoins
from croupier.layouts import Layout
from croupier.protocols.base import Protocol, ShuffleRelease
from croupier.protocols.collecting import Devices
from croupier.protocols.running_sums import PrefixSums
from croupier.shuffler import Messages, gather
from croupier.testing.report import Floats

SAME = 1e-9
"""Relative difference that is rounding."""

PREFIX = 3
"""Batches that are added up."""

LONGEST = 1000
"""Batches after which a channel must have been closed."""


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
    def batches(self) -> int:
        """Batches after which all that the first one sends has been released."""
        waiting = set(self.release.randomize(np.zeros(self.layout.size), self.coins(9)))
        for index in range(LONGEST):
            closing = self.protocol.closing(index)
            waiting -= waiting if closing is None else closing
            if not waiting:
                return index + 1
        raise ValueError(f"channels {sorted(waiting)} are still open after {LONGEST} batches")

    @cached_property
    def tolerance(self) -> float:
        """What rounding may change in a released sum."""
        largest = np.abs([self.layout.low, self.layout.high]).max()
        users = sum(self.protocol.release(index).users for index in range(self.batches))
        return SAME * users * float(largest)

    @cached_property
    def datasets(self) -> Floats:
        """Contributions ``(2, users, size)``: of random users, and of users at the range ends."""
        users = self.release.users
        return np.array([self.random_users(users, 0), _extreme_users(self.layout, users)])

    @cached_property
    def stories(self) -> list[list[Floats]]:
        """The data sets, each followed by further batches ``(users, size)`` of the same kind."""
        sizes = [self.protocol.release(index).users for index in range(1, self.batches)]
        later = [self.random_users(users, 10 + index) for index, users in enumerate(sizes)]
        ends = [_extreme_users(self.layout, users) for users in sizes]
        return [[self.datasets[0], *later], [self.datasets[1], *ends]]

    @cached_property
    def truth(self) -> Floats:
        """Exact sums ``(2, sums)`` of what is released."""
        exact = [[batch.sum(axis=0) for batch in story] for story in self.stories]
        covered = [node for index in range(self.batches) for node in self.protocol.covers(index)]
        rows = [[sum(sums[index] for index in node) for node in covered] for sums in exact]
        return np.array(rows).reshape(len(rows), -1)

    @cached_property
    def real(self) -> Floats:
        """Released sums ``(2, trials, sums)`` by randomize, shuffle and analyze."""
        coins = self.coins(1)
        runs = [[self._run(story, coins) for _ in range(self.trials)] for story in self.stories]
        return np.array(runs)

    def _run(self, story: list[Floats], coins: SeededCoins) -> Floats:
        devices = Devices(self.protocol, coins)
        return np.concatenate([devices.add(index, batch) for index, batch in enumerate(story)])

    @cached_property
    def quick(self) -> Floats:
        """Released sums ``(2, trials, sums)`` by the shortcuts of a simulation."""
        return np.array([self._sampled(story, self.rng(2 + i)) for i, story in self.numbered])

    def _sampled(self, story: list[Floats], rng: np.random.Generator) -> Floats:
        collector = self.protocol.collector(rng)
        drawn = [collector.add(index, self.many(batch)) for index, batch in enumerate(story)]
        return np.concatenate(drawn, axis=-1)

    @cached_property
    def parts(self) -> Floats:
        """The same ``(2, trials, sums)`` where a simulation takes batches in three parts."""
        return np.array([self._taken(story, self.rng(8 + i)) for i, story in self.numbered])

    def _taken(self, story: list[Floats], rng: np.random.Generator) -> Floats:
        collector, drawn = self.protocol.collector(rng), []
        for index, batch in enumerate(story):
            for part in np.array_split(batch, 3):
                collector.take(index, self.many(part))
            drawn.append(collector.close(index))
        return np.concatenate(drawn, axis=-1)

    @cached_property
    def noise_std(self) -> Floats:
        """The noise that is stated for each released sum ``(sums,)``."""
        return self._stated([self.protocol.release(i).noise_std for i in range(self.batches)])

    @cached_property
    def privacy_noise_std(self) -> Floats:
        """The noise for privacy that is stated for each released sum ``(sums,)``."""
        return self._stated(
            [self.protocol.release(index).privacy_noise_std for index in range(self.batches)]
        )

    def _stated(self, noise: list[float]) -> Floats:
        sums = [len(self.protocol.covers(index)) for index in range(self.batches)]
        return np.repeat(noise, np.multiply(sums, self.layout.size))

    @cached_property
    def prefix(self) -> tuple[Floats, float]:
        """Errors ``(trials, size)`` of a prefix estimate, and the variance it claims."""
        running = PrefixSums(self.protocol.running_sum(), self.layout.size)
        truth = np.zeros(self.layout.size)
        collector = self.protocol.collector(self.rng(4))
        for index in range(PREFIX):
            data = self.random_users(self.protocol.release(index).users, index)
            truth = truth + data.sum(axis=0)
            total, variance = running.add(index, collector.add(index, self.many(data)))
        return total - truth, variance

    @property
    def numbered(self) -> list[tuple[int, list[Floats]]]:
        """Stories with their numbers."""
        return list(enumerate(self.stories))

    def many(self, data: Floats) -> Floats:
        """One batch ``(users, size)`` in as many trials ``(trials, users, size)``."""
        return np.broadcast_to(data, (self.trials, *data.shape))

    def random_users(self, users: int, stream: int) -> Floats:
        """Contributions ``(users, size)`` of features in the ball and rewards in [0, 1]."""
        rng = self.rng(100 + stream)
        entries = rng.standard_normal((users, self.layout.free))
        entries /= np.linalg.norm(entries, axis=1, keepdims=True)
        entries *= self.layout.norm * rng.random((users, 1))
        rewards = rng.random(users)
        return self.layout.encode(_in_turn(self.layout, entries), rewards)

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
    axes = np.eye(layout.free)
    first, second = np.triu_indices(layout.free, 1)
    between = [(axes[first] + sign * axes[second]) / math.sqrt(2) for sign in (1, -1)]
    entries = np.concatenate([axes, -axes, *between, np.zeros((1, layout.free))])
    chosen = np.resize(np.arange(len(entries))[::-1], users)
    rewards = np.where(np.arange(users) % 4 == 3, 0.0, 1.0)
    return layout.encode(_in_turn(layout, layout.norm * entries[chosen]), rewards)


def _in_turn(layout: Layout, entries: Floats) -> Floats:
    """Scored features of users ``(users, free)`` who are in one block after the other."""
    return np.array([layout.placed(row, i % layout.blocks) for i, row in enumerate(entries)])
