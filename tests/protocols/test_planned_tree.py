from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from croupier.layouts import LightOffset
from croupier.privacy.shuffled_bits.tree import Tree
from croupier.protocols.planned_tree import NodeSums, PlannedTree, PrefixNodes
from croupier.protocols.running_sums import PrefixSums
from croupier.schedules import DoublingBatches, FixedBatches

SIZE = 2


def batch_sums(batches: int) -> np.ndarray:
    """Whole numbers ``(batches, trials, size)``, so that sums are exact."""
    return np.random.default_rng(0).integers(-9, 10, (batches, 3, SIZE)).astype(float)


def power(level: Any, start: Any) -> Any:
    return 10.0**level


@pytest.mark.parametrize(("batches", "levels"), [(7, 2), (9, 2), (8, 3), (23, 3), (5, 1)])
def test_sums_of_nodes_and_prefixes_are_those_of_their_batches(batches: int, levels: int) -> None:
    tree, sums = Tree(batches, levels), batch_sums(batches)
    nodes, prefix = NodeSums(tree), PrefixSums(PrefixNodes(tree, power), SIZE)
    for index in range(batches):
        parts = np.tile(sums[index], len(tree.holding(index)))
        closed = nodes.add(index, parts)
        wanted = [sums[node.start : node.stop].sum(axis=0) for node in tree.closing(index)]
        assert np.array_equal(closed, np.concatenate(wanted, axis=-1))
        total, variance = prefix.add(index, closed)
        assert np.array_equal(total, sums[: index + 1].sum(axis=0))
        assert variance == sum(10.0**level for level, _ in tree.prefix(index + 1))


def test_only_the_largest_closing_node_is_added_to_a_prefix() -> None:
    prefix = PrefixSums(PrefixNodes(Tree(4, 2), power), 1)
    prefix.add(0, np.array([5.0]))
    total, variance = prefix.add(1, np.array([100.0, 7.0]))
    assert (total.tolist(), variance) == ([7.0], 10.0)


def test_users_of_a_node_are_those_of_its_batches() -> None:
    planned = PlannedTree(LightOffset(2), DoublingBatches(3, 45), 2, honest_fraction=0.5)
    assert [planned.users(node) for node in (range(1), range(2), range(2, 4))] == [3, 9, 36]
    # Rounded down in every batch: 1 + 3, not the half of 9.
    assert [planned.honest(node) for node in (range(1), range(2), range(2, 4))] == [1, 4, 18]


def test_a_node_hides_the_most_reports_and_all_levels_together() -> None:
    planned = PlannedTree(LightOffset(2), FixedBatches(5, 80), 2)
    batch = planned.batch(1, range(4, 8), 3)
    assert (batch.users, batch.honest_users, batch.reports) == (20, 20, 3)
    assert batch.participations == planned.squares(3) == 3 + 9
