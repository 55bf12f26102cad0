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
