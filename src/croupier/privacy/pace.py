"""How far tests move, level by level: Gaussian DP whose mu may grow with the level (PROOF 8c)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr, ndtr

from croupier.privacy.gdp import delta_of
from croupier.privacy.shuffled_bits.binomial_tails import Floats

ROUNDED = 1e-9
"""More than what floating point takes off a gain or a way, in units of itself."""
SLOWEST = 1e5
"""The longest time over all levels at which that is so of a way that a clock measures."""
QUICKEST = 1e-9
"""The least time on a piece that such a clock can tell."""
LONGEST, SHORTENED = 1e7, 1e-7
"""The same for a gain of tests that no clock measures, and what it takes off their ways."""


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
        # numpy's maximum keeps what is no number, which promises nothing.
        raised = np.maximum(mu, np.array(self.mus)).tolist()
        return replace(self, mu=float(np.maximum(mu, self.mu)), mus=tuple(raised))

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


@dataclass(frozen=True)
class Clocked(Pace):
    """A pace whose ``mus`` need not grow: a test gets as far as it can in the time there is.

    From each level to the next it takes as long as the speed there makes it (PROOF 9).
    """

    def delta(self, epsilon: float) -> float:
        """The largest power minus e^epsilon times the chance to be wrong, of tests of any level."""
        plain = delta_of(self.mu, epsilon)
        if epsilon < 0 or self._ways is None:
            return plain
        return min(plain, _farthest(*self._ways, epsilon))

    @cached_property
    def _ways(self) -> tuple[Floats, Floats] | None:
        """Where tests may start, and how far they get from there: linear in between.

        None if a test might cross all the levels that are known, or gains less than last digits.
        """
        cuts, mus = self._known
        clock = np.append(0.0, np.cumsum(np.diff(cuts) / mus))
        if not 1 <= clock[-1] <= LONGEST:
            return None
        if clock[-1] > SLOWEST:
            return _short_ways(cuts, mus)
        both, times = np.append(-cuts[:0:-1], cuts), np.append(-clock[:0:-1], clock)
        # A way bends where it starts at a cut, and where it ends at one.
        bends = np.union1d(clock, times[(times >= -1) & (times <= clock[-1] - 1)] + 1)
        starts = np.interp(bends, clock, cuts)
        return starts, (starts - np.interp(bends - 1, times, both)) * (1 + ROUNDED)

    @property
    def _known(self) -> tuple[Floats, Floats]:
        """Cuts and speeds up to the first piece on which no time passes, or nothing is known."""
        cuts, mus = np.append(0.0, self.levels), np.array(self.mus)
        known = np.logical_and.accumulate(np.diff(cuts) / mus > QUICKEST)
        return cuts[: 1 + np.count_nonzero(known)], mus[known]


def _short_ways(cuts: Floats, mus: Floats) -> tuple[Floats, Floats] | None:
    """The ways of tests so slow that a step of theirs is lost in the clock's last digits.

    They do not leave the pieces next to their own. None if one might.
    """
    ways = np.maximum(np.append(mus[0], mus), np.append(mus, mus[-1]))
    return (cuts, ways * (1 + SHORTENED)) if mus.max() <= np.diff(cuts).min() else None


def _farthest(starts: Floats, ways: Floats, epsilon: float) -> float:
    """The largest gain of tests that start at these levels, in between, or further out."""
    mus = np.maximum(ways[1:], ways[:-1])
    best = epsilon / mus + mus / 2
    inside = (starts[:-1] <= best) & (best <= starts[1:])
    peaks = [delta_of(float(mu), epsilon) for mu in mus[inside]]
    nearest = np.clip(best, starts[:-1], starts[1:])[~inside]
    gains = _gains(nearest, mus[~inside], epsilon).max(initial=0.0)
    further = ndtr(ways[-1] - starts[-1])
    return max(max(peaks, default=0.0), (1 + ROUNDED) * float(max(gains, further)))


def _delta(ends: Floats, mus: Floats, epsilon: float) -> float:
    """The largest gain of tests that begin on a piece or further out; below the median is less."""
    starts = np.append(0.0, ends[:-1])
    best = epsilon / mus + mus / 2
    inside, past = (starts <= best) & (best <= ends), best < starts
    peaks = [delta_of(float(mu), epsilon) for mu in mus[inside]]
    late = _gains(starts[past], mus[past], epsilon)
    further = float(ndtr(mus[-1] - ends[-1]))
    return max(max(peaks, default=0.0), (1 + ROUNDED) * max(float(late.max(initial=0.0)), further))


def _gains(levels: Floats, mus: Floats, epsilon: float) -> Floats:
    # Beyond e the second term makes every gain negative; how large it is does not matter.
    return np.asarray(ndtr(mus - levels) - np.exp(np.minimum(epsilon + log_ndtr(-levels), 1.0)))


def steady(mu: float) -> Pace:
    """The same mu at every level."""
    return Pace(mu)
