"""A schedule's batches as the leaves of a tree: who is in its nodes, and sums of them in order."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.layouts import Layout
from croupier.privacy.shuffled_bits.tree import Tree
from croupier.privacy.shuffled_bits.tree_calibration import NodeSum
from croupier.protocols.base import Part, RunningSum
from croupier.protocols.collecting import Floats
from croupier.protocols.running_sums import Ahead
from croupier.schedules import Schedule

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class PlannedTree:
    """The tree of ``levels`` levels over the batches of a schedule; nodes are ranges of batches."""

    layout: Layout
    schedule: Schedule
    levels: int
    honest_fraction: float = 1.0
    colluders: int = 0

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

    def batch(self, level: int, node: range, present: int) -> NodeSum:
        """A node as what its counts have to hide, for users in up to ``present`` batches."""
        return NodeSum(
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
        share, least = self.honest_fraction, self.colluders
        counted = (min(math.floor(share * size), size - least) for size in self._sizes)
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
    """The prefix as its maximal complete nodes, of which each batch completes one.

    ``variance(level, start)`` is that of the node of a level that starts with a batch, or of many.
    """

    def __init__(self, tree: Tree, variance: Callable[[Any, Any], Any]) -> None:
        self._tree = tree
        self._variance = variance
        self._batches = 0
        self._open: Floats | float = 0.0
        """Noise drawn ahead, of the batches of open nodes."""

    def part(self, index: int, sums: Floats) -> Part:
        """The largest node that batch ``index`` completes."""
        closed = self._tree.closing(index)
        node, level = closed[-1], len(closed) - 1
        whole = np.split(sums, len(closed), axis=-1)[-1]
        return Part(node.start, node.stop, whole, float(self._variance(level, node.start)))

    def starts(self, stop: int) -> set[int]:
        """Where the nodes start that batch ``stop`` is in."""
        return {stop - stop % self._tree.width(level) for level in range(self._tree.levels)}

    def ahead(self, fresh: Floats) -> Ahead | None:
        """The noise of the largest nodes that batches complete."""
        first, levels = self._batches, self._tree.levels
        self._batches += len(fresh)
        closing = completed(self._tree, range(first, self._batches)) - 1
        widths = np.array([self._tree.width(level) for level in range(levels)])
        starts = np.arange(first, self._batches) + 1 - widths[closing]
        nodes = self._nodes(fresh.reshape(len(fresh), levels, -1), starts - first, closing)
        return nodes, np.array(self._variance(closing, starts)), starts

    def _nodes(self, parts: Floats, starts: Indices, closing: Indices) -> Floats:
        """Noise ``(batches, size)`` of nodes that start as many batches after the first part."""
        until = np.zeros((len(parts) + 1, *parts.shape[1:]))
        np.add.accumulate(parts, axis=0, out=until[1:])
        # What was drawn before belongs to the nodes that have started before, and to no others.
        until[0] -= self._open
        levels, stop = np.arange(parts.shape[1]), self._batches
        begun = [len(parts) - stop % self._tree.width(level) for level in levels.tolist()]
        self._open = until[-1] - until[np.maximum(begun, 0), levels]
        ends = until[np.arange(len(parts)) + 1, closing]
        return np.asarray(ends - until[np.maximum(starts, 0), closing])


def completed(tree: Tree, batches: range) -> Indices:
    """How many nodes each of these batches completes, one of every level up to some."""
    stops = np.arange(batches.start, batches.stop) + 1
    return np.asarray(
        sum((stops % tree.width(level) == 0).astype(int) for level in range(tree.levels))
    )
