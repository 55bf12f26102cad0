"""Groups of releases that tests are told about, and how the past pulls them (PROOF 9b)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

from croupier.privacy.groups import Kind, apart, pulls, together
from croupier.privacy.shares import any_shares, equal_shares, sizes

KINDS = [Kind(0.15, 2, 0.02), Kind(0.1, 4, 0.012), Kind(0.3, 1, 0.0)]


def test_kinds_apart_are_told_each_for_itself() -> None:
    found = apart(KINDS)
    assert [(group.share, group.widening) for group in found.groups] == [(0.3, 0.02), (0.4, 0.012)]
    first, second = found.groups
    assert (first.shares, second.shares) == (equal_shares(2), equal_shares(4))
    assert found.widening == 0.02
    assert found.mean == pytest.approx(0.3 * 0.02 + 0.4 * 0.012)
    squares = 0.3 * 0.02**2 + 0.4 * 0.012**2
    assert found.across == pytest.approx(squares - found.mean**2)
    shares = found.shares
    assert shares.left == pytest.approx([0.15, 0.3, 0.1, 0.2, 0.3, 0.4])
    assert shares.weights == pytest.approx([1, 1 / 2, *(0.6 / np.arange(1, 5))])


def test_kinds_together_have_the_largest_widening() -> None:
    found = together(KINDS)
    (group,) = found.groups
    assert group.share == pytest.approx(0.7)
    assert group.widening == 0.02
    assert group.shares.weights.sum() == any_shares(0.7 / 0.1).weights.sum()
    assert found.mean == pytest.approx(0.7 * 0.02)
    assert found.across == pytest.approx(0.7 * 0.3 * 0.02**2)


def test_one_kind_is_one_group() -> None:
    one = [Kind(0.25, 4, 0.01)]
    assert together(one) == apart(one)
    assert apart(one).mean == pytest.approx(0.01, rel=1e-15)
    assert apart(one).across == pytest.approx(0, abs=1e-18)
    assert pulls(one) == (equal_shares(4),)
    beside = [*one, Kind(0.0, 3, 0.0)]
    assert together(beside) == apart(beside) == apart(one)


# How far the past can pull a threshold, against orders that it decides.

GRID = np.linspace(-9, 9, 361)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
CHANCES = WEIGHTS / math.sqrt(2 * math.pi)


def best_pull(kinds: list[Kind], level: float) -> float:
    """The largest sum of e p |n| phi(n) over phi(level), by dynamic programming over the past."""
    moves = [(kind.share, kind.widening) for kind in kinds for _ in range(kind.number)]
    places = range(len(moves))
    values = {frozenset[int](): np.zeros_like(GRID)}
    for size in range(1, len(moves) + 1):
        for left in map(frozenset, itertools.combinations(places, size)):
            share = sum(moves[place][0] for place in left)
            ahead = (level - GRID) / math.sqrt(share)
            gains = [
                moves[place][1] * moves[place][0] / share * np.abs(ahead) * norm.pdf(ahead)
                + later(values[left - {place}], math.sqrt(moves[place][0]))
                for place in left
            ]
            values[left] = np.max(gains, axis=0)
    return float(np.interp(0.0, GRID, values[frozenset(places)]) / norm.pdf(level))


def later(values: np.ndarray, step: float) -> np.ndarray:
    ends = GRID[:, None] + step * NODES
    return np.asarray(np.interp(ends, GRID, values) @ CHANCES)


@pytest.mark.parametrize("level", [0.0, 0.6, 1.4, 2.5])
@pytest.mark.parametrize(
    "kinds",
    [
        [Kind(0.6, 1, 0.03), Kind(0.4, 1, 0.02)],
        [Kind(0.5, 1, 0.01), Kind(0.25, 2, 0.02)],
        [Kind(0.3, 1, 0.03), Kind(0.2, 2, 0.0), Kind(0.15, 2, 0.01)],
    ],
)
def test_no_order_that_the_past_decides_is_pulled_further(kinds: list[Kind], level: float) -> None:
    widest = max(kind.widening for kind in kinds)
    found = [widest * float(one.pull(np.array([level]))[0]) for one in pulls(kinds)]
    reached = best_pull(kinds, level)
    assert reached <= min(found) * (1 + 2e-3)
    assert min(found) <= 2.5 * reached


def test_the_two_pulls_are_each_as_the_last_and_the_widest_last() -> None:
    last, widest = pulls(KINDS)
    level = np.array([0.8])
    each = sum(
        kind.number * kind.widening * math.sqrt(kind.share) * size(kind.share, 0.8)
        for kind in KINDS
    )
    assert 0.02 * last.pull(level) == pytest.approx(each, rel=1e-12)
    # Within 0.3 of the end moves have all of the widening, within 0.7 a part, and before none.
    scales = widest.times / any_shares(10.0).times
    for left, scale in zip(widest.left, scales, strict=True):
        assert scale == pytest.approx(1 if left <= 0.3 else 0.6 if left <= 0.7 else 0, rel=1e-12)


def size(share: float, level: float) -> float:
    return float(sizes(np.array([math.sqrt(share) * level]), np.array([1 - share]))[0])
