from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from croupier.privacy.shuffled_bits.tree import Tree, usual_levels


def trees(most: int = 40) -> list[Tree]:
    """Every tree of up to ``most`` batches."""
    found = []
    for batches, levels in itertools.product(range(1, most + 1), range(1, 7)):
        try:
            found.append(Tree(batches, levels))
        except ValueError:
            continue
    return found


EVERY = trees()
SMALL = [tree for tree in EVERY if tree.batches <= 9]


def binary(batches: int) -> int:
    return (batches - 1).bit_length()


@pytest.mark.parametrize(
    ("batches", "noise"),
    [
        (100, (10.0, 6.0, 5.7, 6.0, 6.5)),
        (1000, (31.6, 11.0, 9.0, 8.5, 9.5)),
        (20000, (141.4, 23.7, 15.3, 13.1, 14.5)),
    ],
)
def test_prefix_noise_is_that_of_the_table(batches: int, noise: tuple[float, ...]) -> None:
    # MATH 6.1 prints 11.1 for 1000 batches on 2 levels: 62 nodes, which only 1023 batches have.
    found = [Tree(batches, levels).prefix_noise for levels in (1, 2, 3, 4, binary(batches))]
    assert found == pytest.approx(noise, abs=0.05)


@given(root=st.integers(2, 10**6), levels=st.integers(1, 6), more=st.integers(-1, 1))
def test_the_fan_out_is_the_exact_ceiling_of_the_root(root: int, levels: int, more: int) -> None:
    batches = root**levels + more
    assume((root + 1) ** (levels - 1) <= batches)
    found = Tree(batches, levels).fan_out
    assert found**levels >= batches
    assert found == 2 or (found - 1) ** levels < batches


def test_a_prefix_is_covered_once_by_as_few_nodes_as_there_can_be() -> None:
    for tree in EVERY:
        for count in range(tree.batches + 1):
            nodes = tree.prefix(count)
            assert [index for _, node in nodes for index in node] == list(range(count))
            assert all(node == tree.node(level, node.start) for level, node in nodes)
            assert all(len(node) == tree.width(level) for level, node in nodes)
            assert len(nodes) == fewest(tree, count)


def fewest(tree: Tree, count: int) -> int:
    """Nodes of a cover of the prefix, by trying every last node."""
    best = [0]
    for stop in range(1, count + 1):
        widths = [w for w in map(tree.width, range(tree.levels)) if stop % w == 0]
        best.append(1 + min(best[stop - width] for width in widths))
    return best[count]


def test_most_nodes_is_the_largest_prefix() -> None:
    for tree in EVERY:
        assert tree.most_nodes == max(len(tree.prefix(m)) for m in range(1, tree.batches + 1))


def test_every_complete_node_closes_once_with_its_last_batch() -> None:
    for tree in EVERY:
        closed = [
            (level, node)
            for index in range(tree.batches)
            for level, node in enumerate(tree.closing(index))
        ]
        wanted = {
            (level, range(j * tree.width(level), (j + 1) * tree.width(level)))
            for level in range(tree.levels)
            for j in range(tree.nodes(level))
        }
        assert len(closed) == len(wanted)
        assert set(closed) == wanted
        for index in range(tree.batches):
            assert all(node.stop == index + 1 for node in tree.closing(index))


def test_a_batch_is_in_the_complete_nodes_of_its_lowest_levels() -> None:
    for tree in EVERY:
        for index in range(tree.batches):
            holding = tree.holding(index)
            every = [tree.node(level, index) for level in range(tree.levels)]
            assert list(holding) == [node for node in every if node.stop <= tree.batches]
            assert list(holding) == every[: len(holding)]
            assert all(index in node for node in holding)


def test_the_first_batch_is_in_a_node_of_every_level() -> None:
    assert all(len(tree.holding(0)) == tree.levels for tree in EVERY)


def test_no_placement_has_larger_squares_than_the_worst_one() -> None:
    for tree in SMALL:
        for present in range(1, tree.batches + 1):
            worst = [0] * tree.levels
            for placed in itertools.combinations(range(tree.batches), present):
                found = [squares(tree, level, placed) for level in range(tree.levels)]
                worst = list(map(max, worst, found))
            stated = [tree.worst_squares(level, present) for level in range(tree.levels)]
            assert stated == worst
            # All levels at once, by the first batches.
            first = range(present)
            assert stated == [squares(tree, level, tuple(first)) for level in range(tree.levels)]


def squares(tree: Tree, level: int, placed: tuple[int, ...]) -> int:
    nodes = [range(j * tree.width(level), (j + 1) * tree.width(level)) for j in range(100)]
    held = [sum(index in node for index in placed) for node in nodes[: tree.nodes(level)]]
    return sum(own**2 for own in held)


def test_squares_grow_with_participations_and_bound_the_nodes_that_hold_the_user() -> None:
    for tree in EVERY:
        for level in range(tree.levels):
            found = [tree.worst_squares(level, present) for present in range(1, tree.batches + 1)]
            assert found == sorted(found)
            inside = tree.nodes(level) * tree.width(level)
            assert all(square >= min(m, inside) for m, square in enumerate(found, 1))
            assert tree.most_reports(level, tree.batches) == tree.width(level)
            assert tree.most_reports(level, 1) == 1


def test_the_usual_levels_have_the_least_prefix_noise_of_at_most_three() -> None:
    for batches in (1, 2, 5, 9, 10, 19, 24, 100, 1000, 10_000):
        possible = [tree for tree in trees(24) if tree.batches == batches] or [
            Tree(batches, levels) for levels in (1, 2, 3)
        ]
        least = min(tree.prefix_noise for tree in possible if tree.levels <= 3)
        assert Tree(batches, usual_levels(batches)).prefix_noise == least
    assert [usual_levels(batches) for batches in (1, 6, 10, 100, 20_000)] == [1, 1, 2, 3, 3]


@pytest.mark.parametrize(
    ("batches", "levels", "named"),
    [
        (0, 1, "batches"),
        (5, 0, "levels"),
        (1, 2, "levels must leave every level a complete node.*nodes of 2, got 2"),
        (33, 5, "nodes of 81, got 5"),
    ],
)
def test_a_tree_without_complete_nodes_is_refused(batches: int, levels: int, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Tree(batches, levels)


def test_batches_outside_the_tree_are_refused() -> None:
    tree = Tree(9, 2)
    for index in (-1, 9):
        with pytest.raises(ValueError, match=f"index must be below the 9 batches, got {index}"):
            tree.holding(index)
    for count in (-1, 10):
        with pytest.raises(ValueError, match=f"count must be between 0 and 9, got {count}"):
            tree.prefix(count)
    for ask in (tree.most_reports, tree.worst_squares):
        with pytest.raises(ValueError, match="present must be a whole number of at least 1, got 0"):
            ask(0, 0)


def test_one_level_is_fresh_noise() -> None:
    tree = Tree(50, 1)
    assert tree.prefix_noise == pytest.approx(math.sqrt(50))
    assert all(len(tree.closing(index)) == 1 for index in range(50))
