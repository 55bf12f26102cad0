"""Privacy of shuffled reports by clones, in numbers (MATH 5; Feldman, McMillan and Talwar 2021).

Every one of the other ``users - 1`` reports of an ``epsilon0``-DP randomiser is, with probability
``exp(-epsilon0)``, drawn from the law of one of the two reports to be told apart. So nothing seen
after the shuffle is easier to tell apart than the two pairs of counts

    (A + D, C - A + 1 - D)  and  (A + 1 - D, C - A + D),

with C ~ Bin(users - 1, exp(-epsilon0)) clones, A ~ Bin(C, 1/2) and
D ~ Ber(exp(epsilon0) / (exp(epsilon0) + 1)). Exchanging the two counts exchanges the two laws, so
the divergence is the same both ways.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from croupier.arguments import finite, positive, whole
from croupier.privacy.losses import Losses, composed, split

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TAIL = 70.0
"""Clones are counted up to a mass of exp(-TAIL), 4e-31, on either side."""

MOST_CELLS = 1024
"""More numbers of clones than this are merged into cells."""

ROUNDING = 1e-10
"""Relative error allowed for binomial masses and tails: 2e-12 at 4e6 clones, 2e-11 at 1e8."""

CELLS_PER_STD = 32
"""Fineness of the loss grid; splitting then adds less than 2e-4 of the variance."""


@dataclass(frozen=True)
class Clones:
    """Numbers of clones, their weights, and the mass that is nowhere.

    ``numbers``: (cells,) the least number of each cell. Fewer clones protect less, since adding
    one is a step that both laws share; so reading a cell at its least number is safe.
    """

    numbers: Counts
    weights: Floats
    missing: float


@dataclass(frozen=True)
class Divergence:
    """A delta that holds at some epsilon, and how fast it falls as exp(epsilon) grows.

    ``slope`` is the mass under the second law of the outcomes that exceed epsilon. It steers
    searches and carries no guarantee.
    """

    delta: float
    slope: float


NOTHING = Divergence(0.0, 0.0)


def clones_delta(local_epsilon: float, users: int, epsilon: float) -> float:
    """A delta that holds at ``epsilon >= 0`` after shuffling ``users`` epsilon0-DP reports."""
    return composed_divergence(local_epsilon, users, 1, epsilon).delta


def composed_delta(local_epsilon: float, users: int, batches: int, epsilon: float) -> float:
    """The same for a user in ``batches`` batches, each chosen after seeing the earlier ones."""
    return composed_divergence(local_epsilon, users, batches, epsilon).delta


def composed_divergence(
    local_epsilon: float, users: int, batches: int, epsilon: float
) -> Divergence:
    """The delta of ``composed_delta`` with its slope."""
    _arguments(local_epsilon, users, epsilon)
    if epsilon >= whole("batches", batches, 1) * local_epsilon:
        return NOTHING
    if batches == 1:
        return _one_batch(local_epsilon, users, epsilon)
    losses = composed_losses(local_epsilon, users, batches)
    return Divergence(min(1.0, losses.delta(epsilon)), losses.slope(epsilon))


def _one_batch(local_epsilon: float, users: int, epsilon: float) -> Divergence:
    """Exact given the number of clones, then averaged over it."""
    clones = number_of_clones(local_epsilon, users)
    masses, tails = _threshold(local_epsilon, clones, epsilon)
    rare = 1 / (1 + math.exp(local_epsilon))
    gained = -math.expm1(epsilon - local_epsilon) * (1 - rare) * masses
    lost = math.expm1(epsilon) * tails
    delta = gained - lost + ROUNDING * (gained + lost) + clones.missing
    return Divergence(min(1.0, delta), tails + rare * masses)


@lru_cache(maxsize=256)
def composed_losses(local_epsilon: float, users: int, batches: int) -> Losses:
    """The privacy losses of the dominating pair, composed ``batches`` times."""
    return composed(pair_losses(local_epsilon, users), batches)


def number_of_clones(local_epsilon: float, users: int) -> Clones:
    """The law of C, cut where Chernoff bounds leave at most exp(-TAIL) on either side."""
    mean = (users - 1) * math.exp(-local_epsilon)
    below = math.sqrt(2 * TAIL * mean)
    above = TAIL / 3 + math.sqrt(TAIL**2 / 9 + 2 * TAIL * mean)
    lowest, highest = max(0, math.floor(mean - below)), min(users - 1, math.ceil(mean + above))
    numbers = np.arange(lowest, highest + 1)
    weights = binom.pmf(numbers, users - 1, math.exp(-local_epsilon))
    starts = np.arange(0, numbers.size, -(-numbers.size // MOST_CELLS))
    return Clones(numbers[starts], np.add.reduceat(weights, starts), 2 * math.exp(-TAIL))


def pair_losses(local_epsilon: float, users: int) -> Losses:
    """The privacy losses of one batch's dominating pair."""
    clones = _thinned(number_of_clones(local_epsilon, users))
    counts, totals, weights = _outcomes(clones)
    here, there = _sides(local_epsilon, counts, totals)
    masses = weights * 2 * binom.pmf(counts, totals, 0.5) * here / totals
    losses = np.log(here / there)
    # Outside the counted outcomes there is another 2 exp(-TAIL) per Hoeffding's bound.
    return split(losses, masses, _step(losses, masses), 2 * clones.missing)


def _arguments(local_epsilon: float, users: int, epsilon: float) -> None:
    positive("local_epsilon", local_epsilon)
    whole("users", users, 1)
    if finite("epsilon", epsilon) < 0:
        raise ValueError(f"epsilon must be at least 0, got {epsilon!r}")


def _threshold(local_epsilon: float, clones: Clones, epsilon: float) -> tuple[float, float]:
    """The mass of A at the last count that does not exceed epsilon, and the mass above it.

    The likelihood ratio grows with the first count x, so the divergence is a sum over x above a
    threshold; the sum of P - exp(epsilon) Q telescopes to one binomial mass and one tail.
    """
    sure = -math.expm1(-local_epsilon)
    share = (math.expm1(epsilon) + sure) / (sure * (1 + math.exp(epsilon)))
    last = np.floor((clones.numbers + 1) * share)
    masses = clones.weights @ binom.pmf(last, clones.numbers, 0.5)
    return float(masses), float(clones.weights @ binom.sf(last, clones.numbers, 0.5))


def _thinned(clones: Clones) -> Clones:
    """Fewer cells where every cell has many outcomes, so that the work stays bounded."""
    outcomes = 2 * math.sqrt(TAIL / 2 * float(clones.numbers[-1] + 1))
    cells = max(16, int(2**17 / outcomes))
    starts = np.arange(0, clones.numbers.size, -(-clones.numbers.size // cells))
    weights = np.add.reduceat(clones.weights, starts)
    return Clones(clones.numbers[starts], weights, clones.missing)


def _outcomes(clones: Clones) -> tuple[Counts, Counts, Floats]:
    """Every first count within Hoeffding's range, with its total and the weight of its cell."""
    reach = np.sqrt(TAIL / 2 * clones.numbers)
    first = np.maximum(0, np.floor(clones.numbers / 2 - reach)).astype(np.int64)
    last = np.minimum(clones.numbers + 1, np.ceil(clones.numbers / 2 + reach) + 1).astype(np.int64)
    sizes = last - first + 1
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    totals = np.repeat(clones.numbers + 1, sizes)
    return np.repeat(first, sizes) + within, totals, np.repeat(clones.weights, sizes)


def _sides(local_epsilon: float, counts: Counts, totals: Counts) -> tuple[Floats, Floats]:
    """P and Q of each outcome, over the mass 2 Bin(total, 1/2) / total that they share."""
    likely = 1 / (1 + math.exp(-local_epsilon))
    unlikely = math.exp(-local_epsilon) * likely
    others = totals - counts
    return likely * counts + unlikely * others, unlikely * counts + likely * others


def _step(losses: Floats, masses: Floats) -> float:
    mean = float(masses @ losses) / float(masses.sum())
    variance = float(masses @ (losses - mean) ** 2) / float(masses.sum())
    return math.sqrt(variance) / CELLS_PER_STD
