"""A second certificate for counts whose grid is so coarse that rounding shows (PROOF 8).

The first one charges e per label, as if every rounding went the worst way in every label. Here the
rounding of a label is what it is: it changes the variance of a count by what a coin would, up to
terms that are smaller still, and over many labels such changes mostly cancel. Step 8 of the proof
in ``docs/guarantees.md`` has the statement and its derivation; the letters are those used there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri_exp

from croupier.privacy.gdp import mills
from croupier.privacy.pace import Pace, steady
from croupier.privacy.slopes import (
    LARGEST_TAIL,
    MOST_EXPONENT,
    fast_slope_at,
    find_window,
    quantile_error,
)
from croupier.privacy.tails import Floats, binomial, centre_quantile, quantiles

PIECES = 64
"""Pieces into which the levels of tests are cut: each counts with its worse end."""
BEYOND = 2.0
"""How far outside of the window the direction of the move is still followed exactly."""
ANGLES = np.linspace(0, math.pi / 2, 17)
"""Between which the changes of variance may turn a move."""
TILTS = 5 / 12 * 0.5 ** np.arange(7)
"""Exponents of the bound on skewness, in units of 1/edge; below 1/2, so that it stays finite."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
"""For a smooth integrand over at most 40 standard deviations."""
ROUNDED = 1e-12
"""More than what floating point takes off that integral."""
STEEPEST_SKEW = 1 / (6 * math.sqrt(3))
"""The largest p (1-p) (1-2p), third cumulant of one coin."""


@dataclass(frozen=True)
class Rounding:
    """How a threshold on one randomly rounded count moves, in normal quantiles (PROOF 8a).

    Per step of the input it moves by ``slope`` (a), and ``spread`` (beta) times the variance of
    the rounding is added to the variance 1 of the coins. What is left over is at most
    ``steady + growing * z**2`` (A and C) at quantile z, up to ``edge`` (L).
    """

    slope: float
    spread: float
    steady: float
    growing: float
    edge: float

    @property
    def follows(self) -> bool:
        """Whether every threshold moves the way of its input."""
        return self.slope > math.sqrt(1 + self.spread / 4) * self.spread / 2 * self.edge

    @cached_property
    def skews(self) -> Floats:
        """ln E exp(t r(g)) for each tilt t over edge: r(g) is g^3 - 2g, linear beyond the edge."""
        tilts = TILTS / self.edge
        points = self.edge / 2 * (1 + NODES)
        powers = np.outer(tilts, points**3 - 2 * points)
        inner = np.exp(powers - points**2 / 2) + np.exp(-powers - points**2 / 2)
        pulls = tilts * self.edge**2
        tails = ndtr(pulls - self.edge) + ndtr(-pulls - self.edge)
        whole = inner @ WEIGHTS * self.edge / math.sqrt(8 * math.pi)
        return np.asarray(np.log(whole + np.exp(pulls**2 / 2) * tails) + ROUNDED)


def find_rounding(coins: int, shift: int, tau: float) -> Rounding | None:
    """The rounding of fair coins outside tails of ``tau``, None outside the range of Lemma M."""
    return _rounding(coins, shift, find_window(coins, 0.5, tau).high)


@lru_cache(maxsize=4096)
def _rounding(coins: int, shift: int, high: int) -> Rounding | None:
    plain = fast_slope_at(coins, shift, high)
    if plain is None:
        return None
    law = binomial(coins, 0.5)
    before, edge = (float(z) for z in quantiles(law, high + shift - 1, high + shift))
    step = (edge - before + quantile_error(law, edge)) * (1 + 1e-9)
    spread = _least_step(coins) ** 2 * (1 - 1e-9)
    width = plain.slope * shift + plain.deviation + step
    steady, growing = _left_over(step, spread, width)
    found = Rounding(plain.slope, spread, steady, growing, edge)
    return found if found.follows else None


def _least_step(coins: int) -> float:
    """The increment of z at the centre, which is the smallest (Lemma M)."""
    if coins % 2 == 0:
        return 2 * centre_quantile(coins)
    middle = (coins + 1) // 2
    return float(quantiles(binomial(coins, 0.5), middle, middle)[0])


def _left_over(step: float, spread: float, width: float) -> tuple[float, float]:
    """A and C from the longest increment, beta and the longest way of a threshold (PROOF 8a)."""
    fourth = spread * (step * step / 64 + spread / 128)
    linear = (step * step - spread) / 8 + 2 * fourth
    square = step**3 * STEEPEST_SKEW / 3 + linear / 4
    steady = spread * step * STEEPEST_SKEW / 2 + step**3 / 16 + linear
    return steady + square * (width + width * width), square * (1 + width)


@dataclass(frozen=True)
class Levels:
    """Cuts of the levels z of a test from 0 to ``top``, and normal quantities at each of them."""

    top: float

    @cached_property
    def cuts(self) -> Floats:
        """From 0 to the top."""
        return np.linspace(0.0, self.top, PIECES + 1)

    @cached_property
    def hazard(self) -> Floats:
        """m: density over tail."""
        return 1 / mills(self.cuts)

    @cached_property
    def gap(self) -> Floats:
        """m - z, which falls."""
        return self.hazard - self.cuts

    @cached_property
    def surprise(self) -> Floats:
        """-ln of the tail."""
        return np.asarray(-log_ndtr(-self.cuts))


@dataclass(frozen=True)
class Move:
    """All labels of a release together, moved by at most ``distance`` steps (PROOF 8b)."""

    rounding: Rounding
    distance: float
    labels: int

    @property
    def length(self) -> float:
        """b: how far the means move."""
        rounding = self.rounding
        return rounding.slope * self.distance + rounding.steady * math.sqrt(self.labels)

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
        return self.length + self._widened(levels) + self._skew(levels) + self._beyond(levels)

    def _widened(self, levels: Levels) -> Floats:
        """What changed variances add: along the move in full, across it as if at right angles.

        Together they stretch the move by e0 times the cosine of some angle and turn it aside by
        e0 times its sine, so the worst angle counts.
        """
        stretched = self.widening * np.cos(ANGLES[:-1])
        turned = self.widening * np.sin(ANGLES[1:])
        costs = stretched[:, None] * _stretch(levels) + self._across(levels, turned[:, None])
        return np.asarray(costs.max(axis=0))

    def _across(self, levels: Levels, turned: Floats) -> Floats:
        """The cost of variances across the move and of turning it."""
        tilt = 1 / (self.length * levels.gap[1:])
        room = np.maximum(1 - 2 * tilt * self.widening, 0.0)
        reach = levels.top + BEYOND
        with np.errstate(divide="ignore"):  # Without room nothing is known.
            noise = (self.widenings + 2 * (reach * turned) ** 2) / room
        bend = self.length * (levels.hazard * levels.gap)[:-1]
        return np.asarray(noise / bend * np.exp(np.minimum(tilt * tilt * noise, MOST_EXPONENT)))

    def _beyond(self, levels: Levels) -> Floats:
        """What the move may do further out than ``BEYOND`` above the top."""
        reach = levels.top + BEYOND
        size = self.length + 2 * self.widening + math.sqrt(2 * self.widenings)
        return np.asarray(2 * size * np.exp((levels.cuts[1:] ** 2 - reach**2) / 2))

    def _skew(self, levels: Levels) -> Floats:
        """The skewness of rounding: by the best tilt, worst at one end of each piece."""
        tilts = TILTS[:, None] / self.rounding.edge
        logs = self.labels * self.rounding.skews[:, None] + levels.surprise
        bounds = self.rounding.growing * logs / (levels.hazard * tilts)
        return np.asarray(np.maximum(bounds[:, 1:], bounds[:, :-1]).min(axis=0))


def _stretch(levels: Levels) -> Floats:
    """J: what the best test of each level sees of one variance that changed; it grows."""
    half = -ndtri_exp(log_ndtr(-levels.cuts[1:]) - math.log(2))
    return np.asarray(2 * half * np.exp((levels.cuts[1:] ** 2 - half**2) / 2))


def rounded_pace(coins: int, distance: float, labels: int, tau: float, plain: float) -> Pace:
    """The pace of one release of counts of fair coins.

    ``plain`` is the first certificate's mu, which holds too. Half of every label's tail goes to
    its own count, the other halves to the release as a whole.
    """
    tail = -math.expm1(labels * math.log1p(-tau / 2))
    rounding = find_rounding(coins, math.ceil(distance), tau / 2)
    if rounding is None or tail >= LARGEST_TAIL:
        return steady(plain)
    # A window that ends plain outside of the tail is enough for every mu up to plain (PROOF 8b).
    levels = Levels(-float(ndtri_exp(math.log(tail))) + plain)
    mus = np.maximum.accumulate(Move(rounding, distance, labels).speeds(levels)) * (1 + 1e-8)
    return Pace(min(plain, float(mus[-1])), tuple(levels.cuts[1:].tolist()), tuple(mus.tolist()))
