"""The tree of batches behind concurrent shufflers: nodes, prefixes, worst placements (MATH 6.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole

USUAL_LEVELS = 3
"""More levels pay off beyond ten thousand batches only, and every level is one more report."""


@dataclass(frozen=True)
class Tree:
    """``batches`` leaves under ``levels`` levels; a node of level l is fan_out**l batches in a row.

    Node j of level l has the batches j fan_out**l up to (j + 1) fan_out**l - 1. The batches at the
    end that do not fill a node of some level are in no node of that level.
    """

    batches: int
    levels: int

    def __post_init__(self) -> None:
        """Refuse levels on which no node is ever complete."""
        whole("batches", self.batches, 1)
        whole("levels", self.levels, 1)
        if self.width(self.levels - 1) > self.batches:
            raise ValueError(
                f"levels must leave every level a complete node, the top level of {self.batches} "
                f"batches would have nodes of {self.width(self.levels - 1)}, got {self.levels}"
            )

    @cached_property
    def fan_out(self) -> int:
        """The ceiling of batches**(1/levels), by integers, at least 2."""
        found: int = max(2, math.floor(self.batches ** (1 / self.levels)))
        while found > 2 and (found - 1) ** self.levels >= self.batches:
            found -= 1
        while found**self.levels < self.batches:
            found += 1
        return found

    def width(self, level: int) -> int:
        """Batches of one node."""
        return int(self.fan_out**level)

    def nodes(self, level: int) -> int:
        """Complete nodes of a level."""
        return self.batches // self.width(level)

    def node(self, level: int, index: int) -> range:
        """The batches of the node of this level that batch ``index`` is in."""
        width = self.width(level)
        start = index - index % width
        return range(start, start + width)

    def holding(self, index: int) -> tuple[range, ...]:
        """The complete nodes that batch ``index`` is in, by level.

        Nodes are nested, so that the levels without one are the highest.
        """
        self._check(index)
        found = (self.node(level, index) for level in range(self.levels))
        return tuple(node for node in found if node.stop <= self.batches)

    def closing(self, index: int) -> tuple[range, ...]:
        """The nodes that batch ``index`` completes, by level; always those of the lowest levels."""
        return tuple(node for node in self.holding(index) if node.stop == index + 1)

    def prefix(self, count: int) -> tuple[tuple[int, range], ...]:
        """Levels and batches of the maximal complete nodes of the first ``count`` batches."""
        if not 0 <= count <= self.batches:
            raise ValueError(f"count must be between 0 and {self.batches}, got {count!r}")
        found, start = [], 0
        for level in range(self.levels - 1, -1, -1):
            while start + self.width(level) <= count:
                found.append((level, self.node(level, start)))
                start += self.width(level)
        return tuple(found)

    @property
    def most_nodes(self) -> int:
        """The largest number of nodes that a prefix is the sum of: digits of its length."""
        counts: NDArray[np.int64] = np.arange(1, self.batches + 1)
        digits = [counts // self.width(level) for level in range(self.levels)]
        lower = (digit % self.fan_out for digit in digits[:-1])
        return int((digits[-1] + sum(lower)).max())

    @property
    def prefix_noise(self) -> float:
        """The largest noise of a prefix in units of Delta/mu, for a user in one batch.

        Each of the L levels has mu/sqrt(L), so a node has noise sqrt(L).
        """
        return math.sqrt(self.levels * self.most_nodes)

    def most_reports(self, level: int, present: int) -> int:
        """Reports of a user in ``present`` batches that one node can hold."""
        return min(whole("present", present, 1), self.width(level))

    def worst_squares(self, level: int, present: int) -> int:
        """The largest sum, over the nodes of a level, of squared numbers of one user's reports.

        A user in ``present`` batches has m_v reports in node v, at most the node's width, and
        ``present`` in all. A sum of squares only grows when a report moves from a node to one
        with as many or more of the user's (it is Schur-convex), so full nodes and one rest are
        the worst. The batches 0, 1, ..., ``present`` - 1 do that on all levels at once.
        """
        whole("present", present, 1)
        width, nodes = self.width(level), self.nodes(level)
        full = min(present // width, nodes)
        rest = present - full * width if full < nodes else 0
        return full * width**2 + rest**2

    def _check(self, index: int) -> None:
        if not 0 <= index < self.batches:
            raise ValueError(f"index must be below the {self.batches} batches, got {index!r}")


def usual_levels(batches: int) -> int:
    """At most three: the number of levels with the least prefix noise, the fewest of equals."""
    return min(_possible(batches), key=lambda levels: Tree(batches, levels).prefix_noise)


def _possible(batches: int) -> list[int]:
    """1, and more levels where every level has a complete node."""
    more = range(2, USUAL_LEVELS + 1)
    return [1, *(levels for levels in more if _fits(batches, levels))]


def _fits(batches: int, levels: int) -> bool:
    try:
        Tree(batches, levels)
    except ValueError:
        return False
    return True
