"""Moves so far that tails are put where they are, against exact privacy of few labels (PROOF 4a).

One, two and three labels share a way in all proportions; epsilons are in the tens and hundreds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from croupier.privacy.shuffled_bits.count_release import FAR, CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve

from .counts import Floats, losses_delta, rounded_losses

STEP = 0.02
SHARES = [(1.0,), (0.999, 0.045), (0.9, 0.436), (0.71, 0.704), (0.6, 0.8), (0.58, 0.58, 0.572)]


def exact_deltas(coins: int, pairs: list[tuple[float, float]], epsilons: Floats) -> Floats:
    lowest, masses = 0, np.ones(1)
    for first, second in pairs:
        low, more = rounded_losses(coins, first, second, STEP)
        lowest, masses = lowest + low, np.convolve(masses, more)
    return np.array([losses_delta(lowest, masses, STEP, one) for one in epsilons.tolist()])


CASES = list(itertools.product([(500, 60.0), (501, 93.3), (800, 240.7), (2000, 410.2)], [3, 20]))


@pytest.mark.parametrize(("setting", "labels"), CASES)
def test_no_way_of_sharing_a_far_move_is_worse_than_certified(
    setting: tuple[int, float], labels: int
) -> None:
    coins, distance = setting
    curve = BinomialCurve(((CountRelease(coins, 0.5, distance, labels), 1),))
    assert curve.mu_at(1e-6) > FAR
    epsilons = np.array([curve.epsilon(delta) for delta in (1e-9, 1e-6, 1e-3, 0.03, 0.2)])
    certified = np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
    worst = 0.0
    for shares, start in itertools.product(SHARES, (0.0, 0.5)):
        moves = [distance * share / math.hypot(*shares) for share in shares]
        pairs = [(start, start + move) for move in moves]
        for ways in (pairs, [(second, first) for first, second in pairs]):
            worst = max(worst, float((exact_deltas(coins, ways, epsilons) / certified).max()))
    assert 0.3 < worst <= 1
