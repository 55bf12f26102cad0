"""``concurrent-tree`` (MATH 6.1): one report a level of a tree of batches, shuffled node by node.

A prefix sum is then a sum of few nodes instead of all batches, so that its noise grows with a
small power of their number (Tenenbaum, Kaplan, Mansour and Stemmer 2023; batches are ours).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole
from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve
from croupier.privacy.shuffled_bits.placements import Certified, WorstBatchCurve, placed
from croupier.privacy.shuffled_bits.tree import Tree, usual_levels
from croupier.privacy.shuffled_bits.tree_calibration import (
    FINENESS,
    NodeSum,
    TreeCurve,
    fewest_node_bits,
)
from croupier.protocols.base import (
    Floats,
    Protocol,
    Release,
    RunningSum,
    ShuffleRelease,
    Terms,
    needed,
)
from croupier.protocols.collecting import Collector
from croupier.protocols.planned_tree import NodeSums, PlannedTree, PrefixNodes, completed
from croupier.protocols.tree_release import ConcurrentTreeRelease, channel, node_view
from croupier.protocols.vector_release import VectorSumRelease
from croupier.protocols.vector_sum import promised
from croupier.schedules import Schedule
from croupier.theory.trees import regret_exponent


@dataclass(frozen=True)
class ConcurrentTree(Protocol):
    """Bits as in vector-sum, one report for every level of a tree of batches.

    A batch that no complete node of some level will ever hold has no report for that level: the
    levels of a batch follow from its index and the horizon alone. A schedule of equal batches
    has one release, which ``release`` cuts to the levels of a batch.
    """

    name: ClassVar[str] = "concurrent-tree"
    release_type: ClassVar[type[ShuffleRelease]] = ConcurrentTreeRelease
    calibrations: ClassVar[tuple[str, ...]] = ("certified",)
    takes_levels: ClassVar[bool] = True

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """The fewest bits with which all nodes have the same noise, within the overhead."""
        asked = needed(budget, cls.name)
        if schedule.horizon is None:
            raise ValueError(f"horizon must be given for {cls.name}, got None")
        levels = terms.levels or usual_levels(schedule.batches)
        planned = PlannedTree(layout, schedule, levels, terms.honest_fraction)
        listed = range(_listed_batches(schedule))
        made = tuple(_certified(asked, planned, index, terms) for index in listed)
        found = cls(layout, schedule, made, terms.honest_fraction)
        while not found.guarantee(terms.max_participations).meets(asked):
            found = replace(found, releases=tuple(map(_more_bits, found.made)))
        return found

    def __post_init__(self) -> None:
        """Refuse nodes whose batches do not agree: their coins would not be those counted."""
        wanted = _listed_batches(self.schedule)
        if len(self.made) != wanted or len(self.releases) != wanted:
            raise ValueError(f"releases must be {wanted} of a tree, got {len(self.releases)}")
        known: dict[tuple[int, range], VectorSumRelease] = {}
        for level, node, made in self._every_node():
            agreed = known.setdefault((level, node), made) == made
            if not agreed or made.users != self.planned.users(node):
                raise ValueError(f"releases must agree on {node} of level {level}, got {made}")

    def _every_node(self) -> Iterator[tuple[int, range, VectorSumRelease]]:
        """Level, batches and parameters of the nodes of every batch that is listed."""
        for index, release in enumerate(self.made):
            nodes = zip(self.tree.holding(index), release.nodes, strict=True)
            yield from ((level, *node) for level, node in enumerate(nodes))

    @cached_property
    def made(self) -> tuple[ConcurrentTreeRelease, ...]:
        """The releases as what they are."""
        return tuple(one for one in self.releases if isinstance(one, ConcurrentTreeRelease))

    @cached_property
    def planned(self) -> PlannedTree:
        """The tree over the schedule; its first batch is in a node of every level."""
        levels = len(self.made[0].nodes)
        return PlannedTree(self.layout, self.schedule, levels, self.honest_fraction, self.colluders)

    @property
    def tree(self) -> Tree:
        """The nodes."""
        return self.planned.tree

    def release(self, index: int) -> ConcurrentTreeRelease:
        """What the users of batch ``index`` send."""
        levels, listed = len(self.tree.holding(index)), self._listed(index)
        return listed if len(listed.nodes) == levels else listed.of_levels(levels)

    def _listed(self, index: int) -> ConcurrentTreeRelease:
        return self.made[min(index, len(self.made) - 1)]

    def runs(self, batches: range) -> Iterator[tuple[Release, int]]:
        """Levels without a complete node end a run."""
        if len(self.releases) > 1:
            yield from super().runs(batches)
            return
        ends = {
            self.tree.nodes(level) * self.tree.width(level) for level in range(self.tree.levels)
        }
        inside = sorted(end for end in ends if batches.start < end < batches.stop)
        for start, stop in pairwise([batches.start, *inside, batches.stop]):
            yield self.release(start), stop - start

    def completed(self, batches: range) -> NDArray[np.int64]:
        """Nodes of as many levels."""
        return completed(self.tree, batches)

    def covers(self, index: int) -> tuple[range, ...]:
        """The nodes that batch ``index`` completes."""
        return self.tree.closing(index)

    def sum_variances(self, index: int) -> tuple[float, ...]:
        """Of each node."""
        nodes = enumerate(self.covers(index))
        return tuple(float(self._variance(level, node.start)) for level, node in nodes)

    def closing(self, index: int) -> frozenset[str]:
        """The channels of these nodes."""
        levels, labels = range(len(self.covers(index))), self.layout.labels
        return frozenset(channel(level, label) for level in levels for label in labels)

    def collector(self, rng: np.random.Generator) -> Collector:
        """Keeps what batches add to open nodes."""
        return NodeCollector(self, rng)

    def running_sum(self, rng: np.random.Generator | None = None) -> RunningSum:
        """Adds up the maximal complete nodes."""
        return PrefixNodes(self.tree, self._variance)

    def _variance(self, level: Any, start: Any) -> Any:
        """Of the noise on the node of a level that starts with a batch, or on many."""
        return self._variances[np.minimum(start, len(self.made) - 1), level]

    @cached_property
    def _variances(self) -> Floats:
        """The same ``(releases, levels)``; where a release has no node, nobody asks."""
        rows = [[node.noise_std**2 for node in release.nodes] for release in self.made]
        return np.array([row + [math.nan] * (len(rows[0]) - len(row)) for row in rows])

    def largest_noise_variance(self, batches: int) -> float:
        """The largest noise variance of a prefix of at most ``batches`` batches."""
        sums, variances = [0.0], (self._last(count) for count in range(1, batches + 1))
        for start, variance in variances:
            sums.append(sums[start] + variance)
        return max(sums)

    def _last(self, count: int) -> tuple[int, float]:
        """Where the last of a prefix's maximal nodes starts, and its noise variance."""
        closed = self.covers(count - 1)
        return closed[-1].start, float(self._variance(len(closed) - 1, closed[-1].start))

    def noise_floor(self, budget: Budget | None, terms: Terms) -> float | None:
        """What Gaussian noise, the same on every node, would need for the worst placement."""
        present = min(terms.max_participations, self.tree.batches)
        return self.planned.batch(0, range(1), present).floor(needed(budget, self.name))

    def guarantee(self, participations: int = 1) -> Guarantee:
        """The certificate for shuffled bits in the worst nodes of every level (MATH 4, 6.1)."""
        present = min(whole("participations", participations, 1), self.tree.batches)
        found = tuple(dict.fromkeys(self._counts(present)))
        levels, nodes = zip(*found, strict=True)
        share = "all users" if self.honest_fraction == 1 else f"{self.honest_fraction:.4g} of them"
        method = f"up to {len(set(levels))} nodes a report, coins of {share}"
        return promised(self._curve(found, present), method, nodes)

    def _curve(self, found: tuple[tuple[int, CountRelease], ...], present: int) -> Certified:
        levels = tuple(level for level, _ in found)
        if present == len(set(levels)) == 1:  # One report in some node, as in some batch.
            return placed([node for _, node in found], 1)
        worst = tuple((node, self.tree.worst_squares(level, present)) for level, node in found)
        return TreeCurve(worst, levels)

    def _counts(self, present: int) -> Iterator[tuple[int, CountRelease]]:
        """Every node that differs, with its level and the most reports that one user has in it."""
        for level, node, made in self._every_node():
            batch = self.planned.batch(level, node, present)
            yield level, batch.counts(made.grid, made.noise_bits)

    def local_guarantee(self, draws: int = 1) -> Guarantee:
        """The coins of one user's reports to all levels, where they hide anything.

        Reports that a user makes for any batches are no better known than as many of the worst.
        """
        reports = dict.fromkeys(tuple(_alone(release)) for release in self.made)
        curves = tuple(BinomialCurve(tuple((one, draws) for one in report)) for report in reports)
        nodes = tuple(one for report in reports for one in report)
        curve: Certified = curves[0] if len(curves) == 1 else WorstBatchCurve(curves)
        return promised(curve, f"own coins of {draws} reports to every level", nodes)

    def sample_view(
        self, pair: Floats, truth: int, batches: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        """What an audit reads off the nodes of a user in the batches 0, 1, ..., ``batches`` - 1.

        Nobody can be placed worse in equal batches (:meth:`Tree.worst_squares`). Nodes that are
        alike are added up, which keeps all that a linear test can use; others have ``size``
        features each. Users who are not honest are left out.
        """
        drawn = (
            node_view(node, reports, pair[truth], trials, rng)
            for node, reports in self._seen(batches)
        )
        return np.hstack(list(drawn))

    def _seen(self, batches: int) -> list[tuple[VectorSumRelease, int]]:
        """Sums of like nodes over their honest users, with the reports of one user in them."""
        reports: Counter[tuple[int, range]] = Counter()
        for index in range(batches):
            reports.update(enumerate(self.tree.holding(index)))
        alike = Counter((*self._kind(*of), own) for of, own in reports.items())
        return [
            (replace(node, users=count * max(users, own)), count * own)
            for (node, users, own), count in alike.items()
        ]

    def _kind(self, level: int, node: range) -> tuple[VectorSumRelease, int]:
        """The parameters of a node and its honest users."""
        return self._listed(node.start).nodes[level], self.planned.honest(node)

    def words(self) -> dict[str, str]:
        """Levels, fan-out and what they are for."""
        tree, exponent = self.tree, regret_exponent(self.tree.levels)
        return {
            "tree": f"{tree.levels} levels, fan-out {tree.fan_out}: a user is in at most "
            f"{tree.levels} node sums, a prefix is the sum of at most {tree.most_nodes}",
            "rate": f"regret of order T^({exponent}) if all batches have users of that order",
        }


class NodeCollector(Collector):
    """Batches by the release's shortcut, nodes as they become complete."""

    def __init__(self, mechanism: ConcurrentTree, rng: np.random.Generator) -> None:
        super().__init__(mechanism, rng)
        self._sums = NodeSums(mechanism.tree)

    def gathered(self, index: int, sums: Floats) -> Floats:
        """The sums ``(..., k * size)`` of the k nodes that batch ``index`` completes."""
        return self._sums.add(index, sums)


def _listed_batches(schedule: Schedule) -> int:
    """Batches that have a release of their own; one stands for all where they are equal."""
    return 1 if len(schedule.sizes()) == 1 else schedule.batches


def _certified(
    asked: Budget, planned: PlannedTree, index: int, terms: Terms
) -> ConcurrentTreeRelease:
    """The fewest bits for the nodes that batch ``index`` is in."""
    present = min(terms.max_participations, planned.tree.batches)
    nodes = planned.tree.holding(index)
    batches = [planned.batch(level, node, present) for level, node in enumerate(nodes)]
    found = [fewest_node_bits(batch, asked, terms.overhead) for batch in batches]
    users = tuple(batch.users for batch in batches)
    grids, bits = zip(*found, strict=True)
    return ConcurrentTreeRelease(planned.layout, planned.schedule.size(index), users, grids, bits)


def _more_bits(release: ConcurrentTreeRelease) -> ConcurrentTreeRelease:
    """The next best where rounding took the guarantee just past the budget."""
    return replace(
        release, noise_bits=tuple(bits + 1 + bits // FINENESS for bits in release.noise_bits)
    )


def _alone(release: ConcurrentTreeRelease) -> Iterator[CountRelease]:
    """One user's report to each level, hidden by nobody else's coins."""
    layout = release.layout
    for node in release.nodes:
        alone = NodeSum(1, 1.0, layout.device_sensitivity, layout.size)
        yield alone.counts(node.grid, node.noise_bits)
