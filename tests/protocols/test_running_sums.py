from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from croupier.layouts import LightOffset
from croupier.plan import Plan
from croupier.privacy.shuffled_bits.tree import Tree
from croupier.protocols.base import FreshNoise
from croupier.protocols.planned_tree import PrefixNodes
from croupier.protocols.running_sums import Correlated, Floats, Fold, Part, PrefixSums, RunningSum
from croupier.protocols.vector_release import VectorSumRelease
from croupier.protocols.vector_sum import VectorSum
from croupier.schedules import DoublingBatches

Log = tuple[tuple[int, int], ...]


def logged(known: Log, part: Part) -> Log:
    return (*known, (part.start, part.stop))


class Scripted(RunningSum):
    """Parts by script; ``kept`` are the starts of later ones."""

    def __init__(self, parts: list[tuple[int, int] | None], kept: Collection[int] | None = None):
        self._parts = parts
        self._kept = kept

    def part(self, index: int, sums: Floats) -> Part | None:
        told = self._parts[index]
        return told and Part(*told, sums, 1.0)

    def starts(self, stop: int) -> Collection[int]:
        return range(stop + 1) if self._kept is None else self._kept


class Everything(Correlated):
    """Each part is the whole prefix."""

    def part(self, index: int, sums: Floats) -> Part:
        return Part(0, index + 1, sums, 10.0 * (index + 1))


def ten_times(level: Any, start: Any) -> Any:
    return 10.0**level


def played(running: RunningSum, batches: int) -> list[Log]:
    """What is known after each batch."""
    fold: Fold[Log] = Fold(running, (), logged)
    return [fold.add(running.part(index, np.zeros(1)), index + 1) for index in range(batches)]


def test_a_part_is_learnt_by_the_state_before_it() -> None:
    assert played(Scripted([(0, 1), (0, 2), (2, 3), (2, 4)]), 4) == [
        ((0, 1),),
        ((0, 2),),
        ((0, 2), (2, 3)),
        ((0, 2), (2, 4)),
    ]


def test_a_batch_without_a_part_leaves_the_state_and_may_start_one() -> None:
    assert played(Scripted([None, (1, 2), None, (3, 4)]), 4) == [
        (),
        ((1, 2),),
        ((1, 2),),
        ((1, 2), (3, 4)),
    ]


def test_only_states_with_which_a_part_may_start_are_kept() -> None:
    with pytest.raises(KeyError):
        played(Scripted([(0, 1), (0, 2)], kept=()), 2)
    assert played(Scripted([(0, 1), (0, 2), (0, 3)], kept=(0,)), 3)[-1] == ((0, 3),)


def test_parts_of_fresh_noise_are_the_batches() -> None:
    layout, sizes = LightOffset(1), DoublingBatches(3, 45)
    releases = tuple(VectorSumRelease(layout, users, 2.0, 5, 0.5) for users in sizes.sizes())
    made = VectorSum(layout, sizes, releases)
    running = FreshNoise(made)
    assert played(running, 4)[-1] == ((0, 1), (1, 2), (2, 3), (3, 4))
    sums = np.arange(4.0 * layout.size).reshape(4, layout.size)
    prefix = PrefixSums(running, layout.size)
    for index in range(4):
        total, variance = prefix.add(index, sums[index])
        assert np.array_equal(total, sums[: index + 1].sum(axis=0))
        assert variance == pytest.approx(sum(one.noise_std**2 for one in releases[: index + 1]))


@pytest.mark.parametrize(("batches", "levels"), [(8, 3), (23, 3), (9, 2)])
def test_parts_of_a_tree_are_the_complete_nodes_of_a_prefix(batches: int, levels: int) -> None:
    tree = Tree(batches, levels)
    running = PrefixNodes(tree, ten_times)
    fold: Fold[Log] = Fold(running, (), logged)
    for index in range(batches):
        closed = np.zeros(len(tree.closing(index)))
        known = fold.add(running.part(index, closed), index + 1)
        nodes = sorted((node.start, node.stop) for _, node in tree.prefix(index + 1))
        assert sorted(known) == nodes
        assert len(running.starts(index + 1)) <= levels


def test_correlated_sums_are_learnt_from_the_start_every_time() -> None:
    assert played(Everything(), 3) == [((0, 1),), ((0, 2),), ((0, 3),)]
    prefix = PrefixSums(Everything(), 1)
    for index, told in enumerate((5.0, 7.0, 11.0)):
        total, variance = prefix.add(index, np.array([told]))
        assert (total.tolist(), variance) == ([told], 10.0 * (index + 1))


def test_nothing_can_be_drawn_ahead_unless_a_mechanism_says_so() -> None:
    assert Everything().ahead(np.zeros((2, 1))) is None


@pytest.mark.parametrize("changes", [{}, {"batches": "growing"}, {"batches": "doubling"}])
@pytest.mark.parametrize("protocol", ["vector-sum", "concurrent-tree"])
def test_what_is_drawn_ahead_makes_the_parts_that_come(
    protocol: str, changes: dict[str, str]
) -> None:
    """Noise of batches and of the nodes that they are in, in two goes."""
    asked: dict[str, Any] = {"batches": "fixed", **changes}
    plan = Plan.calibrate(
        protocol, dim=2, batch_size=20, horizon=300, epsilon=5.0, delta=1e-4, **asked
    )
    made, batches, size = plan.mechanism, plan.schedule.batches, plan.layout.size
    most = max(len(made.covers(index)) for index in range(batches))
    levels = getattr(made, "tree", None)
    shares = most if levels is None else levels.levels
    fresh = np.random.default_rng(0).integers(-9, 10, (batches, shares * size)).astype(float)
    ahead, cut = made.running_sum(), batches // 2
    first, second = ahead.ahead(fresh[:cut].copy()), ahead.ahead(fresh[cut:].copy())
    assert first is not None
    assert second is not None
    noise, variances, starts = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    running = made.running_sum()
    for index in range(batches):
        rows = fresh[: index + 1].reshape(index + 1, shares, size)
        nodes = [rows[node.start : node.stop, level].sum(axis=0)
                 for level, node in enumerate(made.covers(index))]  # fmt: skip
        part = running.part(index, np.concatenate(nodes))
        assert part is not None
        assert (part.start, part.stop) == (starts[index], index + 1)
        assert np.array_equal(part.sums, noise[index])
        assert part.variance == pytest.approx(variances[index])
