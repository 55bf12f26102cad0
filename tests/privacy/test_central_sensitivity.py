"""Tree sensitivities against every placement of a user's rounds in small trees."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import pytest

from croupier.privacy.central import tree_levels, tree_sensitivity


def read_nodes(steps: int) -> set[tuple[int, int]]:
    """Leaf intervals that some prefix 1..steps reads, from its binary representation."""
    nodes = set()
    for prefix in range(1, steps + 1):
        start = 0
        for digit in range(prefix.bit_length() - 1, -1, -1):
            length = 1 << digit
            if prefix & length:
                nodes.add((start, start + length))
                start += length
    return nodes


def brute_force(steps: int, participations: int) -> float:
    nodes = read_nodes(steps)
    largest = 0
    for count in range(1, min(participations, steps) + 1):
        for placement in combinations(range(steps), count):
            moved = (sum(start <= leaf < stop for leaf in placement) for start, stop in nodes)
            largest = max(largest, sum(times**2 for times in moved))
    return math.sqrt(largest)


@pytest.mark.parametrize("steps", range(1, 14))
@pytest.mark.parametrize("participations", [1, 2, 3, 5, 20])
def test_the_worst_placement_is_found(steps: int, participations: int) -> None:
    assert math.isclose(
        tree_sensitivity(steps, participations), brute_force(steps, participations), rel_tol=1e-15
    )


def test_nodes_read_by_prefixes_are_the_left_children_and_no_leaf_is_missed() -> None:
    assert read_nodes(4) == {(0, 1), (0, 2), (2, 3), (0, 4)}
    covered = Counter(leaf for start, stop in read_nodes(8) for leaf in range(start, stop))
    assert covered[0] == 4
    assert covered[7] == 1


@pytest.mark.parametrize(("steps", "levels"), [(1, 1), (2, 2), (3, 2), (4, 3), (20_000, 15)])
def test_one_round_moves_one_node_on_each_level(steps: int, levels: int) -> None:
    assert tree_levels(steps) == levels == math.floor(math.log2(steps)) + 1
    assert tree_sensitivity(steps, 1) == math.sqrt(levels)


def test_the_papers_factor_is_an_upper_bound_that_is_not_reached() -> None:
    for participations in (2, 10, 100):
        crude = participations * math.sqrt(tree_levels(1000))
        assert tree_sensitivity(1000, participations) < crude


def test_a_user_in_every_round_moves_each_node_by_its_length() -> None:
    squares = sum((stop - start) ** 2 for start, stop in read_nodes(37))
    assert math.isclose(tree_sensitivity(37, 37), math.sqrt(squares), rel_tol=1e-15)
    assert tree_sensitivity(37, 1000) == tree_sensitivity(37, 37)


def test_more_rounds_of_a_user_never_move_less() -> None:
    values = [tree_sensitivity(50, count) for count in range(1, 60)]
    assert values == sorted(values)


@pytest.mark.parametrize(("steps", "participations"), [(0, 1), (5, 0)])
def test_empty_trees_and_absent_users_are_refused(steps: int, participations: int) -> None:
    with pytest.raises(ValueError, match="whole number of at least 1, got 0"):
        tree_sensitivity(steps, participations)
