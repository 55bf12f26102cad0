from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from itertools import product

import numpy as np
import pytest

from croupier.coins import SeededCoins
from croupier.layouts import PapersLayout
from croupier.protocols.base import Floats
from croupier.protocols.concurrent_tree import ConcurrentTree
from croupier.protocols.running_sums import PrefixSums
from croupier.protocols.tree_release import ConcurrentTreeRelease
from croupier.schedules import FixedBatches
from croupier.shuffler import Report, Shapes, Shuffler, shapes_of

# Seven batches of three users on two levels of fan-out 3: two nodes of three batches, and a last
# batch that is in no complete node of level 1. Every test in this file has a fixed seed and a
# false-alarm rate below 1e-6 over all its comparisons: 6 standard deviations, at most 300 of them.

LAYOUT, USERS, BATCHES = PapersLayout(1), 3, 7
RELEASE = ConcurrentTreeRelease(LAYOUT, USERS, (3, 9), (2.3125, 3.1875), (5, 3))
TREE = ConcurrentTree(LAYOUT, FixedBatches(USERS, USERS * BATCHES), (RELEASE,))
REAL, QUICK, FAR = 1000, 30_000, 6.0
DATA = np.random.default_rng(5).uniform(LAYOUT.low, LAYOUT.high, (BATCHES, USERS, LAYOUT.size))


@dataclass(frozen=True)
class Agreed:
    """What a shuffler has to know of the plan."""

    id: str = "tree"
    looks: dict[int, Shapes] = field(default_factory=dict)

    def users(self, index: int) -> int:
        return USERS

    def shapes(self, index: int) -> Shapes:
        if index not in self.looks:
            sent = TREE.release(index).randomize(np.zeros(LAYOUT.size), SeededCoins(0))
            self.looks[index] = shapes_of(sent)
        return self.looks[index]

    def closing(self, index: int) -> frozenset[str] | None:
        return TREE.closing(index)


AGREED = Agreed()
Path = Callable[[], tuple[Floats, Floats]]


def one_run(coins: SeededCoins) -> tuple[Floats, Floats]:
    """All node sums and all prefix estimates of one run of devices, shuffler and analyzer."""
    shuffler, running = Shuffler(AGREED), PrefixSums(TREE.running_sum(), LAYOUT.size)
    shuffler._coins = coins
    nodes, prefixes = [], []
    for index, user in product(range(BATCHES), range(USERS)):
        sent = TREE.release(index).randomize(DATA[index, user], coins)
        batch = shuffler.collect(Report("tree", index, sent))
        if batch is not None:
            nodes.append(TREE.release(index).analyze(batch.messages))
            prefixes.append(running.add(index, nodes[-1])[0])
    return np.concatenate(nodes), np.concatenate(prefixes)


@cache
def real() -> tuple[Floats, Floats]:
    """Node sums ``(runs, 9 * size)`` and prefix estimates ``(runs, 7 * size)``."""
    coins = SeededCoins(1)
    runs = [one_run(coins) for _ in range(REAL)]
    return np.array([nodes for nodes, _ in runs]), np.array([prefixes for _, prefixes in runs])


@cache
def quick() -> tuple[Floats, Floats]:
    """The same by the simulator's shortcut."""
    collector = TREE.collector(np.random.default_rng(2))
    running = PrefixSums(TREE.running_sum(), LAYOUT.size)
    nodes, prefixes = [], []
    for index in range(BATCHES):
        many = np.broadcast_to(DATA[index], (QUICK, *DATA[index].shape))
        nodes.append(collector.add(index, many))
        prefixes.append(running.add(index, nodes[-1])[0])
    return np.hstack(nodes), np.hstack(prefixes)


BOTH = pytest.mark.parametrize("path", [real, quick])
COVERED = [(level, node) for i in range(BATCHES) for level, node in enumerate(TREE.covers(i))]


def exact_nodes() -> tuple[Floats, Floats]:
    """Means and variances of every node sum: binomial coins and Bernoulli roundings (MATH 4)."""
    means, variances = [], []
    for level, node in COVERED:
        made = RELEASE.nodes[level]
        rows = DATA[node.start : node.stop].reshape(-1, LAYOUT.size)
        _, left = made.steps(rows)
        means.append(rows.sum(axis=0))
        rounding = (left * (1 - left)).sum(axis=0)
        variances.append((made.coins / 4 + rounding) / made.grid**2)
    return np.concatenate(means), np.concatenate(variances)


def exact_prefixes() -> tuple[Floats, Floats]:
    """Means, and the covariance of prefixes: that of the nodes they have in common."""
    _, variances = exact_nodes()
    by_node = dict(zip(COVERED, np.split(variances, len(COVERED)), strict=True))
    sums = [DATA[: count + 1].sum(axis=(0, 1)) for count in range(BATCHES)]
    used = [set(TREE.tree.prefix(count + 1)) for count in range(BATCHES)]
    covariance = np.zeros((BATCHES * LAYOUT.size,) * 2)
    for one in range(BATCHES):
        for two in range(BATCHES):
            shared = sum((by_node[node] for node in used[one] & used[two]), np.zeros(LAYOUT.size))
            for label in range(LAYOUT.size):
                place = one * LAYOUT.size + label, two * LAYOUT.size + label
                covariance[place] = shared[label]
    return np.concatenate(sums), covariance


def apart(samples: Floats, means: Floats, covariance: Floats) -> float:
    """The largest score of means, variances and covariances; noise is close to Gaussian."""
    spread = np.sqrt(np.diag(covariance))
    shifted = (samples.mean(axis=0) - means) / spread * np.sqrt(len(samples))
    scaled = np.cov(samples.T) / np.outer(spread, spread)
    wanted = covariance / np.outer(spread, spread)
    errors = (scaled - wanted) / np.sqrt((1 + wanted**2) / len(samples))
    return float(max(np.abs(shifted).max(), np.abs(errors).max()))


@BOTH
def test_node_sums_have_their_exact_means_and_variances_and_no_covariance(path: Path) -> None:
    means, variances = exact_nodes()
    nodes, _ = path()
    assert nodes.shape[1] == 9 * LAYOUT.size
    assert apart(nodes, means, np.diag(variances)) < FAR


@BOTH
def test_prefix_estimates_have_the_covariance_of_their_common_nodes(path: Path) -> None:
    means, covariance = exact_prefixes()
    _, prefixes = path()
    assert apart(prefixes, means, covariance) < FAR


def test_the_shortcut_has_the_law_of_the_real_path() -> None:
    for found, wanted in zip(real(), quick(), strict=True):
        assert apart(found, wanted.mean(axis=0), np.cov(wanted.T)) < FAR * 1.05


def test_stated_variances_are_at_least_those_of_the_prefixes() -> None:
    _, covariance = exact_prefixes()
    running = PrefixSums(TREE.running_sum(), LAYOUT.size)
    for index in range(BATCHES):
        _, stated = running.add(index, np.zeros(LAYOUT.size * len(TREE.covers(index))))
        own = np.diag(covariance)[index * LAYOUT.size : (index + 1) * LAYOUT.size]
        assert np.all(own <= stated)
        assert np.all(own > 0.7 * stated)


def test_a_shortcut_that_shares_its_noise_over_levels_would_be_seen() -> None:
    means, variances = exact_nodes()
    nodes, _ = quick()
    shared = nodes.copy()
    # The last two columns of level 1 get the noise of the level 0 node before them.
    shared[:, 6:8] = means[6:8] + (nodes[:, 4:6] - means[4:6]) * np.sqrt(
        variances[6:8] / variances[4:6]
    )
    assert apart(shared, means, np.diag(variances)) > 10 * FAR
