"""``vector-sum`` (P_Vec, appendix C): rounded coordinates and binomial noise as labelled bits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import positive, whole
from croupier.coins import Coins
from croupier.contribution import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, unproved
from croupier.protocols.base import Floats, Protocol, ShuffleRelease, Terms, needed
from croupier.shuffler import Messages
from croupier.theory import constants, released
from croupier.theory.schedules import Schedule

BIASES = (0.25, 0.5)
ROUNDING_POWER = 53
MOST_COINS = 2**62
"""Counts are 64-bit integers."""


@dataclass(frozen=True)
class VectorSumRelease(ShuffleRelease):
    """``grid`` steps per unit, ``noise_bits`` coins of probability ``bias`` per user and label."""

    grid: float
    noise_bits: int
    bias: float

    def __post_init__(self) -> None:
        """Refuse parameters that no device can draw."""
        positive("grid", self.grid)
        whole("noise_bits", self.noise_bits, 0)
        if self.coins >= MOST_COINS:
            raise ValueError(
                f"noise_bits must keep users * noise_bits below 2**62, got {self.noise_bits}"
            )
        if self.bias not in BIASES:
            raise ValueError(f"bias must be one of {BIASES}, got {self.bias!r}")

    @cached_property
    def signal_bits(self) -> NDArray[np.int64]:
        """Bits per label that carry the rounded value: ceil(grid * (high - low))."""
        return np.ceil(self.grid * (self.layout.high - self.layout.low)).astype(np.int64)

    @property
    def report_bits(self) -> int:
        """Signal and noise bits of all labels."""
        return int(self.signal_bits.sum()) + self.layout.size * self.noise_bits

    @property
    def coins(self) -> int:
        """Noise coins per label in a batch."""
        return self.users * self.noise_bits

    @property
    def privacy_noise_std(self) -> float:
        """Binomial noise on one coordinate of the batch sum."""
        return math.sqrt(self.coins * self.bias * (1 - self.bias)) / self.grid

    @property
    def noise_std(self) -> float:
        """Binomial noise and rounding, which adds at most a quarter step squared per user."""
        return math.hypot(self.privacy_noise_std, math.sqrt(self.users) / 2 / self.grid)

    def steps(self, contributions: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Whole steps above ``low`` and the fraction left, for values clipped to their range."""
        inside = np.clip(contributions, self.layout.low, self.layout.high)
        scaled = self.grid * (inside - self.layout.low)
        whole_steps = np.floor(scaled)
        return whole_steps.astype(np.int64), scaled - whole_steps

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        """R_Vec: for each label a fixed number of bits, as many ones as steps plus noise."""
        floor, left = self.steps(contribution)
        threshold = (left * 2.0**ROUNDING_POWER).astype(np.uint64)
        ones = floor + coins.below(threshold, ROUNDING_POWER)
        totals = self.signal_bits + self.noise_bits
        return {
            label: _unary(int(count) + self._noise(coins), int(total))
            for label, count, total in zip(self.layout.labels, ones, totals, strict=True)
        }

    def _noise(self, coins: Coins) -> int:
        """Bin(noise_bits, bias) as a popcount."""
        draw = coins.bits(self.noise_bits)
        if self.bias == 0.25:
            draw &= coins.bits(self.noise_bits)
        return draw.bit_count()

    def analyze(self, messages: Messages) -> Floats:
        """A_Vec: count the ones of each label and take off what noise and shift put in."""
        counts = np.array([np.count_nonzero(messages[label]) for label in self.layout.labels])
        return self.debias(counts)

    def debias(self, counts: NDArray[np.int64]) -> Floats:
        """Batch sums from counts; the shift is that of all users, B * low, not of one."""
        signal = (counts - self.coins * self.bias) / self.grid
        return np.asarray(signal + self.users * self.layout.low)

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """Counts drawn at once: Bernoulli roundings, and one binomial for all coins of a label."""
        floor, left = self.steps(contributions)
        ones = floor + (rng.random(left.shape) < left)
        counts = ones.sum(axis=-2)
        return self.debias(counts + rng.binomial(self.coins, self.bias, counts.shape))


@dataclass(frozen=True)
class VectorSum(Protocol):
    """P_Vec; the bits of a label are one channel, so their order says nothing."""

    name: ClassVar[str] = "vector-sum"
    release_type: ClassVar[type[ShuffleRelease]] = VectorSumRelease
    calibrations: ClassVar[tuple[str, ...]] = ("theorem", "released")

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """Grid and noise bits of ``thm:vec`` (or ``thm:vec_return``), or of the authors' script."""
        asked = needed(budget, cls.name)
        if terms.calibration == "theorem" and not terms.outside:
            constants.require(
                *constants.vector_sum_range(asked),
                *constants.composition_range(asked, terms.max_participations),
            )
        part = constants.composed_budget(asked, terms.max_participations)
        make = _theorem if terms.calibration == "theorem" else _released
        return cls(layout, schedule, tuple(make(part, layout, size) for size in schedule.sizes()))

    def formula(self, budget: Budget | None, terms: Terms) -> dict[str, float]:
        """Grid, bits and noise on the batch sum before ceilings and floors."""
        users, dim = self.schedule.first, self.layout.dim
        part = constants.composed_budget(needed(budget, self.name), terms.max_participations)
        rule = constants if terms.calibration == "theorem" else released
        grid = constants.vector_sum_grid(users, dim)
        bits = rule.vector_sum_noise_bits(part, users, dim, grid)
        spread = constants.VECTOR_SUM_BIAS * (1 - constants.VECTOR_SUM_BIAS)
        return {
            "grid": grid,
            "noise_bits": bits,
            "privacy_noise_std": math.sqrt(users * bits * spread) / grid,
        }

    def guarantee(self, participations: int = 1) -> Guarantee:
        """Not computed for these constants."""
        return unproved("no certificate has been computed for shuffled bits of bias 1/4")

    def local_guarantee(self) -> Guarantee:
        """Not computed for these constants."""
        return unproved("no certificate has been computed for the bits of one report alone")

    def released_scale(self, budget: Budget | None) -> released.Scale:
        """G = ln(d/delta) sqrt(T d) / (4 epsilon sqrt B)."""
        dim, rounds = self.layout.dim, self.schedule.rounds
        noise = released.vector_sum_scale(needed(budget, self.name), self.schedule.first, dim)
        return released.private_scale(noise * math.sqrt(rounds * dim))


def _theorem(part: Budget, layout: Layout, users: int) -> VectorSumRelease:
    """``thm:vec`` with the ceilings that make grid and bits whole numbers."""
    grid = math.ceil(constants.vector_sum_grid(users, layout.dim))
    bits = math.ceil(constants.vector_sum_noise_bits(part, users, layout.dim, grid))
    return VectorSumRelease(layout, users, float(grid), bits, constants.VECTOR_SUM_BIAS)


def _released(part: Budget, layout: Layout, users: int) -> VectorSumRelease:
    """The authors' script, which rounds the bits down and keeps the grid as it is."""
    grid = constants.vector_sum_grid(users, layout.dim)
    bits = math.floor(released.vector_sum_noise_bits(part, users, layout.dim, grid))
    return VectorSumRelease(layout, users, grid, bits, constants.VECTOR_SUM_BIAS)


def _unary(ones: int, total: int) -> NDArray[np.uint8]:
    """``total`` rows of one bit, the first ``ones`` of them set; the shuffle hides which."""
    bits = np.zeros((total, 1), dtype=np.uint8)
    bits[:ones] = 1
    return bits
