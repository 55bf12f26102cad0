"""How far tests move, level by level: Gaussian DP whose mu may grow with the level (PROOF 8c)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr, ndtr

from croupier.privacy.gdp import delta_of
from croupier.privacy.tails import Floats


@dataclass(frozen=True)
class Pace:
    """Outside of some tails, every test gains at most ``mu``: Gaussian DP, and perhaps less.

    A level is the normal quantile of a test's chance to be wrong, a gain how far from there the
    quantile of its power is. While a test is at levels within ``levels[i]`` of 0 it moves at no
    more than the speed ``mus[i]``, from one input to the other in unit time. Both grow.
    """

    mu: float
    levels: tuple[float, ...] = ()
    mus: tuple[float, ...] = ()

    def at_least(self, mu: float) -> Pace:
        """The same promise, nowhere better than ``mu``."""
        return replace(self, mu=max(mu, self.mu), mus=tuple(max(mu, one) for one in self.mus))

    def delta(self, epsilon: float) -> float:
        """The largest power minus e^epsilon times the chance to be wrong, of tests of any level."""
        plain = delta_of(self.mu, epsilon)
        levels, mus = self._pieces
        return plain if epsilon < 0 or not mus.size else min(plain, _delta(levels, mus, epsilon))

    @property
    def _pieces(self) -> tuple[Floats, Floats]:
        """Levels from which no test can cross to the same level below the median."""
        levels, mus = np.array(self.levels), np.array(self.mus)
        kept = mus <= levels
        return levels[kept], mus[kept]


def _delta(ends: Floats, mus: Floats, epsilon: float) -> float:
    """The largest gain of tests that begin on a piece or further out; below the median is less."""
    starts = np.append(0.0, ends[:-1])
    best = epsilon / mus + mus / 2
    inside, past = (starts <= best) & (best <= ends), best < starts
    peaks = [delta_of(float(mu), epsilon) for mu in mus[inside]]
    late = _gains(starts[past], mus[past], epsilon)
    further = float(ndtr(mus[-1] - ends[-1]))
    return max(max(peaks, default=0.0), (1 + 1e-9) * max(float(late.max(initial=0.0)), further))


def _gains(levels: Floats, mus: Floats, epsilon: float) -> Floats:
    # Beyond e the second term makes every gain negative; how large it is does not matter.
    return np.asarray(ndtr(mus - levels) - np.exp(np.minimum(epsilon + log_ndtr(-levels), 1.0)))


def steady(mu: float) -> Pace:
    """The same mu at every level."""
    return Pace(mu)
