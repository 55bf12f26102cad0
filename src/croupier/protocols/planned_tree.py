"""A schedule's batches as the leaves of a tree: who is in its nodes, and sums of them in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from croupier.contribution import Layout
from croupier.privacy.node_bits import NodeBatch
from croupier.privacy.nodes import Tree
from croupier.protocols.base import RunningSum
from croupier.protocols.collecting import Floats
from croupier.theory.schedules import Schedule


@dataclass(frozen=True)
class PlannedTree:
    """The tree of ``levels`` levels over the batches of a schedule; nodes are ranges of batches."""

    layout: Layout
    schedule: Schedule
    levels: int
    honest_fraction: float = 1.0

    @cached_property
    def tree(self) -> Tree:
        """The nodes."""
        return Tree(self.schedule.batches, self.levels)

    def users(self, node: range) -> int:
        """Users of all batches of a node."""
        return self._users[node.stop] - self._users[node.start]

    def honest(self, node: range) -> int:
        """Users of a node whose coins count, batch by batch rounded down."""
        return self._honest[node.stop] - self._honest[node.start]

    def squares(self, present: int) -> int:
        """The worst sums of squares of a user in ``present`` batches, of all levels together."""
        return sum(self.tree.worst_squares(level, present) for level in range(self.levels))

    def batch(self, level: int, node: range, present: int) -> NodeBatch:
        """A node as what its counts have to hide, for users in up to ``present`` batches."""
        return NodeBatch(
            self.users(node),
            self.honest_fraction,
            self.layout.device_sensitivity,
            self.layout.size,
            self.squares(present),
            self.honest(node),
            self.tree.most_reports(level, present),
        )

    @cached_property
    def _sizes(self) -> list[int]:
        return [self.schedule.size(index) for index in range(self.tree.batches)]

    @cached_property
    def _users(self) -> list[int]:
        """Users before each batch."""
        return list(accumulate(self._sizes, initial=0))

    @cached_property
    def _honest(self) -> list[int]:
        counted = (math.floor(self.honest_fraction * size) for size in self._sizes)
        return list(accumulate(counted, initial=0))


class NodeSums:
    """Adds up the sums of batches level by level and hands out those of complete nodes."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._open: dict[int, Floats] = {}

    def add(self, index: int, parts: Floats) -> Floats:
        """The sums ``(..., k * size)`` of the k nodes that batch ``index`` completes.

        ``parts (..., levels * size)`` is what the batch adds to each node that it is in.
        """
        split = np.split(parts, len(self._tree.holding(index)), axis=-1)
        for level, part in enumerate(split):
            self._open[level] = self._open[level] + part if level in self._open else part
        closed = range(len(self._tree.closing(index)))
        return np.concatenate([self._open.pop(level) for level in closed], axis=-1)


class PrefixNodes(RunningSum):
    """The prefix as the sum of its maximal complete nodes; ``variance(level, node)`` of each."""

    def __init__(self, tree: Tree, variance: Callable[[int, range], float]) -> None:
        self._tree = tree
        self._variance = variance
        self._nodes: list[tuple[range, Floats, float]] = []

    def add(self, index: int, sums: Floats) -> tuple[Floats, float]:
        """The largest node that batch ``index`` completes replaces the smaller ones inside it."""
        closed = self._tree.closing(index)
        node, level = closed[-1], len(closed) - 1
        kept = [known for known in self._nodes if known[0].stop <= node.start]
        largest = np.split(sums, len(closed), axis=-1)[-1]
        self._nodes = [*kept, (node, largest, self._variance(level, node))]
        total = sum(sums for _, sums, _ in self._nodes)
        return np.asarray(total), sum(variance for _, _, variance in self._nodes)
