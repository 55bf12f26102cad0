"""Which part of a user's way each release is, and what was left of it before (PROOF 9).

A way is as long as the squares of all its moves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from croupier.privacy.shuffled_bits.binomial_tails import Floats

GROWTH = 1.25
"""By which factor moves are grouped, by what is left of the way."""


@dataclass(frozen=True)
class Shares:
    """Groups of moves, each of which counts as the last of its group.

    ``left`` is the share of the way that is left before it, ``times`` the share of the way that
    the group is, and ``weights`` the same as a share of what is left.
    """

    left: Floats
    times: Floats
    weights: Floats

    def pull(self, levels: Floats) -> Floats:
        """Lambda: how far the past can pull what a threshold at each level gains, per widening."""
        means = np.sqrt(self.left) * levels[:, None]
        return np.asarray((self.times / np.sqrt(self.left) * sizes(means, 1 - self.left)).sum(-1))


def sizes(means: Floats, variances: Floats) -> Floats:
    """The mean size E|n| of normal numbers."""
    deviations = np.sqrt(np.maximum(variances, 1e-300))
    ratios = np.abs(means) / deviations
    bell = math.sqrt(2 / math.pi) * np.exp(-(ratios**2) / 2)
    return np.asarray(deviations * bell + np.abs(means) * (2 * ndtr(ratios) - 1))


@lru_cache(maxsize=256)
def equal_shares(number: int) -> Shares:
    """So many moves of one length."""
    powers = GROWTH ** np.arange(1 + math.log(number + 1) / math.log(GROWTH))
    firsts = np.unique(np.floor(powers).astype(int))
    firsts = firsts[firsts <= number]
    weights = np.add.reduceat(1 / np.arange(1, number + 1), firsts - 1)
    times = np.diff(np.append(firsts, number + 1)) / number
    return Shares(firsts / number, times, np.asarray(weights))


@lru_cache(maxsize=256)
def any_shares(shares: float) -> Shares:
    """Moves of any length, none shorter than one part in ``shares`` of all squares.

    The last has the weight 1, all others together no more than the integral of 1/x.
    """
    number = max(1, math.ceil(math.log(shares) / math.log(GROWTH)))
    cuts = shares ** (np.arange(number + 1) / number - 1)
    last, parts = cuts[0], np.diff(cuts)
    weights = np.append(1.0, np.full(number, math.log(shares) / number))
    return Shares(np.append(last, cuts[:-1]), np.append(last, parts), weights)
