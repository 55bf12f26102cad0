"""How far tests move, level by level: Gaussian DP whose mu may grow with the level (PROOF 8c)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtr

from croupier.privacy.gdp import delta_of
from croupier.privacy.tails import Floats


@dataclass(frozen=True)
class Pace:
    """Outside of some tails, tests of levels down to ``levels[i]`` gain at most ``mus[i]``.

    A level is the normal quantile of a test's chance to be wrong, and its gain how far the same
    test's power is from there. Both tuples grow; the last mu holds at every level.
    """

    levels: tuple[float, ...]
    mus: tuple[float, ...]

    @property
    def mu(self) -> float:
        """What holds at every level: plain Gaussian DP."""
        return self.mus[-1]

    def at_least(self, mu: float) -> Pace:
        """The same promise, nowhere better than ``mu``."""
        return replace(self, mus=tuple(max(mu, one) for one in self.mus))

    def delta(self, epsilon: float) -> float:
        """The largest power minus e^epsilon times the chance to be wrong, of tests of any level."""
        if len(self.mus) == 1 or epsilon < 0 or math.isinf(self.mu):
            return delta_of(self.mu, epsilon)
        starts, mus = self._pieces
        ends = np.append(starts[1:], math.inf)
        best = epsilon / mus + mus / 2
        inside = mus[(starts <= best) & (best <= ends)]
        past = best < starts
        peaks = [delta_of(float(mu), epsilon) for mu in inside]
        gains = _gains(starts[past], mus[past], epsilon) * (1 + 1e-9)
        below = _gain_below_the_median(self.mu, epsilon)
        return max(max(peaks, default=0.0), float(gains.max(initial=0.0)), below)

    @property
    def _pieces(self) -> tuple[Floats, Floats]:
        """Where each mu begins to count: only levels above mu, which no test can cross to below."""
        levels, mus = np.array(self.levels), np.array(self.mus)
        kept = np.append(levels[:-1] >= self.mu, True)
        return np.append(0.0, levels[kept][:-1]), mus[kept]


def _gains(levels: Floats, mus: Floats, epsilon: float) -> Floats:
    return np.asarray(ndtr(mus - levels) - np.exp(np.minimum(epsilon + log_ndtr(-levels), 1.0)))


def _gain_below_the_median(mu: float, epsilon: float) -> float:
    """Tests that are wrong more often than not gain the more the less often they are."""
    return float(ndtr(mu)) - math.exp(min(epsilon, 1.0)) / 2


def steady(mu: float) -> Pace:
    """The same mu at every level."""
    return Pace((math.inf,), (mu,))
