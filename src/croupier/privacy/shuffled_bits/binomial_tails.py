"""Binomial tails and their normal quantiles, accurate enough to divide differences (MATH 4).

The certificate divides differences of neighbouring quantiles, so errors of 1e-15 are needed where
library tails have 1e-9. Everything here is a sum or product of positive terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfinv, ndtri_exp

from croupier.arguments import positive, whole
from croupier.errors import GuaranteeError

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MOST_COINS = 2**62
STIRLING_FROM = 16
STIRLING_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
NEGLIGIBLE = 44.0
"""Terms below exp(-44), 1e-19 of the first, are bounded by a geometric series instead of added."""
MOST_TERMS = 30_000_000
"""Terms that one sum may have: about a second, and enough for 1e13 coins."""
MOST_TABLED = 5000
"""Coins up to which all tails are kept."""
DEEPEST = 500.0
"""How far, in logarithms, terms of one sum may fall before floating point runs out."""


@dataclass(frozen=True)
class Binomial:
    """The law of the number of ones among ``coins`` coins, each one with probability ``bias``."""

    coins: int
    bias: Fraction

    def __post_init__(self) -> None:
        """Refuse coins that cannot be counted and coins without chance."""
        if whole("coins", self.coins, 1) >= MOST_COINS:
            raise ValueError(f"coins must be below 2**62, got {self.coins!r}")
        if not 0 < self.bias < 1:
            raise ValueError(f"bias must be between 0 and 1, got {float(self.bias)!r}")

    @property
    def mirrored(self) -> Binomial:
        """The law of the number of zeros; its bias is exact, which 1 - p in floats is not."""
        return Binomial(self.coins, 1 - self.bias)

    @cached_property
    def mean(self) -> Fraction:
        """Coins times bias, exactly."""
        return self.coins * self.bias

    @cached_property
    def below_mean(self) -> int:
        """The mean rounded down: from here on the upper tail is the smaller one, or nearly."""
        return math.floor(self.mean)

    @cached_property
    def odds(self) -> float:
        """Of a one against a zero."""
        return float(self.bias / (1 - self.bias))

    @property
    def fair(self) -> bool:
        """Whether ones and zeros are equally likely."""
        return self.bias == Fraction(1, 2)

    def deviations(self, counts: Counts) -> Floats:
        """Counts minus the mean, without the rounding error of ``coins * bias``."""
        rest = float(self.mean - self.below_mean)
        return np.asarray((counts - self.below_mean) - rest, dtype=np.float64)

    def ratios(self, counts: Counts) -> Floats:
        """P[W = v+1] / P[W = v] for v in ``counts``."""
        return np.asarray((self.coins - counts) / (counts + 1) * self.odds, dtype=np.float64)


def binomial(coins: int, bias: float) -> Binomial:
    """The law with the exact value of a float bias."""
    return Binomial(coins, Fraction(positive("bias", bias)))


def log_pmf(law: Binomial, counts: Counts) -> Floats:
    """log P[W = v] for v in ``counts``, each between 0 and coins (Loader's saddle point form)."""
    inner = np.clip(counts, 1, max(1, law.coins - 1))
    return np.select(
        [counts == 0, counts == law.coins],
        [law.coins * _log(1 - law.bias), law.coins * _log(law.bias)],
        _inner_log_pmf(law, inner),
    )


def _inner_log_pmf(law: Binomial, counts: Counts) -> Floats:
    zeros = np.maximum(law.coins - counts, 1)
    correction = _stirling_error(np.array([law.coins])) - (
        _stirling_error(counts) + _stirling_error(zeros)
    )
    spread = np.log(2 * math.pi * counts * (zeros / law.coins)) / 2
    return np.asarray(correction - divergence(law, counts) - spread, dtype=np.float64)


def divergence(law: Binomial, counts: Counts) -> Floats:
    """coins * KL(v/coins, bias) for v in ``counts``, as two positive parts."""
    ones = float(law.mean)
    zeros = float(law.coins - law.mean)
    away = law.deviations(counts)
    return np.asarray(ones * _convex(away / ones) + zeros * _convex(-away / zeros))


def _convex(values: Floats) -> Floats:
    """(1+t) log(1+t) - t for t >= -1, by Loader's series where the direct form cancels."""
    near = np.where(np.abs(values) < 0.25, values, 0.0)
    far = np.where(np.abs(values) < 0.25, 0.0, values)
    growth = 1 + far
    logs = np.log(np.where(growth > 0, growth, 1.0))
    half = near / (2 + near)
    series = near * half + 2 * (1 + near) * half**3 * _odd_series(half * half)
    return np.where(far == 0, series, growth * logs - far)


def _odd_series(square: Floats) -> Floats:
    """1/3 + s/5 + s^2/7 + ..., for s up to 1/49: 11 terms leave less than 1e-19."""
    total = np.zeros_like(square)
    for index in reversed(range(11)):
        total = total * square + 1 / (2 * index + 3)
    return total


def _stirling_error(counts: Counts) -> Floats:
    """log(n!) minus Stirling's formula, for n >= 1."""
    small = np.minimum(counts, STIRLING_FROM)
    return np.where(counts < STIRLING_FROM, STIRLING_TABLE[small], _stirling_series(counts))


def _stirling_series(counts: Counts) -> Floats:
    inverse = 1.0 / np.maximum(counts, 1)
    total = np.zeros_like(inverse)
    for coefficient in reversed(STIRLING_SERIES):
        total = total * inverse * inverse + coefficient
    return total * inverse


def _stirling_table() -> Floats:
    """The errors up to 16, downwards from the series by the exact difference of neighbours."""
    table = np.zeros(STIRLING_FROM + 1)
    table[-1] = _stirling_series(np.array([STIRLING_FROM]))[0]
    for count in reversed(range(1, STIRLING_FROM)):
        square = 1 / (2 * count + 1) ** 2
        table[count] = table[count + 1] + sum(
            square**power / (2 * power + 1) for power in range(1, 20)
        )
    return table


STIRLING_TABLE = _stirling_table()


def _log(value: Fraction) -> float:
    """The logarithm of a probability, right also next to 1."""
    return math.log1p(-float(1 - value)) if value > Fraction(1, 2) else math.log(value)


def log_upper_tails(law: Binomial, first: int, last: int) -> Floats:
    """log P[W > u] for u = first..last, which lie between the mean (rounded down) and coins-1."""
    if not law.below_mean <= first <= last < law.coins:
        limits = f"{law.below_mean} and {law.coins - 1}"
        raise ValueError(f"first and last must be between {limits}, got {first} and {last}")
    if law.coins > MOST_TABLED:
        return _log_upper_tails(law, first, last)
    return _all_log_upper_tails(law)[first - law.below_mean : last + 1 - law.below_mean]


@lru_cache(maxsize=64)
def _all_log_upper_tails(law: Binomial) -> Floats:
    """All of them: of few coins that takes hardly longer than some, and many are asked for."""
    tails = _log_upper_tails(law, law.below_mean, law.coins - 1)
    tails.flags.writeable = False
    return tails


def _log_upper_tails(law: Binomial, first: int, last: int) -> Floats:
    start, end = log_pmf(law, np.array([first + 1, last + 1]))
    if start - end > DEEPEST:
        middle = (first + last) // 2
        halves = _log_upper_tails(law, first, middle), _log_upper_tails(law, middle + 1, last)
        return np.concatenate(halves)
    return np.asarray(start + np.log(_relative_tails(law, first, last)))


def _relative_tails(law: Binomial, first: int, last: int) -> Floats:
    """P[W > u] / P[W = first+1] for u = first..last."""
    end = min(law.coins, last + 1 + _terms_that_matter(law, last + 1))
    if end - first > MOST_TERMS:
        raise GuaranteeError(
            f"the tail of {law.coins} coins was not evaluated: it has {end - first} terms, "
            f"at most {MOST_TERMS} are added"
        )
    counts = np.arange(first + 1, end + 1, dtype=np.int64)
    ratios = law.ratios(counts)
    terms = np.cumprod(np.concatenate(([1.0], ratios[:-1])))
    # Ratios fall, so the terms left out stay below a geometric series; it is added, not dropped.
    rest = terms[-1] * ratios[-1] / (1 - ratios[-1])
    sums = np.cumsum(terms[::-1])[::-1] + rest
    return np.asarray(sums[: last - first + 1])


def _terms_that_matter(law: Binomial, count: int) -> int:
    """Steps after which P[W = v] has fallen by exp(-NEGLIGIBLE) from P[W = count]."""
    slope = -math.log(max(float(law.ratios(np.array([count]))[0]), 1e-300))
    slope = max(slope, 0.0)
    bend = 4 / (law.coins + 1)  # the least by which the logarithm of the ratio falls per step
    steps = 2 * NEGLIGIBLE / (slope + math.sqrt(slope * slope + 2 * bend * NEGLIGIBLE))
    return math.ceil(steps) + 2


def quantiles(law: Binomial, first: int, last: int) -> Floats:
    """z(u) = Phi^-1(P[W <= u]) for u = first..last, between 0 and coins-1."""
    if not 0 <= first <= last < law.coins:
        raise ValueError(f"first and last must be in 0..{law.coins - 1}, got {first} and {last}")
    centre = law.below_mean
    parts = []
    if first < centre:
        parts.append(_lower_quantiles(law, first, min(last, centre - 1)))
    if last >= centre:
        parts.append(_upper_quantiles(law, max(first, centre), last))
    return np.concatenate(parts)


def _upper_quantiles(law: Binomial, first: int, last: int) -> Floats:
    return np.asarray(-ndtri_exp(log_upper_tails(law, first, last)))


def _lower_quantiles(law: Binomial, first: int, last: int) -> Floats:
    """P[W <= u] is the upper tail of the zeros, so no difference from 1 is taken."""
    mirror = _upper_quantiles(law.mirrored, law.coins - 1 - last, law.coins - 1 - first)
    return np.asarray(-mirror[::-1])


def centre_quantile(coins: int) -> float:
    """z(N/2) of an even number of fair coins, from P[W <= N/2] - 1/2 = P[W = N/2] / 2."""
    law = Binomial(coins, Fraction(1, 2))
    mass = math.exp(float(log_pmf(law, np.array([coins // 2]))[0]))
    return math.sqrt(2) * float(erfinv(mass))


def bracket_quantiles(law: Binomial, counts: Counts) -> Floats:
    """zeta(u): zeta(u) <= z(u) <= zeta(u+1) (Zubkov and Serov 2013), for u in 0..coins."""
    sizes = np.sqrt(2 * divergence(law, counts))
    return np.asarray(np.copysign(sizes, law.deviations(counts)))


def first_bracketed(law: Binomial, quantile: float) -> int:
    """The least u above the mean with zeta(u) >= quantile, coins + 1 where there is none.

    The least u with z(u) >= quantile is this one or the one before it.
    """
    low, high = law.below_mean, law.coins + 1
    while high - low > 1:
        # 64 points at a time: a few array operations instead of one per halving.
        step = -(-(high - low) // 64)
        points = np.arange(low + step, high, step, dtype=np.int64)
        below = int(np.searchsorted(bracket_quantiles(law, points), quantile))
        low, high = low + below * step, min(high, low + (below + 1) * step)
    return high
