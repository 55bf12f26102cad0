"""What an attack on shuffled Gaussian reports reaches, whatever the analysis (MATH 5).

The adversary knows that every other user has the data of one side of the pair, and looks at one
channel along the line through the two possible reports: ``users`` permuted values, all N(0, 1),
or one of them N(mu, 1). The likelihood ratio is W = mean of exp(mu Z_i - mu^2 / 2), and delta is
at least E[(W - e^epsilon)+] and E[(1 - e^epsilon W)+].

Any statistic of the values gives a lower bound. Two are used, with laws that are computed exactly:
an alarm when the largest value is above a level, and the sum of the terms of W, rounded to a grid
that grows coarser as more terms are added, and cut at both ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from croupier.arguments import finite, positive, whole
from croupier.privacy.budget import Budget

Floats = NDArray[np.float64]

MOST_EPSILON = 500.0
"""Below the overflow of exp; no delta is claimed above."""

CELLS = 2048
"""Cells of the rounded sum."""

ROUNDING = 1e-10
"""Relative error allowed for masses, all of them sums of positive numbers."""

LEAST_SHOWN = 1e-280
"""Near the smallest floating-point numbers the relative error is no longer that small."""

PRECISION = 1e-4
"""How closely an epsilon or a sigma is searched, from the side where the attack succeeds."""


@dataclass(frozen=True)
class Laws:
    """Masses of the rounded sum of ``terms`` terms where no alarm rang, in cells of ``unit``.

    ``without`` and ``within``: (cells,) when none, and when one, of the terms is the other
    report's. The place of cell 0 does not matter to a test, only to where the next cut is made.
    """

    unit: float
    terms: int
    without: Floats
    within: Floats


def attack_delta(mu: float, users: int, epsilon: float) -> float:
    """A delta that no analysis can go below at ``epsilon >= 0``; ``mu`` is distance / sigma."""
    positive("mu", mu)
    whole("users", users, 1)
    if finite("epsilon", epsilon) < 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")
    if epsilon > MOST_EPSILON:
        return 0.0
    level, alone = _best_alarm(mu, users, epsilon)
    summed = (_sum_delta(mu, users, epsilon, alarm) for alarm in (level, math.inf))
    reached = max(alone, *summed)
    return reached if reached > LEAST_SHOWN else 0.0


def attack_epsilon(mu: float, users: int, delta: float) -> float:
    """An epsilon at which the attack still shows a delta above ``delta``; 0 if there is none."""
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta!r}")
    if attack_delta(mu, users, 0.0) <= delta:
        return 0.0
    return _last_above(delta, lambda epsilon: attack_delta(mu, users, epsilon))


def attack_sigma(budget: Budget, distance: float, users: int) -> float:
    """A noise with which the attack still breaks ``budget``: no analysis can promise less.

    ``distance`` is that of the two reports in the attacked channel: 2 for two opposite vectors
    of norm 1.
    """
    positive("distance", distance)

    def shown(sigma: float) -> float:
        return attack_delta(distance / sigma, users, budget.epsilon)

    return _last_above(budget.delta, shown)


def _best_alarm(mu: float, users: int, epsilon: float) -> tuple[float, float]:
    """The level for the largest value that shows most, and the delta it shows."""
    levels = np.linspace(-8.0, mu + 38.0, 4096)
    quiet = log_ndtr(levels)
    rung = -np.expm1((users - 1) * quiet + log_ndtr(levels - mu))
    false = -np.expm1(users * quiet)
    shown = rung * (1 - ROUNDING) - math.exp(epsilon) * false * (1 + ROUNDING)
    best = int(np.argmax(shown))
    return float(levels[best]), max(0.0, float(shown[best]))


def _sum_delta(mu: float, users: int, epsilon: float, alarm: float) -> float:
    """The divergence of the two laws of (alarm, rounded sum), the better of both directions."""
    laws = _summed(mu, users, _unit(mu, users, epsilon, alarm), alarm)
    quiet = users * float(log_ndtr(alarm))
    rung = -math.expm1(quiet - float(log_ndtr(alarm)) + float(log_ndtr(alarm - mu)))
    without = np.append(laws.without, -math.expm1(quiet))
    within = np.append(laws.within, rung)
    return max(_divergence(within, without, epsilon), _divergence(without, within, epsilon))


def _divergence(first: Floats, second: Floats, epsilon: float) -> float:
    gained = first * (1 - ROUNDING) - math.exp(epsilon) * (1 + ROUNDING) * second
    return float(np.maximum(gained, 0.0).sum())


def _unit(mu: float, users: int, epsilon: float, alarm: float) -> float:
    """A cell such that half the window reaches past the threshold on the sum."""
    top = min(math.log(users) + epsilon + 1, mu * alarm - mu**2 / 2)
    spread = math.exp(mu**2 / 2 + float(log_ndtr(top / mu - 1.5 * mu)) / 2)
    reach = 1.25 * users * math.expm1(epsilon) + 8 * math.sqrt(users) * spread
    return 2 * reach / CELLS


def _summed(mu: float, users: int, unit: float, alarm: float) -> Laws:
    """The laws of all ``users`` terms, by doubling; ``unit`` is the last cell's width."""
    bits = bin(users)[3:]
    halvings = len(bits) // 2
    laws = _one_term(mu, unit / 2**halvings, alarm)
    for done, bit in enumerate(bits, start=1):
        laws = _doubled(laws)
        if len(bits) - done < 2 * halvings and halvings > 0:
            laws, halvings = _coarser(laws), halvings - 1
        laws = _windowed(laws)
        if bit == "1":
            laws = _windowed(_one_more(laws, _one_term(mu, laws.unit, alarm)))
    return laws


def _one_term(mu: float, unit: float, alarm: float) -> Laws:
    """One term of W; the last cell has all that is above the others and below the alarm."""
    with np.errstate(divide="ignore"):
        edges = np.log(np.arange(CELLS) * unit) / mu + mu / 2
    edges = np.minimum(np.append(edges, math.inf), alarm)
    return Laws(unit, 1, _between(edges), _between(edges - mu))


def _between(edges: Floats) -> Floats:
    """Normal masses between neighbouring edges, from the nearer tail."""
    upper = edges[:-1] > 0
    low, high = np.where(upper, -edges[1:], edges[:-1]), np.where(upper, -edges[:-1], edges[1:])
    return np.asarray(ndtr(high) - ndtr(low))


def _doubled(laws: Laws) -> Laws:
    return Laws(
        laws.unit,
        2 * laws.terms,
        np.convolve(laws.without, laws.without),
        np.convolve(laws.without, laws.within),
    )


def _one_more(laws: Laws, term: Laws) -> Laws:
    """After the shuffle the other report is equally likely in every place."""
    before = np.convolve(laws.within, term.without) * laws.terms
    added = np.convolve(laws.without, term.within)
    terms = laws.terms + 1
    return Laws(laws.unit, terms, np.convolve(laws.without, term.without), (before + added) / terms)


def _coarser(laws: Laws) -> Laws:
    """Neighbouring cells merged two by two."""
    starts = np.arange(0, laws.without.size, 2)
    merged = (np.add.reduceat(masses, starts) for masses in (laws.without, laws.within))
    return Laws(2 * laws.unit, laws.terms, *merged)


def _windowed(laws: Laws) -> Laws:
    """At most ``CELLS`` cells around the mean; what lies outside moves into the end cells."""
    size = laws.without.size
    if size <= CELLS:
        return laws
    mean = float(laws.without @ np.arange(size)) / float(laws.without.sum())
    start = min(max(0, round(mean) - CELLS // 2), size - CELLS)
    return Laws(laws.unit, laws.terms, *(_cut(m, start) for m in (laws.without, laws.within)))


def _cut(masses: Floats, start: int) -> Floats:
    kept = masses[start : start + CELLS].copy()
    kept[0] += masses[:start].sum()
    kept[-1] += masses[start + CELLS :].sum()
    return kept


def _last_above(delta: float, shown: Callable[[float], float]) -> float:
    """A point where more than ``delta`` is shown, within ``PRECISION`` of one where it is not.

    0 if none is found.
    """

    def excess(point: float) -> float:
        return math.log(max(shown(point), LEAST_SHOWN)) - math.log(delta)

    low, high = _bracket(lambda point: shown(point) > delta)
    if low == 0:
        return 0.0
    root = float(brentq(excess, low, high, rtol=PRECISION / 4))
    while not shown(root) > delta:
        root *= 1 - PRECISION / 2
    return root


def _bracket(holds: Callable[[float], bool]) -> tuple[float, float]:
    """A point that holds and twice that, which does not; low is 0 if none is found."""
    low = 1.0
    while holds(low):
        low *= 2
    while low > 1e-12 and not holds(low / 2):
        low /= 2
    return (low / 2, low) if low > 1e-12 else (0.0, low)
