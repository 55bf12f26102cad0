"""What the best test sees of skewness: sums of r(g), a cubic of normal numbers (PROOF 8b, iii).

Up to an edge l the cubic is bounded by its exponential moment, beyond it goes over into a line.
What the line leaves over is so rare that its second moment is enough; or l is where r itself goes
over into a line, and nothing is left over.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from croupier.privacy.gdp import mills
from croupier.privacy.levels import Levels
from croupier.privacy.shuffled_bits.binomial_tails import Floats

EDGES = np.asarray(2.5 * 1.12 ** np.arange(25), dtype=np.float64)
"""Where the cubic may go over into a line, l: from low levels to those of the smallest delta."""
TILTS = 5 / 6 * 0.5 ** (np.arange(8) / 2)
"""Exponents of the moments in units of 1/l; below 1, so that all is finite at the last edge."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
"""For a smooth integrand over at most 40 standard deviations."""
ROUNDED = 1e-12
"""More than what floating point takes off that integral."""


@lru_cache(maxsize=1)
def moments() -> Floats:
    """E exp(t r(g)) - 1 for every edge and every tilt t, with r(g) = (edge^2 - 2) g beyond it."""
    return np.array([moments_of(edge, edge**2 - 2) for edge in EDGES.tolist()])


def moments_of(edge: float, line: float) -> Floats:
    """r(g) is g^3 - 2g up to the edge and ``line`` times g beyond; it is odd."""
    tilts = TILTS / edge
    points = edge / 2 * (1 + NODES)
    powers = np.outer(tilts, points**3 - 2 * points)
    inner = np.exp(powers - points**2 / 2) + np.exp(-powers - points**2 / 2)
    pulls = tilts * line
    tails = np.exp(pulls**2 / 2) * (ndtr(pulls - edge) + ndtr(-pulls - edge))
    whole = inner @ WEIGHTS * edge / math.sqrt(8 * math.pi) + tails
    return np.asarray(whole - 1 + ROUNDED * whole)


def rests(cap: float, levels: Floats) -> Floats:
    """r(g) without its line, in square mean, over sqrt(phi(z)): for every edge and level z.

    From ``cap`` on r is itself a line, to which it jumps by twice g.
    """
    edges = np.minimum(EDGES, cap)[:, None]
    inside = 15 * edges - edges**3 + (edges**4 - 6 * edges**2 + 15) * mills(edges)
    bent = np.sqrt(2 * inside) * (1 + 1e-9) * np.exp((levels**2 - edges**2) / 4)
    jump = 2 * math.sqrt(2 * (cap + 1 / cap)) * np.exp((levels**2 - cap * cap) / 4)
    return np.asarray(bent + jump)


def skewed(levels: Levels, labels: int, parts: float, edge: float) -> Floats:
    """What skewness adds to speed on each piece, per unit, by the best edge and tilt.

    ``parts`` is the sum of squares of all labels' skewness, whose largest is 1; r goes over into
    the line ``edge**2 * g`` at ``edge``. A piece has its worst at one of its ends.
    """
    inside = _inside(levels, labels, parts / labels * moments(), EDGES)
    outside = _worse_end(rests(edge, levels.cuts) / np.sqrt(levels.hazard))
    bounds = (inside + math.sqrt(parts) * outside).min(axis=0)
    return np.asarray(np.minimum(bounds, _whole(levels, labels, parts, edge)))


def _whole(levels: Levels, labels: int, parts: float, edge: float) -> Floats | float:
    """The same by moments of all of r: levels beyond ``edge`` would see too much of the rest."""
    if edge > EDGES[-1]:
        return math.inf
    powers = parts / labels * moments_of(edge, edge**2)[None]
    return np.asarray(_inside(levels, labels, powers, np.array([edge]))[0])


def _inside(levels: Levels, labels: int, powers: Floats, edges: Floats) -> Floats:
    """What is bounded by moments, for every edge, by the best tilt."""
    logs = labels * np.log1p(powers)[:, :, None]
    tilts = (TILTS / edges[:, None])[:, :, None]
    return np.asarray(_worse_end((logs + levels.surprise) / (levels.hazard * tilts)).min(axis=1))


def _worse_end(values: Floats) -> Floats:
    """The larger value of both ends of every piece, pieces along the last axis."""
    return np.maximum(values[..., 1:], values[..., :-1])
