"""What the counts of a tree's nodes hide, and how few bits per label do it (MATH 4, 6.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from croupier.arguments import positive, whole
from croupier.errors import GuaranteeError
from croupier.privacy.budget import Budget
from croupier.privacy.shuffled_bits.calibration import BatchSum, fewest
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import ROUNDED_UP, BinomialCurve

FINENESS = 1000


@dataclass(frozen=True)
class TreeCurve(BinomialCurve):
    """The proved curve of a user in the nodes of a tree, wherever the user's batches are.

    ``releases`` has every node that differs, with the most reports of one user that it can hold
    (``CountRelease.reports``) and the worst sum of squares of its level; ``levels`` has the level
    of each. If one report in a node gives away at most b, then m reports in it give away at most
    b m. So a level gives away at most b sqrt(sum of m^2), with the largest b of its nodes and the
    largest sum of squares, and all levels together the root of the sum of their squares (MATH 4,
    "Several releases"). A sum of squares of whole numbers is at least the number of nodes that
    hold the user, so it bounds their tails too, in every placement.
    """

    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        """Every node has its level."""
        super().__post_init__()
        if len(self.levels) != len(self.releases):
            raise ValueError(f"levels must be {len(self.releases)}, got {self.levels!r}")

    @property
    def tails(self) -> int:
        """Tails of the counts that the user is in, at most."""
        worst = {level: node.tails * squares for level, (node, squares) in self._numbered}
        return sum(worst.values())

    def mu(self, tau: float) -> float:
        """The worst node of every level, by the worst sum of squares of the level."""
        worst = dict.fromkeys(self.levels, 0.0)
        for level, (node, squares) in self._numbered:
            worst[level] = max(worst[level], math.sqrt(squares) * mu_per_report(node, tau))
        return math.hypot(*worst.values()) * ROUNDED_UP

    @property
    def _numbered(self) -> list[tuple[int, tuple[CountRelease, int]]]:
        return list(zip(self.levels, self.releases, strict=True))


def mu_per_report(node: CountRelease, tau: float) -> float:
    """A bound on mu_v / m for every number m of a user's reports up to ``node.reports``.

    From m = 2 on it is the slope a times (R + sqrt D), and a grows with the reach K, so that the
    most reports are the worst. One report alone has the mu(R) of MATH 4.
    """
    try:
        once = replace(node, reports=1).mu(tau)
        if node.reports == 1:
            return once
        return max(once, node.mu(tau) / node.reports) * (1 + 1e-15)
    except GuaranteeError:  # The general form may refuse: then nothing is certified.
        return math.inf


@dataclass(frozen=True)
class NodeSum(BatchSum):
    """A node as a batch: ``honest`` of its users add coins, ``reports`` may be one user's.

    ``participations`` is the sum, over all levels, of the worst sums of squares: every node gets
    the noise that Gaussian sums of one batch would need for as many participations, so that all
    nodes of a tree have the same (MATH 6.1).
    """

    honest: int = 1
    reports: int = 1

    def __post_init__(self) -> None:
        """Refuse a node that nobody protects."""
        super().__post_init__()
        whole("reports", self.reports, 1)

    @property
    def honest_users(self) -> int:
        """Users whose coins count, batch by batch rounded down."""
        return self.honest

    def counts(self, grid: float, noise_bits: int) -> CountRelease:
        """The counts of the node, seen through the coins of its honest users."""
        distance = math.nextafter(grid * self.sensitivity, math.inf)
        coins = self.honest_users * noise_bits
        return CountRelease(coins, 0.5, distance, self.labels, self.reports)

    def curve(self, grid: float, noise_bits: int) -> BinomialCurve:
        """What a tree proves whose nodes are all like this one, by the squares of mu alone."""
        releases = ((self.counts(grid, noise_bits), self.participations),)
        return BinomialCurve(releases) if self.reports == 1 else TreeCurve(releases, (0,))

    def likely_bits(self, budget: Budget, overhead: float) -> int:
        """Near the bits at which sqrt(D) steps a report are all of the overhead: a start.

        The grid grows with the root of the bits, and the overhead is sqrt(D) over R = grid Delta.
        """
        if self.reports == 1:
            return 1
        wanted = math.sqrt(self.labels) / (overhead * self.sensitivity)
        return max(1, math.floor((wanted / self.coarsest_grid(budget, 0, overhead)) ** 2))


@lru_cache(maxsize=1024)
def fewest_node_bits(node: NodeSum, budget: Budget, overhead: float) -> tuple[float, int]:
    """The grid and noise bits that need the fewest bits per report within an overhead.

    As ``fewest_bits``: at the coarsest grid that the overhead allows,
    signal and noise bits both grow with the noise bits. Where a user returns, every report pays
    sqrt(D) steps for its rounding, so that the grid must be finer and the bits are many (MATH 4);
    thousands of them are searched in steps of a thousandth. Who calibrates a tree confirms all of
    its nodes together.
    """
    start = node.likely_bits(budget, positive("overhead", overhead))
    step = max(1, start // FINENESS)

    def grid(noise_bits: int) -> float:
        return node.coarsest_grid(budget, noise_bits, overhead)

    def enough(steps: int) -> bool:
        return node.meets(budget, grid(steps * step), steps * step)

    found = step * fewest(start // step, node.most_noise_bits // step, enough)
    return grid(found), found
