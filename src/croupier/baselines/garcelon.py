"""``garcelon``: randomised unary codes, shuffled (Garcelon, Chaudhuri, Perchet and Pirotta 2021).

A coordinate, shifted into [0, 1], becomes m bits, of which each is kept or replaced by a fair
coin. The model is replaced when its determinant has grown, while batches stay fixed (MATH 6.6).

**Law.** The code of v has its first floor(m v) bits set and the next one with the probability
that is left. Only one bit of a code is random, so the bits are independent, bit i being 1 with
probability clip(m v - i, 0, 1). With probability p a bit is replaced by a fair coin, so it is
flipped with probability p/2 and its likelihood ratio is at most (1 - p/2)/(p/2) =: exp(a), that
is p = 2/(exp(a) + 1). All m d(d+3)/2 bits may differ, so a report is epsilon0-DP with
a = 2 epsilon0/(m d(d+3)): the formula of MATH 6.6 is right for any two codes.

**What contributions add.** Two contributions differ by ``sensitivity`` in the Euclidean norm, so
the means of their bits by at most m r in the sum of absolute differences, with
r = sensitivity sqrt(size) / width. A bit whose mean moves by t has its log-likelihood moved by at
most t (exp(a) - 1), since no chance is below p/2. So epsilon0 <= m r (exp(a) - 1) as well: at
dimension 5, r is 4.7 in place of 20.

**De-biasing.** A count Z over l users has mean m (1-p) sum v + l m p/2, hence
sum v = Z/(m(1-p)) - l p/(2(1-p)), as MATH 6.6 says; sum x = width sum v + l low.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from croupier.arguments import positive, whole
from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, PureCurve, WorstCurve
from croupier.privacy.shuffled_reports.local import ShuffledLocalCurve, most_local_epsilon
from croupier.protocols.base import (
    VIEWED_AT_ONCE,
    Floats,
    Mechanism,
    Release,
    Terms,
    honest_users,
    needed,
)
from croupier.protocols.rounding import Rounding
from croupier.schedules import Schedule
from croupier.theory import constants
from croupier.theory.constants import Condition
from croupier.theory.promises import Promise, shuffled

MOST_BITS = 64
"""Of a code; more help only where a report alone may tell almost everything."""

ROUNDED_UP, ROUNDED_DOWN = 1 + 1e-12, 1 - 1e-11
"""On epsilon0 and on what is calibrated to it, so that one stays within the other."""

SEARCHED = 100
"""Halvings of a search."""


@dataclass(frozen=True)
class GarcelonRelease(Release):
    """``bits`` a coordinate; ``bit_epsilon`` is the log-likelihood ratio of one of them."""

    bits: int
    bit_epsilon: float

    def __post_init__(self) -> None:
        """There must be bits, and noise on them."""
        whole("bits", self.bits, 1)
        positive("bit_epsilon", self.bit_epsilon)

    @property
    def width(self) -> float:
        """What [0, 1] stands for, the same for all coordinates so that their noise is."""
        return float((self.layout.high - self.layout.low).max())

    @property
    def replaced(self) -> float:
        """p: how often a bit gives way to a fair coin."""
        return 2 * float(expit(-self.bit_epsilon))

    @property
    def kept(self) -> float:
        """1 - p, without cancellation."""
        return math.tanh(self.bit_epsilon / 2)

    @property
    def local_epsilon(self) -> float:
        """epsilon0 of one report: by the bits that may differ, or by how far they can move."""
        every = self.layout.size * self.bit_epsilon
        moved = reach(self.layout) * _expm1(self.bit_epsilon)
        return self.bits * min(every, moved) * ROUNDED_UP

    @property
    def report_bits(self) -> int:
        """All codes."""
        return self.bits * self.layout.size

    @property
    def privacy_noise_std(self) -> float:
        """Noise of flipped bits: variance (p/2)(1 - p/2) = (1-p)^2 / (4 sinh^2(a/2)) each."""
        return self.width * math.sqrt(self.users * _spread(self.bit_epsilon) / self.bits)

    @property
    def noise_std(self) -> float:
        """Flipped bits and rounding, which adds at most a quarter of a squared level per user."""
        rounding = self.width * math.sqrt(self.users) / (2 * self.bits)
        return math.hypot(self.privacy_noise_std, rounding)

    def codes(self, contributions: Floats) -> Floats:
        """Contributions ``(..., size)`` shifted into [0, 1] and clipped to it."""
        return np.clip((contributions - self.layout.low) / self.width, 0.0, 1.0)

    def chances(self, contribution: Floats) -> tuple[Floats, Floats]:
        """That each bit of a report is sent as 1, and as 0: twice ``(size, bits)``."""
        means = np.clip(self.bits * self.codes(contribution)[:, None] - np.arange(self.bits), 0, 1)
        flipped = self.replaced / 2
        return flipped + self.kept * means, flipped + self.kept * (1 - means)

    def debias(self, counts: NDArray[np.int64]) -> Floats:
        """Batch sums from the ones of each coordinate."""
        flips = self.users * self.bits * self.replaced / 2
        shifted = (counts - flips) / (self.bits * self.kept)
        return np.asarray(self.width * shifted + self.users * self.layout.low)

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """Counts drawn at once: one bit a user, then two binomials a coordinate."""
        return self.finish(self.partial(contributions, rng), rng)

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """Ones as they are sent, of each code's bit that is rounded, and set bits before it.

        Twice ``(..., size)``, one after the other. Of m bits with w = min(floor(m v), m - 1) set,
        the next is set with the chance m v - w and sent as 1 as :meth:`chances` says.
        """
        levels = self.bits * self.codes(contributions)
        floor = np.minimum(np.floor(levels), self.bits - 1)
        sent = rng.random(levels.shape) < self.replaced / 2 + self.kept * (levels - floor)
        return np.concatenate([sent.sum(axis=-2), floor.sum(axis=-2)], axis=-1)

    def finish(self, added: Floats, rng: np.random.Generator) -> Floats:
        """All other bits replaced at once: two binomials a coordinate."""
        sent, ones = np.split(added.astype(np.int64), 2, axis=-1)
        zeros = self.users * (self.bits - 1) - ones
        flipped = self.replaced / 2
        return self.debias(sent + rng.binomial(ones, 1 - flipped) + rng.binomial(zeros, flipped))

    def noise_ahead(self, count: int, rng: np.random.Generator) -> Floats | None:
        """None is left where a code is one bit; how many others are set depends on the data."""
        return np.zeros((count, self.layout.size)) if self.bits == 1 else None

    @property
    def roundings(self) -> tuple[Rounding, ...]:
        """One bit of a code, replaced at times."""
        grid, most = self.bits / self.width, self.bits - 1
        return (Rounding(grid, self.users, self.replaced / 2, self.kept, most),)

    def sample_view(
        self, pair: Floats, truth: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        """Likelihood ratios ``(trials, 2)`` of permuted whole reports, all that is claimed to hide.

        All others are like ``pair[0]``. The features: the mixture over which report is the
        user's, then the report that arrived first.
        """
        first, second = (np.concatenate(self.chances(row), axis=1) for row in pair)
        moved = (first != second).any(axis=1)
        ratios = np.log(second[moved] / first[moved])
        drawn = (first[moved], (first, second)[truth][moved])
        chunk = max(1, VIEWED_AT_ONCE // max(1, self.users * self.bits * int(moved.sum())))
        counts = (min(chunk, trials - start) for start in range(0, trials, chunk))
        return np.concatenate([self._view(ratios, *drawn, count, rng) for count in counts])

    def _view(
        self,
        ratios: Floats,
        others: Floats,
        own: Floats,
        trials: int,
        rng: np.random.Generator,
    ) -> Floats:
        """Features of as many trials as fit in memory."""
        ones, zeros = np.split(ratios, 2, axis=1)
        uniform = rng.random((trials, self.users, *ones.shape), dtype=np.float32)
        sent = uniform < others[:, : self.bits]
        sent[:, 0] = uniform[:, 0] < own[:, : self.bits]
        losses = np.einsum("tujb,jb->tu", sent, ones - zeros) + zeros.sum()
        rows = self.shuffle_rows(losses, rng)
        mixture = np.asarray(logsumexp(rows, axis=1)) - math.log(self.users)
        return np.stack([mixture, rows[:, 0]], axis=1)

    def shuffle_rows(self, rows: Floats, rng: np.random.Generator) -> Floats:
        """The shuffler's permutation, another one in each trial."""
        return rng.permuted(rows, axis=1)


@dataclass(frozen=True)
class Garcelon(Mechanism):
    """Local privacy by randomised codes, amplified by shuffling; models at growing determinants."""

    name: ClassVar[str] = "garcelon"
    release_type: ClassVar[type[Release]] = GarcelonRelease
    calibrations: ClassVar[tuple[str, ...]] = ("certified", "theorem")
    publication: ClassVar[str] = "determinant"

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """The least noise that is proved to meet the budget, or that of the original's formulas."""
        asked = needed(budget, cls.name)
        if terms.calibration == "theorem" and not terms.outside:
            _require(asked, schedule, terms)
        sizes = schedule.sizes()
        # A user who returns may be in any batches: the smallest decides for all of them.
        crowds = sizes if terms.max_participations == 1 else (min(sizes),) * len(sizes)
        make = _certified if terms.calibration == "certified" else _theorem
        made = tuple(
            make(asked, layout, users, crowd, terms)
            for users, crowd in zip(sizes, crowds, strict=True)
        )
        return cls(layout, schedule, made, terms.honest_fraction)

    def guarantee(self, participations: int = 1) -> Guarantee:
        """The smaller of the local guarantee and the numerical clones bound (MATH 5).

        It holds for whole reports permuted. Bits permuted within their coordinate are equivalent
        to counts, which whole reports give too, so they tell no more.
        """
        kinds = {
            (made.local_epsilon, self.honest_users(index)) for index, made in enumerate(self._made)
        }
        if participations > 1:
            # Less noise among fewer users tells more, so this pair covers every mix of batches.
            kinds = {(max(local for local, _ in kinds), min(users for _, users in kinds))}
        curves = tuple(ShuffledLocalCurve(*kind, participations) for kind in sorted(kinds))
        method = "numerical clones bound (Feldman, McMillan and Talwar 2021)"
        return Guarantee(method, curves[0] if len(curves) == 1 else WorstCurve(curves))

    def local_guarantee(self, draws: int = 1) -> Guarantee:
        """Reports alone have a bounded likelihood ratio, which adds up (MATH 6.6)."""
        largest = max(made.local_epsilon for made in self._made)
        method = "bounded likelihood ratio of randomised bits (MATH 6.6)"
        return Guarantee(method, PureCurve(draws * largest))

    @property
    def _made(self) -> tuple[GarcelonRelease, ...]:
        return tuple(one for one in self.releases if isinstance(one, GarcelonRelease))


def reach(layout: Layout) -> float:
    """The most that two contributions differ in all their codes together, by Cauchy and Schwarz."""
    width = float((layout.high - layout.low).max())
    return layout.sensitivity * math.sqrt(layout.size) / width


def _expm1(value: float) -> float:
    """exp(value) - 1, infinite where it overflows."""
    return math.expm1(value) if value < 700 else math.inf


def _spread(bit_epsilon: float) -> float:
    """1/(4 sinh^2(a/2)), the variance of a flipped bit once it is de-biased."""
    return math.exp(-bit_epsilon) / math.expm1(-bit_epsilon) ** 2


def _best(layout: Layout, users: int, local: float, *, every_bit: bool) -> GarcelonRelease:
    """The number of bits with the least noise at ``local``; one, unless ``local`` is large.

    By the second bound on epsilon0 the noise variance of m bits is, per user and over width^2/4,
    4 m (r/epsilon0)^2 + 4 r/epsilon0 + 1/m^2, which one bit makes least while epsilon0 < 2.3 r.
    """

    def made(bits: int) -> GarcelonRelease:
        share = local / (bits * layout.size)
        if not every_bit:
            share = max(share, math.log1p(local / (bits * reach(layout))))
        return GarcelonRelease(layout, users, bits, share * ROUNDED_DOWN)

    return min(map(made, range(1, MOST_BITS + 1)), key=lambda release: release.noise_std)


def _certified(
    asked: Budget, layout: Layout, users: int, crowd: int, terms: Terms
) -> GarcelonRelease:
    """The largest local epsilon whose amplification by ``crowd`` users meets the budget."""
    honest, batches = honest_users(crowd, terms.honest_fraction), terms.max_participations

    def meets(made: GarcelonRelease) -> bool:
        curve = ShuffledLocalCurve(made.local_epsilon, honest, batches)
        return curve.delta(asked.epsilon) <= asked.delta

    local, step = most_local_epsilon(asked, users=honest, batches=batches), 2.0**-40
    # The clones bound is computed on cells, so it may rise a little where it should fall.
    while not meets(made := _best(layout, users, local, every_bit=False)):
        local *= 1 - step
        step *= 2
    return made


def _theorem(
    asked: Budget, layout: Layout, users: int, crowd: int, terms: Terms
) -> GarcelonRelease:
    """Every bit counted, and ``lem:shuffle_amp`` for a batch's share of the budget."""
    part = constants.composed_budget(asked, terms.max_participations)
    return _best(layout, users, amplifiable(part, crowd), every_bit=True)


def amplifiable(budget: Budget, users: int) -> float:
    """The largest local epsilon that the closed form of ``lem:shuffle_amp`` brings to the budget.

    Outside the range of that form it is the budget's own epsilon.
    """
    inside, outside = budget.epsilon, math.log(users / (16 * math.log(2 / budget.delta)))
    if outside <= inside:
        return inside
    for _ in range(SEARCHED):
        middle = (inside + outside) / 2
        holds = shuffled(Promise(middle, 0.0), users, budget.delta).epsilon <= budget.epsilon
        inside, outside = (middle, outside) if holds else (inside, middle)
    return inside


def _require(asked: Budget, schedule: Schedule, terms: Terms) -> None:
    """The range of Garcelon et al. and, for users who return, of ``thm:composition``."""
    most: float = 1 / (27 * schedule.rounds**0.25)
    constants.require(
        Condition("Garcelon et al. 2021", "epsilon <= 1/(27 T^(1/4))", asked.epsilon, most),
        *constants.composition_range(asked, terms.max_participations),
    )
