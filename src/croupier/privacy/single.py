"""What one release of randomly rounded counts tells of a user, level by level (PROOF 8)."""

from __future__ import annotations

import math

import numpy as np

from croupier.privacy.journeys import Journey, leg_of
from croupier.privacy.levels import DEEPEST, Levels
from croupier.privacy.moves import Move, highest
from croupier.privacy.pace import Pace, steady
from croupier.privacy.rounding import find_rounding
from croupier.privacy.tails import Floats


def rounded_pace(coins: int, distance: float, labels: int, tau: float, plain: float) -> Pace:
    """The pace of one release of counts of fair coins.

    ``plain`` is the first certificate's mu, which holds too. Half of every label's tail goes to
    its own count, the other halves to the release as a whole.
    """
    rounding, top = find_rounding(coins, math.ceil(distance), tau / 2), highest(labels, tau, plain)
    if rounding is None or top is None or max(top, rounding.edge) > DEEPEST:
        return steady(plain)
    levels = Levels(top)
    speeds = np.maximum.accumulate(slower(Move(rounding, distance, labels), levels)) * (1 + 1e-8)
    return Pace(min(plain, float(speeds[-1])), levels.ends, tuple(speeds.tolist()))


def slower(move: Move, levels: Levels) -> Floats:
    """The speeds of a release, or of a journey of one: both bound one path, level by level.

    Near the median a journey knows better how little a threshold can gain.
    """
    alone = Journey(((leg_of(move), 1),), 1)
    return np.minimum(move.speeds(levels), alone.speeds(levels))
