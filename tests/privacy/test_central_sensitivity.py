"""Sensitivities against every placement of a user's rounds in a few steps."""

from __future__ import annotations

import math
import time
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from croupier.privacy.central import (
    Floats,
    fresh_sensitivity,
    fresh_variance,
    toeplitz_coefficients,
    toeplitz_sensitivity,
    toeplitz_variance,
    tree_levels,
    tree_sensitivity,
    tree_variance,
)


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


@pytest.mark.parametrize(("steps", "present", "batches"), [(5, 1, 1), (5, 3, 3), (5, 9, 5)])
def test_releases_of_their_own_add_up_as_squares(steps: int, present: int, batches: int) -> None:
    assert fresh_sensitivity(steps, present) == math.sqrt(batches)
    assert fresh_variance(steps) == steps
    with pytest.raises(ValueError, match="participations"):
        fresh_sensitivity(steps, 0)


def test_more_rounds_of_a_user_never_move_less() -> None:
    values = [tree_sensitivity(50, count) for count in range(1, 60)]
    assert values == sorted(values)


@pytest.mark.parametrize(("steps", "participations"), [(0, 1), (5, 0)])
def test_empty_trees_and_absent_users_are_refused(steps: int, participations: int) -> None:
    for sensitivity in (tree_sensitivity, toeplitz_sensitivity):
        with pytest.raises(ValueError, match="whole number of at least 1, got 0"):
            sensitivity(steps, participations)


def test_no_prefix_has_no_variance() -> None:
    for variance in (tree_variance, toeplitz_variance):
        with pytest.raises(ValueError, match="steps must be a whole number of at least 1, got 0"):
            variance(0)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 100])
def test_the_trees_worst_prefix_has_the_most_set_bits(steps: int) -> None:
    assert tree_variance(steps) == max(step.bit_count() for step in range(1, steps + 1))


@pytest.mark.parametrize("participations", [1, 100, 10_000, 20_000])
def test_long_horizons_with_many_returns_are_quick(participations: int) -> None:
    start = time.perf_counter()
    tree_sensitivity(20_001, participations)
    toeplitz_sensitivity(20_001, participations)
    assert time.perf_counter() - start < 5.0


def root(steps: int) -> Floats:
    """The lower triangular Toeplitz matrix of the coefficients ``(steps, steps)``."""
    rows, columns = np.indices((steps, steps))
    return np.where(rows >= columns, toeplitz_coefficients(steps)[np.abs(rows - columns)], 0.0)


@pytest.mark.parametrize("steps", [1, 2, 3, 17, 300])
def test_the_root_times_itself_adds_up_prefixes(steps: int) -> None:
    prefixes = np.tril(np.ones((steps, steps)))
    assert root(steps) @ root(steps) == pytest.approx(prefixes, abs=1e-12)


def test_coefficients_are_central_binomials_over_powers_of_four() -> None:
    exact = [math.comb(2 * index, index) / 4**index for index in range(400)]
    assert toeplitz_coefficients(400) == pytest.approx(exact, rel=1e-13)
    assert toeplitz_coefficients(1).tolist() == [1.0]


@pytest.mark.parametrize("steps", range(1, 13))
@pytest.mark.parametrize("participations", [1, 2, 3, 5, 20])
def test_the_first_steps_are_a_users_worst(steps: int, participations: int) -> None:
    columns = root(steps)
    placements = [
        list(placement)
        for count in range(1, min(participations, steps) + 1)
        for placement in combinations(range(steps), count)
    ]
    largest = max(np.linalg.norm(columns[:, chosen].sum(axis=1)) for chosen in placements)
    assert toeplitz_sensitivity(steps, participations) == pytest.approx(largest, rel=1e-13)


@pytest.mark.parametrize("steps", [1, 5, 1000])
def test_one_step_moves_as_much_as_a_prefix_carries_noise(steps: int) -> None:
    assert toeplitz_sensitivity(steps, 1) ** 2 == pytest.approx(toeplitz_variance(steps))
    exact = math.fsum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(min(steps, 400)))
    assert toeplitz_variance(min(steps, 400)) == pytest.approx(exact, rel=1e-13)


def test_a_user_of_every_step_moves_the_sums_of_the_coefficients() -> None:
    moved = root(50).sum(axis=1)
    assert toeplitz_sensitivity(50, 50) == pytest.approx(np.linalg.norm(moved), rel=1e-13)
    assert toeplitz_sensitivity(50, 1000) == toeplitz_sensitivity(50, 50)


def test_opposite_changes_in_several_steps_move_less_than_equal_ones() -> None:
    rng = np.random.default_rng(0)
    changes = rng.normal(size=(200, 4, 3))
    changes /= np.linalg.norm(changes, axis=-1, keepdims=True)
    columns = root(9)[:, rng.permuted(np.tile(np.arange(9), (200, 1)), axis=1)[:, :4]]
    moved = np.sqrt((np.einsum("skc,kcd->skd", columns, changes) ** 2).sum(axis=(0, 2)))
    assert moved.max() < toeplitz_sensitivity(9, 4)


@pytest.mark.parametrize(
    ("steps", "tree", "toeplitz"), [(100, 6.5, None), (1000, 9.5, None), (20_000, 14.5, 4.2)]
)
def test_prefix_noise_is_that_of_the_notes(steps: int, tree: float, toeplitz: float | None) -> None:
    # MATH 6.1 and 6.4, in units of sensitivity over mu, for users who come once.
    binary = tree_sensitivity(steps, 1) * math.sqrt(tree_variance(steps))
    root_noise = toeplitz_sensitivity(steps, 1) * math.sqrt(toeplitz_variance(steps))
    assert binary == pytest.approx(tree, abs=0.051)
    assert root_noise < binary / 2
    assert toeplitz is None or root_noise == pytest.approx(toeplitz, abs=0.051)
