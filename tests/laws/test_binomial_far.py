"""Several far moves against exact sums (PROOF 9f).

Up to two labels share the way, from whole steps or between them, both ways.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import pytest

from croupier.privacy import far as module
from croupier.privacy import gdp
from croupier.privacy.far import Far, Known, far
from croupier.privacy.shuffled_bits.count_release import CountRelease

from .counts import Floats, losses_delta, rounded_losses

STEP = 0.2
LONG = CountRelease(2000, 0.5, 700.0, 20)
WIDE = CountRelease(3000, 0.5, 800.0, 20)
SHORT = CountRelease(2000, 0.5, 3.0, 20)


def of(*releases: CountRelease, times: int = 1) -> Far:
    found = far([((release,), times) for release in releases])
    assert found is not None
    return found


def delta(found: Far, epsilon: float) -> float:
    assert found.losses is not None
    return found.losses.delta(epsilon)


def at(level: float, *releases: CountRelease, times: int = 1) -> float:
    """An epsilon so many standard deviations above the mean loss."""
    mean = sum(2 * one.distance**2 / one.coins for one in releases) * times
    return mean + level * math.sqrt(2 * mean)


Losses = tuple[int, Floats]
"""The lowest of them, in steps, and the masses of all from there on."""


def exact_losses(release: CountRelease, shares: tuple[float, ...], start: float) -> Losses:
    """The losses of one release, rounded down: a lower bound."""
    moves = (release.distance * share for share in shares)
    return summed(*(rounded_losses(release.coins, start, start + move, STEP) for move in moves))


def summed(*losses: Losses) -> Losses:
    return sum(lowest for lowest, _ in losses), reduce(np.convolve, (one for _, one in losses))


WAYS = [(1.0,), (math.sqrt(0.5),) * 2, (0.9, math.sqrt(0.19)), (0.98, math.sqrt(1 - 0.98**2))]
EXACT = [(500, 60.3, 2), (600, 200.0, 3), (700, 280.5, 2), (2000, 700.5, 4)]


@pytest.mark.parametrize(("coins", "distance", "times"), EXACT)
@pytest.mark.parametrize("start", [0.0, 0.5])
def test_no_exact_delta_is_above_the_bound(
    coins: int, distance: float, times: int, start: float
) -> None:
    release = CountRelease(coins, 0.5, distance, 2)
    made = of(release, times=times)
    for way in WAYS:
        for turned in (way, tuple(-share for share in way)):
            losses = summed(*[exact_losses(release, turned, start)] * times)
            for level in (-1.0, 0.0, 1.0, 2.0, 4.0):
                epsilon = at(level, release, times=times)
                assert losses_delta(*losses, STEP, epsilon) <= delta(made, epsilon)


def test_releases_that_differ_are_no_worse_than_they_are() -> None:
    releases = (LONG, WIDE, SHORT)
    made, way = of(*releases), (1.0,)
    losses = summed(*(exact_losses(one, way, 0.0) for one in releases))
    for level in (0.0, 1.0, 3.0, 5.0):
        epsilon = at(level, *releases)
        exact, found = losses_delta(*losses, STEP, epsilon), delta(made, epsilon)
        assert exact <= found
        assert gdp.mu_of(epsilon, found) <= 1.02 * gdp.mu_of(epsilon, exact)


def test_a_slope_one_percent_less_steep_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    release = CountRelease(20_000, 0.5, 1900.0, 2)
    losses = summed(*[exact_losses(release, (1.0,), 0.0)] * 3)
    epsilon = at(3.0, release, times=3)
    exact = losses_delta(*losses, STEP, epsilon)
    assert exact <= delta(of(release, times=3), epsilon)
    outside = tuple((tails, 0.99 * mu) for tails, mu in module._known(release).outside)
    monkeypatch.setattr(module, "_known", lambda _: Known(outside))
    module._losses.cache_clear()
    assert exact > delta(of(release, times=3), epsilon)
    module._losses.cache_clear()
