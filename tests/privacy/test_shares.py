"""Which part of the way each release is, and how the past can pull thresholds (PROOF 9)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from croupier.privacy.shares import Shares, any_shares, equal_shares, sizes


def size(mean: float, root: float) -> float:
    return float(sizes(np.array([mean]), np.array([1 - root**2]))[0])


def gained(level: float, left: float) -> float:
    """E|y phi(y)| / phi(level), y = (level - past) / sqrt(left), by integration."""

    def at(past: float) -> float:
        ahead = (level - past) / math.sqrt(left)
        return abs(ahead) * norm.pdf(ahead) * norm.pdf(past, scale=math.sqrt(1 - left))

    if left == 1:
        return level
    whole = quad(at, level - 9, level, limit=200)[0] + quad(at, level, level + 9, limit=200)[0]
    return float(whole / norm.pdf(level))


@pytest.mark.parametrize("number", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("level", [0.0, 0.4, 1.5, 3.0])
def test_the_past_pulls_every_move_by_its_share_of_what_is_left(number: int, level: float) -> None:
    exact = sum(gained(level, left / number) / left for left in range(1, number + 1))
    found = float(equal_shares(number).pull(np.array([level]))[0])
    assert exact - 1e-9 <= found <= 1.1 * exact + 1e-9
    if number <= 3:
        assert found == pytest.approx(exact, abs=1e-7)


def test_no_way_of_the_same_length_is_pulled_further() -> None:
    """Moves of random lengths, the last at least its part of all."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        lengths = rng.uniform(0.2, 1.0, int(rng.integers(2, 6)))
        lengths /= lengths.sum()
        lefts = lengths[::-1].cumsum()[::-1]
        level = float(rng.uniform(0, 3))
        exact = sum(
            gained(level, min(float(left), 1.0)) * length / left
            for length, left in zip(lengths, lefts, strict=True)
        )
        bound = float(any_shares(1 / float(lengths.min())).pull(np.array([level]))[0])
        assert exact <= bound + 1e-9
        # The limit of ever shorter moves.
        assert bound <= 1.1 * quad(lambda root, y=level: 2 * size(root * y, root), 0, 1)[0]


def test_the_mean_size_of_normal_numbers() -> None:
    for mean, variance in ((0.0, 1.0), (-1.3, 0.4), (2.0, 1e-3), (0.7, 3.0)):
        scale = math.sqrt(variance)
        exact = quad(lambda x, m=mean, s=scale: abs(m + s * x) * norm.pdf(x), -12, -mean / scale)[0]
        exact += quad(lambda x, m=mean, s=scale: abs(m + s * x) * norm.pdf(x), -mean / scale, 12)[0]
        found = float(sizes(np.array([mean]), np.array([variance]))[0])
        assert found == pytest.approx(exact, rel=1e-7)
    assert sizes(np.array([-3.0, 0.0]), np.zeros(2)).tolist() == [3.0, pytest.approx(0, abs=1e-99)]


@pytest.mark.parametrize("number", [1, 2, 3, 10, 400])
def test_groups_of_moves_count_them_all(number: int) -> None:
    shares = equal_shares(number)
    counts = np.arange(1, number + 1)
    assert shares.weights.sum() == pytest.approx((1 / counts).sum(), rel=1e-12)
    assert shares.times.sum() == pytest.approx(1, rel=1e-12)
    assert (shares.left[0], shares.times[0], shares.weights[0]) == (1 / number, 1 / number, 1.0)
    # Up to every share the groups have no less weight, and no less time, than the moves themselves.
    for share in counts / number:
        held, passed = shares.left <= share * (1 + 1e-12), counts / number <= share * (1 + 1e-12)
        assert shares.weights[held].sum() >= (1 / counts[passed]).sum() - 1e-12
        assert shares.times[held].sum() >= np.count_nonzero(passed) / number - 1e-12


@pytest.mark.parametrize("number", [2.0, 7.3, 1e4])
def test_groups_of_any_moves_are_one_and_an_integral(number: float) -> None:
    shares = any_shares(number)
    assert shares.weights.sum() == pytest.approx(1 + math.log(number), rel=1e-12)
    assert shares.times.sum() == pytest.approx(1, rel=1e-12)
    assert shares.left[0] == shares.left[1] == shares.times[0] == pytest.approx(1 / number)
    ends = np.append(shares.left[2:], 1.0)
    assert shares.times[1:] == pytest.approx(ends - shares.left[1:], rel=1e-9, abs=0)
    assert shares.weights[1:] == pytest.approx(np.log(ends / shares.left[1:]), rel=1e-9)
    assert np.all(ends / shares.left[1:] <= 1.25 * (1 + 1e-9))


def test_one_move_is_pulled_by_its_level() -> None:
    one = Shares(np.ones(1), np.ones(1), np.ones(1))
    assert one.pull(np.array([0.0, 0.7, 4.0])) == pytest.approx([0.0, 0.7, 4.0], abs=1e-12)
