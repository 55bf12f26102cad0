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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import finite, positive, whole
from croupier.privacy.shuffled_reports.loss_distribution import Losses, composed, mirrored, split

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TAIL = 70.0
"""Clones are counted up to a mass of exp(-TAIL), 4e-31, on either side."""

MISSING = 2 * math.exp(-TAIL)
"""No smaller delta is ever proved."""

MOST_CELLS = 1024
"""More numbers of clones than this are merged into cells."""

ROUNDING = 1e-10
"""Relative error allowed for binomial masses and tails: 2e-12 at 4e6 clones, 2e-11 at 1e8."""

MOST_OUTCOMES = 2**16
"""Numbers of clones are merged further where each has many outcomes."""

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


def _binom() -> Any:
    """The binomial law, loaded where it is used: it takes longer than all else together."""
    from scipy.stats import binom

    return binom


@lru_cache(maxsize=256)
def number_of_clones(local_epsilon: float, users: int) -> Clones:
    """The law of C, cut where Chernoff bounds leave at most exp(-TAIL) on either side."""
    mean = (users - 1) * math.exp(-local_epsilon)
    below = math.sqrt(2 * TAIL * mean)
    above = TAIL / 3 + math.sqrt(TAIL**2 / 9 + 2 * TAIL * mean)
    lowest, highest = max(0, math.floor(mean - below)), min(users - 1, math.ceil(mean + above))
    numbers = np.arange(lowest, highest + 1)
    weights = _binom().pmf(numbers, users - 1, math.exp(-local_epsilon))
    return _merged(Clones(numbers, weights, MISSING), MOST_CELLS)


def _merged(clones: Clones, most: int) -> Clones:
    """At most so many cells, as equal as can be: what they cost then changes smoothly."""
    cells = min(most, clones.numbers.size)
    starts = np.arange(cells) * clones.numbers.size // cells
    weights = np.add.reduceat(clones.weights, starts)
    return Clones(clones.numbers[starts], weights, clones.missing)


def pair_losses(local_epsilon: float, users: int) -> Losses:
    """The privacy losses of one batch's dominating pair."""
    clones = number_of_clones(local_epsilon, users)
    outcomes = math.sqrt(TAIL / 2 * float(clones.numbers[-1] + 1))
    clones = _merged(clones, max(1, int(MOST_OUTCOMES / outcomes)))
    likely, unlikely, losses = _upper_half(local_epsilon, clones)
    step = _step(likely, unlikely, losses)
    # Outside the counted outcomes there is another 2 exp(-TAIL) per Hoeffding's bound. Errors of
    # masses multiply when they are composed, so each batch brings its own allowance.
    return mirrored(split(losses, likely * (1 + ROUNDING), step, 2 * clones.missing))


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
    masses = clones.weights @ _binom().pmf(last, clones.numbers, 0.5)
    return float(masses), float(clones.weights @ _binom().sf(last, clones.numbers, 0.5))


def _upper_half(local_epsilon: float, clones: Clones) -> tuple[Floats, Floats, Floats]:
    """P and Q and the losses of the first counts x of at least half the total, (outcomes,).

    Exchanging the two counts exchanges P and Q, so the other half follows. Given the total, P is
    2 Bin(total, 1/2) / total times what ``_sides`` says, and Q likewise.
    """
    totals = (clones.numbers + 1)[:, None]
    reach = np.sqrt(TAIL / 2 * clones.numbers)[:, None] + 1
    offsets = np.arange(math.ceil(reach[-1, 0]) + 1)
    counts = (totals + 1) // 2 + offsets
    shared = clones.weights[:, None] * 2 / totals * _masses(counts, totals)
    # The middle belongs to both halves.
    shared[2 * counts == totals] /= 2
    here, there = _sides(local_epsilon, counts, totals)
    seen = (offsets <= reach) & (counts <= totals)
    return (shared * here)[seen], (shared * there)[seen], np.log(here[seen] / there[seen])


def _masses(counts: Counts, totals: Counts) -> Floats:
    """Bin(total, 1/2) of each row's counts, (cells, offsets): each is the one before by a ratio."""
    first = _binom().pmf(counts[:, :1], totals, 0.5)
    ratios = np.maximum(0, totals - counts[:, :-1]) / counts[:, 1:]
    return np.cumprod(np.hstack([first, ratios]), axis=1)


def _sides(local_epsilon: float, counts: Counts, totals: Counts) -> tuple[Floats, Floats]:
    """P and Q of each outcome, over the mass 2 Bin(total, 1/2) / total that they share."""
    likely = 1 / (1 + math.exp(-local_epsilon))
    unlikely = math.exp(-local_epsilon) * likely
    others = totals - counts
    return likely * counts + unlikely * others, unlikely * counts + likely * others


def _step(likely: Floats, unlikely: Floats, losses: Floats) -> float:
    """A fraction of the standard deviation; the other half has the opposite losses."""
    mean = float(((likely - unlikely) * losses).sum())
    variance = (likely * (losses - mean) ** 2 + unlikely * (losses + mean) ** 2).sum()
    return math.sqrt(variance) / CELLS_PER_STD
