"""How fast the tests of all counts of a release move, level by level (PROOF 8b).

Over many labels the changes of rounding mostly cancel. A release is moved from one input to the
other along a path of nearly normal laws, on which the normal quantile of every test has a speed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri_exp

from croupier.privacy.levels import Levels
from croupier.privacy.rounding import Rounding
from croupier.privacy.shuffled_bits.binomial_tails import Floats
from croupier.privacy.shuffled_bits.quantile_slope import LARGEST_TAIL
from croupier.privacy.skewness import skewed

ANGLES = np.linspace(0, math.pi / 2, 17)[:, None]
"""Between which the changes of variance may turn a move. Axes are reaches, angles, pieces."""


@dataclass(frozen=True)
class Move:
    """All labels of a release together, moved by at most ``distance`` steps."""

    rounding: Rounding
    distance: float
    labels: int

    @property
    def part(self) -> float:
        """The largest share of what rounding leaves over that one label can have."""
        return min(1.0, self.distance / self.rounding.near)

    @property
    def parts(self) -> float:
        """n: the sum of squares of all labels' shares, in units of the largest one's."""
        return min(float(self.labels), max(1.0, (self.distance / self.rounding.near) ** 2))

    @property
    def length(self) -> float:
        """b: how far the means move."""
        rounding = self.rounding
        left_over = rounding.steady * self.part * math.sqrt(self.parts)
        return rounding.slope * self.distance + left_over

    @property
    def widening(self) -> float:
        """e0: half of what one variance may change, less than 1/8 of beta for less than half."""
        moved = min(self.distance, 0.5)
        return self.rounding.spread / 2 * moved * (1 - moved)

    @property
    def widenings(self) -> float:
        """The sum of squares of all labels' widenings: small moves change a variance little."""
        together = (self.rounding.spread / 2 * self.distance) ** 2
        return min(self.labels * self.widening**2, together)

    def speeds(self, levels: Levels) -> Floats:
        """The largest speed of a normal quantile on each piece of levels."""
        return self.length + self._widened(levels) + self._skew(levels)

    def _widened(self, levels: Levels) -> Floats:
        """What changed variances add.

        Along the move they count in full, be they wider or narrower. Across it they are noise, and
        so is the turn they give to it. A label is stretched or turned: the worst angle counts.
        """
        stretched = self.widening * np.cos(ANGLES)
        wider = stretched[:-1] * levels.cuts[1:] + self._across(levels, self.length)
        slowest = self.length - 2 * stretched[:-1] * levels.far
        narrower = self._across(levels, slowest) - stretched[1:] * levels.cuts[:-1]
        costs = np.maximum(wider, narrower) + self._beyond(levels)
        return np.asarray(costs.max(axis=1).min(axis=0))

    def _across(self, levels: Levels, slowest: Floats | float) -> Floats:
        """What variances across a move and turns of it cost, where it goes no slower."""
        noise = 2 * levels.far**2 * self._turned(self.widening * np.cos(ANGLES[1:]))
        room = slowest * levels.kept - 2 * self.widening / levels.gap[1:]
        with np.errstate(divide="ignore"):
            costs = (self.widenings + noise) / (room * levels.bend[:-1])
        # Without room nothing is known; with room moves keep their order up to far.
        return np.where(room > 0, costs, math.inf)

    def _turned(self, stretched: Floats) -> Floats:
        """|q|^2: how much a move can be turned that is ``stretched`` so much."""
        rounding = self.rounding
        most = rounding.spread * self.length / (2 * rounding.slope)
        steepest = most * most * (1 + rounding.spread / 4)
        return np.minimum(self.widening**2 - stretched**2, (steepest - stretched**2) / 2)

    def _beyond(self, levels: Levels) -> Floats:
        """What the move may do further out."""
        size = self.length + (2 * levels.far + 3) * self.widening + math.sqrt(2 * self.widenings)
        return np.asarray(2 * size * levels.fading)

    @property
    def skew(self) -> float:
        """The largest skewness of one label: what rounding leaves over, and a slope that rises."""
        return self.part * self.rounding.growing + self._rising

    @property
    def skews(self) -> float:
        """The root of the sum of squares of all labels' skewness."""
        return self.part * self.rounding.growing * math.sqrt(self.parts) + self._rising

    @property
    def _rising(self) -> float:
        return self.rounding.rising * self.distance

    def _skew(self, levels: Levels) -> Floats:
        """What the skewness of rounding adds."""
        parts = (self.skews / self.skew) ** 2
        return self.skew * skewed(levels, self.labels, parts, self.rounding.edge)


def highest(counts: int, tau: float, plain: float) -> float | None:
    """The highest level: ``plain`` outside of the tail of all ``counts``.

    That is enough for every mu up to ``plain`` (PROOF 8b).
    """
    tail = -math.expm1(counts * math.log1p(-tau / 2))
    return plain - float(ndtri_exp(math.log(tail))) if tail < LARGEST_TAIL else None
