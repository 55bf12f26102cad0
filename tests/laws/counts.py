"""The law of a count, by a library that the certificate does not use."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]


@lru_cache(maxsize=512)
def masses(coins: int, bias: float) -> Floats:
    """The binomial law by a library that the certificate does not use."""
    return np.asarray(stats.binom.pmf(np.arange(coins + 1), coins, bias))


def released(coins: int, bias: float, value: float, room: int) -> Floats:
    """The law of the noise plus the randomly rounded value, on 0..coins+room."""
    law = np.zeros(coins + room + 1)
    floor = math.floor(value)
    share = value - floor
    law[floor : floor + coins + 1] += (1 - share) * masses(coins, bias)
    law[floor + 1 : floor + coins + 2] += share * masses(coins, bias)
    return law


def log_released(coins: int, value: float, counts: Floats) -> Floats:
    """The same of fair coins in logarithms, at ``counts``: deep down masses are below 1e-308."""
    floor = math.floor(value)
    laws = [stats.binom.logpmf(counts - floor - up, coins, 0.5) for up in (0, 1)]
    with np.errstate(divide="ignore"):
        shares = np.log(np.array([1 - (value - floor), value - floor]))
    return np.asarray(np.logaddexp(shares[0] + laws[0], shares[1] + laws[1]))


def rounded_losses(coins: int, first: float, second: float, step: float) -> tuple[int, Floats]:
    """The losses of one label under its first input, rounded down to a grid: a lower bound."""
    counts = np.arange(-2.0, coins + math.ceil(max(first, second)) + 3)
    here, there = (log_released(coins, value, counts) for value in (first, second))
    kept = (here > -80) & np.isfinite(there)
    cells = np.floor((here[kept] - there[kept]) / step).astype(int)
    masses = np.bincount(cells - cells.min(), np.exp(here[kept]))
    return int(cells.min()), masses.astype(np.float64)


def losses_delta(lowest: int, masses: Floats, step: float, epsilon: float) -> float:
    """The delta of losses on a grid."""
    losses = (lowest + np.arange(masses.size)) * step
    above = losses > epsilon
    return float(masses[above] @ -np.expm1(epsilon - losses[above]))
