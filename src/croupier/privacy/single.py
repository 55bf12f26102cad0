"""What one release of randomly rounded counts tells of a user, level by level (PROOF 8)."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from croupier.privacy.journeys import Journey, leg_of
from croupier.privacy.levels import DEEPEST, Levels
from croupier.privacy.moves import Move, highest
from croupier.privacy.pace import Pace, steady
from croupier.privacy.rounding import find_rounding
from croupier.privacy.shuffled_bits.binomial_tails import Floats
from croupier.privacy.spread import EVEN, find_spread, rounded


def rounded_pace(coins: int, distance: float, labels: int, tau: float, plain: float) -> Pace:
    """The pace of one release of counts of fair coins.

    ``plain`` is the first certificate's mu, which holds too. Half of every label's tail goes to
    its own count, the other halves to the release as a whole.
    """
    rounding = find_rounding(coins, math.ceil(distance), tau / 2)
    return _followed(Move(rounding, distance, labels), tau, plain) if rounding else steady(plain)


def spread_mu(coins: int, distance: float, labels: int, tau: float, plain: float) -> float:
    """The same release's mu by both certificates with tails where the moves are (PROOF 4a)."""
    return _spread_mu(coins, distance, labels, rounded(tau), plain)


@lru_cache(maxsize=4096)
def _spread_mu(coins: int, distance: float, labels: int, tau: float, plain: float) -> float:
    spread = find_spread(coins, distance, labels, tau / 2)
    if spread is None:
        return plain
    rounding = find_rounding(coins, math.ceil(distance), EVEN * tau / 2)
    flatter = rounding and rounding.flatter(spread.steepest)
    known = min(plain, spread.mu(labels))
    return _followed(Move(flatter, distance, labels), tau, known).mu if flatter else known


def _followed(move: Move, tau: float, plain: float) -> Pace:
    top = highest(move.labels, tau, plain)
    if top is None or max(top, move.rounding.edge) > DEEPEST:
        return steady(plain)
    levels = Levels(top)
    speeds = np.maximum.accumulate(slower(move, levels)) * (1 + 1e-8)
    return Pace(min(plain, float(speeds[-1])), levels.ends, tuple(speeds.tolist()))


def slower(move: Move, levels: Levels) -> Floats:
    """The speeds of a release, or of a journey of one: both bound one path, level by level.

    Near the median a journey knows better how little a threshold can gain.
    """
    alone = Journey(((leg_of(move), 1),), 1)
    return np.minimum(move.speeds(levels), alone.speeds(levels))
