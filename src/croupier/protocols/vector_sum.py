"""``vector-sum`` (P_Vec, appendix C): rounded coordinates and binomial noise as labelled bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import positive, whole
from croupier.coins import Coins
from croupier.contribution import UNIT_POWER, Layout, whole_units
from croupier.privacy.binomial import CountRelease
from croupier.privacy.bits import GRID_POWER, Batch, fewest_bits
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Curve, Guarantee, unproved
from croupier.privacy.placements import placed
from croupier.privacy.theorem import VectorSumTheorem
from croupier.protocols.base import (
    AdditiveRelease,
    Counted,
    Floats,
    Protocol,
    ShuffleRelease,
    Terms,
    needed,
)
from croupier.shuffler import Messages
from croupier.theory import constants, released
from croupier.theory.schedules import Schedule

BIASES = (0.25, 0.5)
MOST_COINS = 2**62
"""Counts are 64-bit integers."""

STEP_POWER = UNIT_POWER + GRID_POWER
"""Units times the whole grid are steps over 2**56."""

ROUNDED_UP = 1 + 1e-12
MOST_CERTIFIED = 3 * 10**9
"""Coins of another bias than 1/2 beyond which the certificate takes too long."""
FAVOURABLE_DELTA = 0.1
NO_COINS = "no noise bits are sent"
CERTIFICATE = "certificate for shuffled bits (MATH 4)"


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


@dataclass(frozen=True)
class VectorSum(Protocol):
    """P_Vec; the bits of a label are one channel, so their order says nothing."""

    name: ClassVar[str] = "vector-sum"
    release_type: ClassVar[type[ShuffleRelease]] = VectorSumRelease
    calibrations: ClassVar[tuple[str, ...]] = ("certified", "theorem", "released")

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """The fewest certified bits, or the bits of ``thm:vec`` or of the authors' script."""
        asked = needed(budget, cls.name)
        if terms.calibration == "theorem" and not terms.outside:
            constants.require(
                *constants.vector_sum_range(asked),
                *constants.composition_range(asked, terms.max_participations),
            )
        sizes = schedule.sizes()
        make: dict[str, Callable[..., VectorSumRelease]] = {
            "certified": partial(_certified, alike=len(sizes) == 1),
            "theorem": _theorem,
            "released": _released,
        }
        made = tuple(make[terms.calibration](asked, layout, size, terms) for size in sizes)
        return cls(layout, schedule, made, terms.honest_fraction)

    def formula(self, budget: Budget | None, terms: Terms) -> dict[str, float]:
        """Grid, bits and noise on the batch sum before ceilings and floors."""
        if terms.calibration == "certified":
            return {}
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

    def noise_floor(self, budget: Budget | None, terms: Terms) -> float | None:
        """The Gaussian floor: all users add noise, the honest ones' has to be enough."""
        batch = Batch(
            self.release(0).users,
            self.honest_fraction,
            self.layout.sensitivity,
            self.layout.size,
            terms.max_participations,
        )
        return batch.floor(needed(budget, self.name))

    def guarantee(self, participations: int = 1) -> Guarantee:
        """The certificate for shuffled bits, for a user in the worst of the batches (MATH 4)."""
        if not self._hides:
            return unproved(NO_COINS)
        if self._only_the_theorem:
            return self._theorem(participations)
        counts = [self._counts(index, self.honest_users(index)) for index in range(len(self._made))]
        return promised(placed(counts, participations), _honest(self.honest_fraction), counts)

    @property
    def _only_the_theorem(self) -> bool:
        """No fast certificate is known for other biases than 1/2."""
        return any(one.bias != 0.5 and one.coins > MOST_CERTIFIED for one in self._made)

    @property
    def _hides(self) -> bool:
        return all(one.noise_bits > 0 for one in self._made)

    @property
    def _made(self) -> tuple[VectorSumRelease, ...]:
        return tuple(one for one in self.releases if isinstance(one, VectorSumRelease))

    def _theorem(self, participations: int) -> Guarantee:
        first = self._made[0]
        curve = VectorSumTheorem(first.coins, self.layout.dim, first.grid, participations)
        method = "thm:vec as the paper prints it, not checked: too many bits for the certificate"
        return Guarantee(method, curve)

    def _counts(self, index: int, users: int) -> CountRelease:
        """What a swap does to the counts of a batch, seen through the coins of ``users``."""
        made = self._made[index]
        distance = made.grid * self.layout.device_sensitivity * ROUNDED_UP
        return CountRelease(users * made.noise_bits, made.bias, distance, self.layout.size)

    def local_guarantee(self) -> Guarantee:
        """The coins of one report alone, where they are enough to hide anything."""
        if not self._hides:
            return unproved(NO_COINS)
        if self._only_the_theorem:
            return unproved("no certificate has been computed for the bits of one report alone")
        counts = [self._counts(index, 1) for index in range(len(self._made))]
        return promised(placed(counts, 1), "the coins of one report", counts)

    def released_scale(self, budget: Budget | None) -> released.Scale:
        """G = ln(d/delta) sqrt(T d) / (4 epsilon sqrt B)."""
        dim, rounds = self.layout.dim, self.schedule.rounds
        noise = released.vector_sum_scale(needed(budget, self.name), self.schedule.first, dim)
        return released.private_scale(noise * math.sqrt(rounds * dim))


def _certified(
    asked: Budget, layout: Layout, users: int, terms: Terms, *, alike: bool
) -> VectorSumRelease:
    """The fewest bits whose noise is within the overhead of the Gaussian floor (MATH 4)."""
    grid, bits = fewest_bits(
        asked,
        users=users,
        honest_fraction=terms.honest_fraction,
        sensitivity=layout.device_sensitivity,
        ranges=layout.high - layout.low,
        participations=terms.max_participations,
        overhead=terms.overhead,
        alike=alike,
    )
    return VectorSumRelease(layout, users, grid, bits, 0.5)


def _theorem(asked: Budget, layout: Layout, users: int, terms: Terms) -> VectorSumRelease:
    """``thm:vec`` with the ceilings that make grid and bits whole numbers."""
    part = constants.composed_budget(asked, terms.max_participations)
    grid = math.ceil(constants.vector_sum_grid(users, layout.dim))
    bits = math.ceil(constants.vector_sum_noise_bits(part, users, layout.dim, grid))
    return VectorSumRelease(layout, users, float(grid), bits, constants.VECTOR_SUM_BIAS)


def _released(asked: Budget, layout: Layout, users: int, terms: Terms) -> VectorSumRelease:
    """The authors' script, which rounds the bits down; the grid goes to a device's fixed point."""
    part = constants.composed_budget(asked, terms.max_participations)
    grid = constants.vector_sum_grid(users, layout.dim)
    bits = math.floor(released.vector_sum_noise_bits(part, users, layout.dim, grid))
    fixed = round(grid * 2.0**GRID_POWER) / 2.0**GRID_POWER
    return VectorSumRelease(layout, users, fixed, bits, constants.VECTOR_SUM_BIAS)


def promised(curve: Curve, method: str, counts: Iterable[CountRelease]) -> Guarantee:
    """The curve, or the reason why some coins hide nothing at any delta."""
    mu = curve.mu_at(FAVOURABLE_DELTA)
    if mu is not None and math.isfinite(mu):
        return Guarantee(f"{CERTIFICATE}, {method}", curve)
    weakest = min(counts, key=lambda one: one.coins / one.distance)
    return unproved(
        f"a swap moves a count by up to {weakest.shift} steps, too far for the "
        f"{weakest.coins} coins of its label"
    )


def _honest(share: float) -> str:
    return "coins of all users" if share == 1 else f"coins of {share:.4g} of the users"


def _rounded(numerator: int, coins: Coins) -> int:
    """Steps over 2**56 as whole steps: one more with probability remainder / 2**56, exactly."""
    remainder = numerator & ((1 << STEP_POWER) - 1)
    return (numerator >> STEP_POWER) + int(coins.bits(STEP_POWER) < remainder)


def _unary(ones: int, total: int) -> NDArray[np.uint8]:
    """``total`` rows of one bit, the first ``ones`` set; the shuffle hides which.

    Every row is compared, so that the work does not depend on ``ones``.
    """
    return (np.arange(total) < ones).astype(np.uint8)[:, None]
