"""How one randomly rounded count moves, on grids so coarse that rounding shows (PROOF 8a).

The certificate of MATH 4 charges e per label, as if every rounding went the worst way in every
label. Here the rounding of a label is what it is: it changes the variance of a count by what a coin
would, up to terms that are smaller still. Step 8 of the proof in ``docs/closer-forms.md`` has the
statement and its derivation; the letters are those used there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from croupier.privacy.shuffled_bits.binomial_tails import binomial, centre_quantile, quantiles
from croupier.privacy.shuffled_bits.quantile_slope import fast_slope_at, find_window, quantile_error

STEEPEST_SKEW = 1 / (6 * math.sqrt(3))
"""The largest p (1-p) (1-2p), third cumulant of one coin."""
TOUCH = 3.0
"""Where a parabola touches the term linear in |z| that it stands for: 2 v z <= v^2 + z^2."""

FLAT, FURTHER, LEVELS = 2.0, 1.15, 24
"""Levels at which a rising slope is looked at: the first, the next by a factor, how many."""

DECIDING = 4.0
"""How far below the edge levels decide: there a parabola touches the slope of cells around z."""

MOST_RISING = 10**9
"""Coins up to which that is worth more than some last digits."""


@dataclass(frozen=True)
class Rounding:
    """How a threshold on one randomly rounded count moves, in normal quantiles (PROOF 8a).

    Per step of the input it moves by ``slope`` (a), and ``spread`` (beta) times the variance of
    the rounding is added to the variance 1 of the coins. What is left over is at most
    ``steady + growing * z**2`` (A and C) at quantile z, up to ``edge`` (L); for inputs closer than
    ``near`` (D0) it is less in proportion. With a ``rising`` slope that many times z**2 is added
    to it. ``width`` (w) is how far from z a cell may be.
    """

    slope: float
    spread: float
    steady: float
    growing: float
    edge: float
    near: float
    width: float = 0.0
    rising: float = 0.0

    @property
    def follows(self) -> bool:
        """Whether every threshold moves the way of its input."""
        return self.edge < self.farthest

    @property
    def farthest(self) -> float:
        """The quantile up to which thresholds would do so: any edge below it is as good."""
        return self.slope / (math.sqrt(1 + self.spread / 4) * self.spread / 2)

    def flatter(self, slope: float) -> Rounding | None:
        """The same with a smaller slope, if thresholds still move the way of their input."""
        found = replace(self, slope=min(self.slope, slope))
        return found if found.follows else None


def find_rounding(coins: int, shift: int, tau: float) -> Rounding | None:
    """The rounding of fair coins outside tails of ``tau``, None outside the range of Lemma M."""
    return _rounding(coins, shift, find_window(coins, 0.5, tau).high)


def find_rising(coins: int, shift: int, tau: float) -> Rounding | None:
    """The same with the slope of levels near the median, which rises from there (PROOF 9a).

    Tests of one release go as deep as its windows, those of several hardly do in any of them.
    """
    steepest = find_rounding(coins, shift, tau)
    if steepest is None or coins > MOST_RISING:
        return steepest
    flat, growth = _increments(coins, find_window(coins, 0.5, tau).high + shift)
    slope, rising = _around(flat, growth, steepest.width, max(1.0, steepest.edge - DECIDING))
    found = replace(steepest, slope=slope, rising=rising)
    return found if found.follows and slope < steepest.slope else steepest


@lru_cache(maxsize=4096)
def _increments(coins: int, last: int) -> tuple[float, float]:
    """What bounds an increment of z, and by how much more per square of z at its inner end.

    Increments grow away from the centre (Lemma M), so those at a few counts up to ``last`` are
    enough: each bounds all that lie between the count before and its own.
    """
    law = binomial(coins, 0.5)
    ends = [quantiles(law, count - 1, count) for count in _counts(coins, last)]
    steps = [float(z[1] - z[0] + quantile_error(law, float(z[1]))) for z in ends]
    rises = [(step - steps[0]) / float(z[1]) ** 2 for step, z in zip(steps[1:], ends, strict=False)]
    return steps[0] * (1 + 1e-9), max(rises, default=0.0) * (1 + 1e-9)


def _counts(coins: int, last: int) -> list[int]:
    """The count of the level ``FLAT``, those further out, and the ``last``."""
    levels = FLAT * FURTHER ** np.arange(LEVELS)
    counts = (coins / 2 + math.sqrt(coins) / 2 * levels).astype(int).tolist()
    return [*(count for count in counts if count < last), last]


@lru_cache(maxsize=4096)
def _rounding(coins: int, shift: int, high: int) -> Rounding | None:
    plain = fast_slope_at(coins, shift, high)
    if plain is None:
        return None
    law = binomial(coins, 0.5)
    before, edge = (float(z) for z in quantiles(law, high + shift - 1, high + shift))
    step = (edge - before + quantile_error(law, edge)) * (1 + 1e-9)
    cell = Cell(step, least_step(coins) ** 2 * (1 - 1e-9), edge * (1 + 1e-9))
    width = plain.slope * shift + plain.deviation + step
    steady, growing = _added(_squared(*cell.left_over, width), _squared(*cell.inner, step))
    # Only inputs less than a step apart are near, and so are their thresholds.
    steadily, growingly = _squared(*cell.steepness, plain.slope + plain.deviation + step)
    near = min(1.0, steady / steadily, growing / growingly) * (1 - 1e-9)
    found = Rounding(plain.slope, cell.spread, steady, growing, edge, near, width)
    return found if found.follows else None


@lru_cache(maxsize=4096)
def least_step(coins: int) -> float:
    """The increment of z at the centre, which is the smallest (Lemma M)."""
    if coins % 2 == 0:
        return 2 * centre_quantile(coins)
    middle = (coins + 1) // 2
    return float(quantiles(binomial(coins, 0.5), middle, middle)[0])


@dataclass(frozen=True)
class Cell:
    """Between two counts: the longest ``step`` of z (d), ``spread`` (beta), ``edge`` (L).

    What rounding leaves over, and how steeply that may rise, are each a constant, a term linear in
    the outer end of the cell and one in its square. Some of it is left over only at the threshold
    that is nearer to the median.
    """

    step: float
    spread: float
    edge: float

    @property
    def left_over(self) -> tuple[float, float, float]:
        """Of two thresholds together, however far apart."""
        step, spread = self.step, self.spread
        fourth = spread * (step * step / 64 + spread / 128)
        constant = spread * step * STEEPEST_SKEW / 2 + step**3 / 16
        return constant, 2 * fourth, step**3 * STEEPEST_SKEW / 3

    @property
    def inner(self) -> tuple[float, float, float]:
        """Of the inner one of the two, which no level on the way is nearer to the median than."""
        return 0.0, (self.step * self.step - self.spread) / 8, 0.0

    @property
    def steepness(self) -> tuple[float, float, float]:
        """Per step between the two."""
        step, spread, bent = self.step, self.spread, self.step * self.edge
        linear = (step * step - spread) / 2 + spread * (step * step + spread) / 16
        constant = step**3 / 12 + spread * step * math.expm1(bent) / bent / 8
        return constant, linear, step**3 / 3 * (math.expm1(bent) - bent) / bent**2


def _squared(constant: float, linear: float, square: float, width: float) -> tuple[float, float]:
    """A and C of A + C z^2, from the terms at a cell no further than ``width`` from z."""
    square += linear / (2 * TOUCH)
    return _around(constant + linear * TOUCH / 2, square, width, 1.0)


def _added(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]


def _around(steady: float, square: float, width: float, level: float) -> tuple[float, float]:
    """The same from A + C (|z| + w)^2: 2 w |z| is at most w (z^2 / level + level)."""
    return steady + square * (level * width + width * width), square * (1 + width / level)
