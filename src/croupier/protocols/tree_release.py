"""What the users of one batch send to the nodes of a tree, and the sums of these nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from croupier.coins import Coins
from croupier.protocols.base import AdditiveRelease, Counted, Floats
from croupier.protocols.rounding import Rounding
from croupier.protocols.vector_release import VectorSumRelease
from croupier.shuffler import Messages

LISTS = ("node_users", "grids", "noise_bits")


@dataclass(frozen=True)
class ConcurrentTreeRelease(AdditiveRelease):
    """What the users of one batch send: one ``vector-sum`` report for each node they are in.

    ``node_users``, ``grids`` and ``noise_bits`` have one number a level, of the node that the
    batch is in. Messages of level l are in the channels ``l/label``.
    """

    node_users: tuple[int, ...]
    grids: tuple[float, ...]
    noise_bits: tuple[int, ...]

    def __post_init__(self) -> None:
        """Lists of a document are as good as tuples; every level has all its numbers."""
        for name in LISTS:
            object.__setattr__(self, name, tuple(getattr(self, name)))
        sizes = {len(getattr(self, name)) for name in LISTS}
        if len(sizes) != 1 or not self.nodes:
            raise ValueError(f"node_users, grids and noise_bits must be as many, got {sizes!r}")

    @cached_property
    def nodes(self) -> tuple[VectorSumRelease, ...]:
        """The node of each level as a release of its own."""
        rows = zip(self.node_users, self.grids, self.noise_bits, strict=False)
        return tuple(VectorSumRelease(self.layout, *row, 0.5) for row in rows)

    @property
    def report_bits(self) -> int:
        """Bits of all levels."""
        return sum(node.report_bits for node in self.nodes)

    @property
    def privacy_noise_std(self) -> float:
        """Of one coordinate of a node's sum, the least of all levels."""
        return min(node.privacy_noise_std for node in self.nodes)

    @property
    def noise_std(self) -> float:
        """Of one coordinate of a node's sum, the most of all levels; they differ by rounding."""
        return max(node.noise_std for node in self.nodes)

    @property
    def report_weight(self) -> float:
        """In the node in which it weighs most."""
        return max(node.report_weight for node in self.nodes)

    def of_levels(self, levels: int) -> ConcurrentTreeRelease:
        """The same without the levels above."""
        return replace(self, **{name: getattr(self, name)[:levels] for name in LISTS})

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        """A report a level, each with its own coins and its own rounding (MATH 4)."""
        return {
            channel(level, label): rows
            for level, node in enumerate(self.nodes)
            for label, rows in node.randomize(contribution, coins).items()
        }

    @property
    def counted(self) -> tuple[str, ...]:
        """Every label of the lowest level, then of the next."""
        levels = range(len(self.nodes))
        return tuple(channel(level, label) for level in levels for label in self.layout.labels)

    def tally(self, messages: Messages) -> NDArray[np.int64]:
        """The ones of each channel that is there, ``(k * size,)`` of k levels."""
        there = [name for name in self.counted if name in messages]
        return np.array([np.count_nonzero(messages[name]) for name in there], dtype=np.int64)

    def settle(self, tally: NDArray[np.int64], users: Counted) -> Floats:
        """Sums ``(k * size,)`` of the k lowest levels: it is always those that close together."""
        lowest = self.nodes[: len(tally) // self.layout.size]
        return self._settle(lowest, tally, users)

    def _settle(
        self, nodes: Sequence[VectorSumRelease], tally: NDArray[np.int64], users: Counted
    ) -> Floats:
        counts = tally.reshape(len(nodes), -1)
        behind = np.broadcast_to(users, tally.shape).reshape(counts.shape)
        rows = zip(nodes, counts, behind, strict=True)
        return np.concatenate([node.settle(count, reports) for node, count, reports in rows])

    def analyze(self, messages: Messages) -> Floats:
        """Sums ``(k * size,)`` of the k levels that messages are there of, in order of level.

        A sum is of as many users as there are reports, a complete node or a part of one.
        """
        behind = [self._reports(level, messages) for level in range(len(self.nodes))]
        there = [node for node, reports in zip(self.nodes, behind, strict=True) if reports]
        users = np.repeat([reports for reports in behind if reports], self.layout.size)
        return self._settle(there, self.tally(messages), users)

    def _reports(self, level: int, messages: Messages) -> int:
        """Reports whose messages of a level are there."""
        node, first = self.nodes[level], channel(level, self.layout.labels[0])
        per_report = int(node.signal_bits[0]) + node.noise_bits
        return len(messages.get(first, ())) // per_report

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """What the batch adds to the node of each level, ``(..., levels * size)``."""
        return self.finish(self.partial(contributions, rng), rng)

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """Steps of some users at each level, rounded apart."""
        *batch, size = contributions.shape
        # One user's levels next to each other, so that simulations can draw users ahead.
        luck = np.moveaxis(rng.random((*batch, len(self.nodes), size)), -2, 0)
        drawn = [
            _steps(node, contributions, own) for node, own in zip(self.nodes, luck, strict=True)
        ]
        return np.concatenate(drawn, axis=-1)

    def finish(self, added: Floats, rng: np.random.Generator) -> Floats:
        """Each level's steps with the coins that the batch adds to its node."""
        levels = np.split(added, len(self.nodes), axis=-1)
        drawn = [part.finish(steps, rng) for part, steps in zip(self._parts, levels, strict=True)]
        return np.concatenate(drawn, axis=-1)

    @cached_property
    def _parts(self) -> tuple[VectorSumRelease, ...]:
        """The batch's share in the node of each level."""
        return tuple(replace(node, users=self.users) for node in self.nodes)

    def noise_ahead(self, count: int, rng: np.random.Generator) -> Floats:
        """The coins of as many batches on every level, less their mean."""
        size = self.layout.size
        coins = np.repeat([part.coins for part in self._parts], size)
        ones = rng.binomial(coins, 0.5, (count, coins.size))
        return np.asarray((ones - coins / 2) / np.repeat(self.grids, size))

    @property
    def roundings(self) -> tuple[Rounding, ...]:
        """To the grid of each level's node."""
        return tuple(Rounding(node.grid, node.users) for node in self.nodes)


def _steps(node: VectorSumRelease, contributions: Floats, luck: Floats) -> Floats:
    """Steps of all users, rounded up where luck is below what is left."""
    floor, left = node.steps(contributions)
    return np.asarray((floor + (luck < left)).sum(axis=-2), dtype=np.float64)


def channel(level: int, label: str) -> str:
    """Where a level's bits of a label are sent."""
    return f"{level}/{label}"


def node_view(
    node: VectorSumRelease, reports: int, row: Floats, trials: int, rng: np.random.Generator
) -> Floats:
    """Sums ``(trials, size)`` of a node in which ``reports`` are of ``row``, all others of none."""
    shape, others = (trials, node.layout.size), node.users - reports
    counts = node.sample_noise(shape, rng)
    floor, left = node.steps(np.zeros(node.layout.size))
    counts = counts + others * floor + rng.binomial(others, left, shape)
    floor, left = node.steps(row)
    # One draw a report, whatever the data: an audit compares runs with the same randomness.
    for _ in range(reports):
        counts = counts + floor + (rng.random(shape) < left)
    return node.debias(counts)
