"""How the coordinates of one user become whole steps that a batch adds up."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Rounding:
    """``grid`` steps per unit above the layout's ``low``, the last one at random.

    A value of s steps becomes w = min(floor(s), ``most``) and one more with the chance
    ``flipped`` + ``kept`` (s - w): 0 and 1 where a step is rounded and nothing else. The steps of
    ``users`` add up to a sum that is unbiased after (steps - users flipped) / (kept grid).
    """

    grid: float
    users: int
    flipped: float = 0.0
    kept: float = 1.0
    most: float = math.inf
