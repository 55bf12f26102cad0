"""Tests that are told how far all releases of a user move: what is left for them to gain (PROOF 9).

The inputs of a release may depend on what was released before, and so may the sign by which
rounding changes variances. Whoever is told U, the sum of all moves, and turns the signs as suits
best, gains more than any test can; but where the move is long there is little to turn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import exp1, log_ndtr, logsumexp

from croupier.privacy.gdp import mills
from croupier.privacy.groups import Groups
from croupier.privacy.shares import Shares
from croupier.privacy.shuffled_bits.binomial_tails import Floats

BACK = 1.7
"""How far below its threshold a test may turn every sign, in units of 1/(kappa b)."""
STEEPEST = 20.0
"""The largest g of a turn's bound."""


@dataclass(frozen=True)
class Lines:
    """Bounds x Phi'(z) + K on E[s 1_A] for tests A of level z, linear in their chance Phi'(z).

    ``slope`` is x. K is ``above``, in units of the density at ``start``, and exp(``turned``), in
    units of that at 0.
    """

    slope: Floats
    above: Floats
    start: Floats
    turned: Floats

    def speeds(self, levels: Floats) -> Floats:
        """The bounds over phi(z), which on a piece are largest at one of its ends."""
        grown = np.exp((levels**2 - self.start**2) / 2) * self.above
        return self.slope * mills(levels) + grown + np.exp(self.turned + levels**2 / 2)

    def highest(self, low: Floats, high: Floats) -> Floats:
        """The highest speed on each piece."""
        return np.maximum(self.speeds(low), self.speeds(high))


@dataclass(frozen=True)
class Told:
    """Tests of the level ``near``, by exponential moments of the ``rates`` kappa b.

    ``length`` is b, ``widenings`` E^2. Axes are rates, levels and shares of the way.
    """

    length: float
    widenings: float
    groups: Groups
    rates: Floats
    near: Floats

    @cached_property
    def kappa(self) -> Floats:
        """The exponent of moments."""
        return np.asarray(self.rates / self.length)

    @cached_property
    def tilts(self) -> Floats:
        """x = kappa e, below 1/2."""
        return self.kappa * self.groups.widening

    @cached_property
    def stretch(self) -> Floats:
        """e~: the mean widening, and what widenings across the way add to it."""
        turned = 2 * self.kappa * self.groups.across / (1 - 2 * self.tilts)
        return np.asarray(self.groups.mean + turned)

    @property
    def turn(self) -> Floats:
        """The most that a turn of a sign gains, in units of 2e and of its share of the way left."""
        return np.asarray(np.arctanh(2 * self.tilts) / (2 * self.tilts))

    @cached_property
    def start(self) -> Floats:
        """u1, the threshold: above the level by what tests of this rate look below it."""
        return np.asarray(self.near + 1 / np.maximum(self.rates - self.near, 1.0))

    def power(self, told: Floats) -> Floats:
        """kappa B(u), B(u) = b u + e~ u^2 - e_: the move that is expected of u."""
        return np.asarray(self.rates * told + self._widened(told))

    def _widened(self, told: Floats) -> Floats:
        return np.asarray(self.kappa * (self.stretch * told**2 - self.groups.mean))

    @cached_property
    def noise(self) -> Floats:
        """kappa^2 Y, the logarithm of the moment of what is not expected."""
        grown = 1 + 4 * self.tilts / (3 * (1 - 2 * self.tilts))
        told = self.groups.mean**2 + 2 * self.groups.across
        return np.asarray(self.kappa**2 * max(0.0, self.widenings - told) * grown)

    def moment(self, told: Floats) -> Floats:
        """The integral of exp(kappa B) phi up to ``told`` in units of its value there."""
        scale = 1 / np.sqrt(1 - 2 * self.kappa * self.stretch)
        return np.asarray(scale * mills((self.rates * scale**2 - told) / scale))

    def lines(self) -> Lines:
        """The bounds of tests that are told: up to ``back`` every sign is turned, then some."""
        back = self.start - BACK / self.rates
        fading = self.power(back) - self.power(self.start) + (self.start**2 - back**2) / 2
        every = np.expm1(self._every) * np.exp(fading) * self.moment(back)
        above = self._above(self.moment(self.start) + every)
        return Lines(self._slope, above, self.start, self._turned(back))

    def untold(self, pulls: Sequence[Shares]) -> Lines:
        """The same of tests that are not told: thresholds of U, and what is left to gain.

        A threshold gains what the past can turn its way. What is left is where Z undoes or makes
        up for what U lacks, which is rare: only that is bounded as if all signs were turned.
        """
        level = self.near + np.zeros_like(self.rates)
        turned = self._every + self._widened(level)
        with np.errstate(over="ignore"):
            rare = np.exp(self.noise + turned - 1) * (self.moment(level) + self.moment(-level))
        above = self.length * (1 - level * mills(level) + rare / self.rates)
        above += self.groups.widening * np.minimum.reduce([one.pull(self.near) for one in pulls])
        return Lines(self.length * level, above, level, np.full_like(level, -math.inf))

    @property
    def _every(self) -> Floats:
        """2 x H, the most that turning every sign adds to the power of a moment."""
        return np.asarray(2 * self.tilts * self.turn * self.groups.shares.weights.sum())

    def _turned(self, back: Floats) -> Floats:
        """The logarithm of what turning signs gains beyond ``back``, in units of phi(0).

        A turn gains (1 - f n^2)+, which is at most exp(g - 1) / g exp(-f g n^2) for every g >= 1.
        """
        flat, shares = (1 - 2 * self.tilts)[..., None], self.groups.shares
        steep = _steepness(flat, np.maximum(back, 0.0)[..., None], shares.left)
        wide = 1 + 2 * flat * steep
        # The longer the way that is left, the likelier is a move up to a level below 0.
        most = np.where(back[..., None] < 0, 1.0, shares.left)
        chances = log_ndtr(-back[..., None] / np.sqrt(1 - (1 - 1 / wide) * most))
        gains = steep - 1 + chances - np.log(steep * np.sqrt(wide))
        unit = 2 * self.groups.widening * math.sqrt(2 * math.pi) * self.turn
        return np.asarray(np.log(unit) + logsumexp(gains, axis=-1, b=shares.weights))

    @property
    def _slope(self) -> Floats:
        """x = B(u1) - 1/kappa."""
        return self.length / self.rates * (self.power(self.start) - 1)

    def _above(self, moment: Floats) -> Floats:
        """E(s-x)+ in units of phi(u1): moments below the threshold, means and noise above it."""
        unit, ratio = self.length / self.rates, self.start / self.rates
        stretched = self.length + self.stretch * self.start
        means = stretched + (self.stretch - self.groups.mean - self._slope) * mills(self.start)
        noise = self.noise / self.rates * np.exp(ratio) * exp1(ratio)
        return np.asarray(means + unit * (np.exp(self.noise) * moment + noise))


def _steepness(flat: Floats, levels: Floats, left: Floats) -> Floats:
    """The g, near enough, that bounds turns best beyond these levels: where its slope is 0."""
    pull, short = flat * left * levels**2, 2 * flat * (1 - left)
    low = np.ones_like(pull)
    high = STEEPEST * low
    for _ in range(5):
        middle = np.sqrt(low * high)
        rising = 1 - 1 / middle - flat / (1 + 2 * flat * middle) > pull / (1 + short * middle) ** 2
        low, high = np.where(rising, low, middle), np.where(rising, middle, high)
    return np.asarray(low)
