"""One batch of ``vector-sum`` (R_Vec and A_Vec): labelled bits on devices, counts on the server."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import positive, whole
from croupier.coins import Coins
from croupier.fixed_point import UNIT_POWER, whole_units
from croupier.privacy.shuffled_bits.calibration import GRID_POWER
from croupier.protocols.base import AdditiveRelease, Counted, Floats
from croupier.shuffler import Messages

BIASES = (0.25, 0.5)
MOST_COINS = 2**62
"""Counts are 64-bit integers."""
STEP_POWER = UNIT_POWER + GRID_POWER
"""Units times the whole grid are steps over 2**56."""


@dataclass(frozen=True)
class VectorSumRelease(AdditiveRelease):
    """``grid`` steps per unit, ``noise_bits`` coins of probability ``bias`` per user and label."""

    grid: float
    noise_bits: int
    bias: float

    def __post_init__(self) -> None:
        """Refuse parameters that no device can draw."""
        if not math.ldexp(positive("grid", self.grid), GRID_POWER).is_integer():
            raise ValueError(f"grid must be a multiple of 2**-{GRID_POWER}, got {self.grid!r}")
        whole("noise_bits", self.noise_bits, 0)
        if self.coins >= MOST_COINS:
            raise ValueError(
                f"noise_bits must keep users * noise_bits below 2**62, got {self.noise_bits}"
            )
        if self.bias not in BIASES:
            raise ValueError(f"bias must be one of {BIASES}, got {self.bias!r}")

    @cached_property
    def signal_bits(self) -> NDArray[np.int64]:
        """Bits per label that carry the rounded value: ceil(grid * (high - low)), in integers."""
        spans = self._numerators(self.layout.high)
        return np.array([-(-span >> STEP_POWER) for span in spans], dtype=np.int64)

    @property
    def report_bits(self) -> int:
        """Signal and noise bits of all labels."""
        return int(self.signal_bits.sum()) + self.layout.size * self.noise_bits

    @property
    def report_weight(self) -> float:
        """All bits of the vector, of signal and of noise, on one side of their middle."""
        vector = slice(self.layout.summed)
        reach = (self.signal_bits[vector] + self.noise_bits) / (2 * self.grid)
        return float(np.linalg.norm(reach)) / self.layout.largest_gain

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
        """R_Vec: for each label a fixed number of bits, as many ones as steps plus noise.

        In integers from the first line on, and with the same draws whatever the data (MATH 4).
        """
        inside = np.clip(contribution, self.layout.low, self.layout.high)
        totals = (self.signal_bits + self.noise_bits).tolist()
        rows = zip(self.layout.labels, self._numerators(inside), totals, strict=True)
        return {
            label: _unary(_rounded(numerator, coins) + self._noise(coins), total)
            for label, numerator, total in rows
        }

    def _numerators(self, inside: Floats) -> list[int]:
        """Steps above ``low`` over 2**56, exactly."""
        grid = int(math.ldexp(self.grid, GRID_POWER))
        units = zip(whole_units(inside), whole_units(self.layout.low), strict=True)
        return [(unit - low) * grid for unit, low in units]

    def _noise(self, coins: Coins) -> int:
        """Bin(noise_bits, bias) as a popcount."""
        draw = coins.bits(self.noise_bits)
        if self.bias == 0.25:
            draw &= coins.bits(self.noise_bits)
        return draw.bit_count()

    def tally(self, messages: Messages) -> NDArray[np.int64]:
        """A_Vec: the ones of each label."""
        return np.array([np.count_nonzero(messages[label]) for label in self.layout.labels])

    def settle(self, tally: NDArray[np.int64], users: Counted) -> Floats:
        """Sums from counts; the shift is that of all users, B * low, not of one."""
        signal = (tally - users * self.noise_bits * self.bias) / self.grid
        return np.asarray(signal + users * self.layout.low)

    def debias(self, counts: NDArray[np.int64]) -> Floats:
        """Batch sums ``(..., size)`` from the counts of a complete batch."""
        return self.settle(counts, self.users)

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """Counts drawn at once: Bernoulli roundings, and one binomial for all coins of a label."""
        return self.finish(self.partial(contributions, rng), rng)

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """Steps of some users, rounded."""
        floor, left = self.steps(contributions)
        ones = floor + (rng.random(left.shape) < left)
        return np.asarray(ones.sum(axis=-2), dtype=np.float64)

    def finish(self, added: Floats, rng: np.random.Generator) -> Floats:
        """The steps of all users and their noise coins."""
        counts = added.astype(np.int64)
        return self.debias(counts + self.sample_noise(counts.shape, rng))

    def noise_ahead(self, count: int, rng: np.random.Generator) -> Floats:
        """The coins of as many batches, less their mean."""
        ones = self.sample_noise((count, self.layout.size), rng)
        return np.asarray((ones - self.coins * self.bias) / self.grid)

    @property
    def rounding(self) -> float | None:
        """The grid."""
        return self.grid

    def sample_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
        """Ones among all noise coins of a label."""
        return rng.binomial(self.coins, self.bias, shape)

    def sample_view(
        self, pair: Floats, truth: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        """Sums as in ``sample_sum``: equal users' roundings are one binomial per label."""
        shape = (trials, self.layout.size)
        floor, left = self.steps(pair[truth])
        noise = self.sample_noise(shape, rng)
        own = floor + (rng.random(shape) < left)
        floor, left = self.steps(np.zeros(self.layout.size))
        others = (self.users - 1) * floor + rng.binomial(self.users - 1, left, shape)
        return self.debias(own + others + noise)


def _rounded(numerator: int, coins: Coins) -> int:
    """Steps over 2**56 as whole steps: one more with probability remainder / 2**56, exactly."""
    remainder = numerator & ((1 << STEP_POWER) - 1)
    return (numerator >> STEP_POWER) + int(coins.bits(STEP_POWER) < remainder)


def _unary(ones: int, total: int) -> NDArray[np.uint8]:
    """``total`` rows of one bit, the first ``ones`` set; the shuffle hides which.

    Every row is compared, so that the work does not depend on ``ones``.
    """
    return (np.arange(total) < ones).astype(np.uint8)[:, None]
