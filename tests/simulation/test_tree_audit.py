from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from croupier.coins import Coins
from croupier.plan import Plan
from croupier.privacy.guarantee import Guarantee
from croupier.privacy.shuffled_bits.calibration import fewest_bits
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve
from croupier.protocols.base import Floats, Mechanism, Release
from croupier.protocols.concurrent_tree import ConcurrentTree
from croupier.protocols.tree_release import ConcurrentTreeRelease, channel
from croupier.protocols.vector_release import STEP_POWER
from croupier.shuffler import Messages
from croupier.simulation.audit import audit

# Every audit has a fixed seed. An honest plan is flagged with probability 0.1 % at most over
# seeds; how sure a fault is to be found is beside its test, in standard deviations of the bound.


@cache
def certified(**changes: Any) -> Plan:
    asked: dict[str, Any] = {
        "dim": 2,
        "batches": "fixed",
        "batch_size": 20,
        "horizon": 2000,
        "epsilon": 1.0,
        "delta": 1e-5,
    }
    return Plan.calibrate("concurrent-tree", **{**asked, **changes})


def tree_of(plan: Plan) -> ConcurrentTree:
    assert isinstance(plan.mechanism, ConcurrentTree)
    return plan.mechanism


HONEST: list[dict[str, Any]] = [
    {},
    {"dim": 5},
    {"max_participations": 3},
    {"max_participations": 4, "levels": 2},
    {"batches": "growing", "horizon": 3000, "levels": 2},
    {"batches": "growing", "horizon": 1500, "levels": 2, "max_participations": 4},
    {"batches": "doubling", "horizon": 3000, "levels": 2},
    {"batch_size": 30, "honest_fraction": 2 / 3},
]


@pytest.mark.parametrize("changes", HONEST, ids=str)
def test_an_honest_tree_passes(changes: dict[str, Any]) -> None:
    report = audit(certified(**changes), trials=20_000)
    assert report.guarantee.proved
    assert report.mu_estimate is not None
    assert not report.flagged


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("changes", HONEST, ids=str)
def test_an_honest_tree_passes_in_long_runs(changes: dict[str, Any], seed: int) -> None:
    assert not audit(certified(**changes), seed=seed).flagged


@pytest.mark.parametrize("present", [1, 4])
def test_an_honest_tree_almost_reaches_its_certificate(present: int) -> None:
    plan = certified(levels=2, max_participations=present)
    report = audit(plan, trials=100_000)
    assert report.mu_certified is not None
    assert report.mu_estimate is not None
    # The estimate has a standard deviation of 0.006; rounding hides up to a tenth.
    assert 0.85 * report.mu_certified - 0.03 < report.mu_estimate < report.mu_certified + 0.03


def test_a_view_has_one_block_for_nodes_that_are_alike() -> None:
    tree = tree_of(certified(levels=2, max_participations=4))
    pair, rng = np.zeros((2, tree.layout.size)), np.random.default_rng(0)
    for batches, blocks in ((1, 2), (4, 2), (10, 2), (11, 3), (20, 2)):
        seen = tree.sample_view(pair, 0, batches, 3, rng)
        assert seen.shape == (3, blocks * tree.layout.size)


def test_a_view_moves_by_all_reports_of_the_user() -> None:
    tree = tree_of(certified(levels=2))
    size, rng = tree.layout.size, np.random.default_rng(1)
    row = tree.layout.encode(np.array([0.6, 0.8]), np.asarray(1.0))
    seen = tree.sample_view(np.array([row, row]), 0, 12, 4000, rng)
    wanted = np.concatenate([12 * row, 10 * row, 2 * row])
    # Twelve leaves, a node of ten and one of two; 5.5 standard deviations for 15 means: 6e-7.
    assert seen.shape == (4000, 3 * size)
    assert np.abs((seen.mean(axis=0) - wanted) / seen.std(axis=0)).max() * np.sqrt(4000) < 5.5


# Accounting.


def test_the_root_of_batches_times_levels_is_refuted_for_users_who_return_to_a_node() -> None:
    present, plan = 16, certified(levels=2, horizon=20 * 256)
    tree, layout = tree_of(plan), plan.layout
    assert (tree.tree.fan_out, plan.budget is not None) == (16, True)
    sizes = [20, 320]
    found = [
        fewest_bits(
            plan.budget,  # type: ignore[arg-type]
            users=users,
            honest_fraction=1.0,
            sensitivity=layout.device_sensitivity,
            ranges=layout.high - layout.low,
            participations=present * 2,
            overhead=0.05,
        )
        for users in sizes
    ]
    grids, bits = zip(*found, strict=True)
    release = ConcurrentTreeRelease(layout, 20, tuple(sizes), grids, bits)
    wrong = replace(plan, mechanism=replace(tree, releases=(release,)))
    counted = replace(wrong, terms=replace(plan.terms, max_participations=present))
    curve = BinomialCurve(
        tuple(
            (CountRelease(users * count, 0.5, grid * layout.device_sensitivity, layout.size), 16)
            for users, grid, count in zip(sizes, grids, bits, strict=True)
        )
    )
    claimed = Guarantee("sqrt(batches * levels)", curve)
    assert claimed.delta(1.0) <= 1e-5
    assert counted.promise.delta(1.0) > 0.1
    report = audit(counted, trials=20_000, guarantee=claimed)
    # 0.27 is claimed and 0.75 measured, with a standard deviation of 0.013.
    assert report.promise_refuted
    assert report.budget_refuted
    assert report.delta_lower is not None
    assert report.delta_lower > 1000 * claimed.delta(1.0)
    assert not audit(counted, trials=20_000, guarantee=counted.promise).promise_refuted


# Coins and rounding.


class SeesEveryNode(ConcurrentTree):
    """Shows the audit all nodes of the first top node, not only those that hold the user."""

    def sample_view(
        self, pair: Floats, truth: int, batches: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        collector, released = self.collector(rng), []
        for index in range(self.tree.width(self.tree.levels - 1)):
            rows = np.zeros((self.release(index).users, self.layout.size))
            rows[0] = pair[truth] if index == 0 else 0.0
            released.append(collector.add(index, np.broadcast_to(rows, (trials, *rows.shape))))
        return np.hstack(released)


class CoinsOnce(ConcurrentTreeRelease):
    """Devices that throw their coins once and use them on every level."""

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        noise = self.nodes[0].sample_noise(contributions[..., 0, :].shape, rng)
        parts = []
        for node in self.nodes:
            floor, left = node.steps(contributions)
            ones = (floor + (rng.random(left.shape) < left)).sum(axis=-2)
            parts.append(node.settle(ones + noise, self.users))
        return np.concatenate(parts, axis=-1)


class Replayed(Coins):
    """Repeats the draws of roundings, or of noise, that were made for the level before."""

    def __init__(self, coins: Coins, sizes: set[int]) -> None:
        self._coins, self._sizes = coins, sizes
        self._made: list[int] = []
        self._next = 0

    def again(self) -> Replayed:
        self._next = 0
        return self

    def token(self, count: int) -> bytes:
        return self._coins.token(count)

    def discrete_gaussian(self, scale: float, count: int) -> Any:
        raise NotImplementedError

    def bits(self, count: int) -> int:
        if count not in self._sizes:
            return super().bits(count)
        if self._next == len(self._made):
            self._made.append(super().bits(count))
        self._next += 1
        return self._made[self._next - 1]


class Replaying(ConcurrentTreeRelease):
    """A device that reuses some of its draws over levels."""

    def reused(self) -> set[int]:
        raise NotImplementedError

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        replayed = Replayed(coins, self.reused())
        return {
            channel(level, label): rows
            for level, node in enumerate(self.nodes)
            for label, rows in node.randomize(contribution, replayed.again()).items()
        }


class ReusesRounding(Replaying):
    def reused(self) -> set[int]:
        return {STEP_POWER}


class ReusesCoins(Replaying):
    def reused(self) -> set[int]:
        return set(self.noise_bits)


def planted(kind: type[Release], plan: Plan, own: dict[str, Any], users: int = 4) -> Mechanism:
    """All nodes of a small tree, with releases that may have a fault."""
    release = kind(plan.layout, users, **own)
    return SeesEveryNode(plan.layout, plan.schedule, (release,))


@cache
def small() -> Plan:
    return certified(dim=1, batch_size=4, horizon=16, levels=2, epsilon=2.0, delta=1e-3)


EQUAL_BITS = {"node_users": (4, 8), "grids": (6.0, 8.5), "noise_bits": (200, 200)}
EQUAL_GRIDS = {"node_users": (4, 8), "grids": (3.25, 3.25)}


def test_coins_reused_over_levels_are_flagged() -> None:
    honest = planted(ConcurrentTreeRelease, small(), EQUAL_BITS)
    claimed = honest.guarantee()
    assert claimed.proved
    wrong = planted(CoinsOnce, small(), EQUAL_BITS)
    assert not audit(small(), trials=50_000, mechanism=honest, guarantee=claimed).promise_refuted
    report = audit(small(), trials=50_000, mechanism=wrong, guarantee=claimed)
    # 0.65 is claimed and 2.1 measured: a node minus its children has no noise left.
    assert report.promise_refuted
    assert report.mu_lower is not None
    assert report.mu_lower > 1.5


@pytest.mark.parametrize(("kind", "bits"), [(ReusesRounding, 0), (ReusesCoins, 40)])
def test_draws_that_devices_reuse_over_levels_are_flagged(kind: type[Release], bits: int) -> None:
    # No test of sums can see reused rounding: it costs a factor 13 at a delta of 1e-8
    # (test_node_bits). Devices that do it differ from the law by correlations above 0.9, which
    # show in 30 runs by 7 standard deviations at least.
    own = {**EQUAL_GRIDS, "noise_bits": (bits, bits)}
    honest = planted(ConcurrentTreeRelease, small(), own)
    report = audit(small(), trials=1000, mechanism=honest, device_seconds=0.5)
    assert report.devices is not None
    # Devices cannot be seeded, so this fails once in 100,000 runs.
    assert not report.devices_differ
    report = audit(small(), trials=1000, mechanism=planted(kind, small(), own), device_seconds=0.5)
    assert report.devices_differ
    assert report.flagged
