"""Maps of raw columns into the unit ball; each says on whose data it rests.

A map that is fitted to people who play would leak what it was fitted to. These are fitted to
people who never play, follow from bounds that were declared beforehand, or are released with
noise and charged to the budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.privacy.feature_moments import moment_noise

Floats = NDArray[np.float64]

CONSTANT = 0.7
"""The last coordinate of every mapped row, so that a linear model has an intercept."""

_ROOM = math.sqrt(1 - CONSTANT**2)
_REACH = 3.0
_INSIDE = 0.9


@dataclass(frozen=True, eq=False)
class BallMap:
    """Centre, scale, clip to ``reach``, turn to ``axes (columns, kept)``, shrink into the ball.

    ``radius`` is the norm that reaches the edge; longer rows are cut to it. ``mu`` is what the
    map costs in Gaussian DP, 0 where it is public.
    """

    centre: Floats
    scale: Floats
    reach: float
    axes: Floats
    radius: float
    words: str
    mu: float = 0.0

    def __call__(self, rows: Floats) -> Floats:
        """Rows ``(n, columns)`` as features ``(n, kept + 1)`` of norm at most 1."""
        steps = np.clip((rows - self.centre) / self.scale, -self.reach, self.reach) @ self.axes
        norms = np.linalg.norm(steps, axis=1, keepdims=True)
        inside = _ROOM * steps / np.maximum(norms, self.radius)
        return np.concatenate([inside, np.full((len(rows), 1), CONSTANT)], axis=1)


def from_public(rows: Floats, kept: int, whose: str = "people who never play") -> BallMap:
    """Standardised, with the ``kept`` directions of most variance of the public rows."""
    centre, scale = rows.mean(axis=0), _nonzero(rows.std(axis=0))
    steps = np.clip((rows - centre) / scale, -_REACH, _REACH)
    axes = _principal(steps, kept)
    radius = float(np.quantile(np.linalg.norm(steps @ axes, axis=1), _INSIDE))
    words = f"public: fitted to {len(rows)} {whose}"
    return BallMap(centre, scale, _REACH, axes, max(radius, 1e-12), words)


def from_bounds(low: Floats, high: Floats) -> BallMap:
    """Columns between declared bounds; no data is looked at."""
    width = len(low)
    middle, half = (low + high) / 2, (high - low) / 2
    words = "public: bounds declared beforehand"
    return BallMap(middle, half, 1.0, np.eye(width), math.sqrt(width), words)


def charged(
    rows: Floats, low: Floats, high: Floats, mu: float, rng: np.random.Generator
) -> BallMap:
    """Standardised by means and squares of the players, released with Gaussian noise.

    Columns are clipped to their bounds and moved to [-1, 1].
    """
    unit = np.clip((rows - (low + high) / 2) / ((high - low) / 2), -1.0, 1.0)
    people, width = unit.shape
    noise = moment_noise(people, width, mu)
    moments = np.stack([unit.mean(axis=0), (unit**2).mean(axis=0)])
    mean, square = moments + noise * rng.standard_normal((2, width))
    # Noise can make a variance negative; below its own size it says nothing.
    deviation = np.sqrt(np.maximum(square - mean**2, max(noise, 1e-4)))
    half = (high - low) / 2
    words = f"charged to the budget: means and squares of {people} players at mu = {mu:g}"
    return BallMap(
        (low + high) / 2 + half * mean, half * deviation, _REACH, np.eye(width),
        math.sqrt(width), words, mu,
    )  # fmt: skip


def _nonzero(scale: Floats) -> Floats:
    return np.where(scale > 0, scale, 1.0)


def _principal(steps: Floats, kept: int) -> Floats:
    """Directions of most variance, each with its largest entry positive."""
    axes = np.linalg.eigh(np.atleast_2d(np.cov(steps.T)))[1][:, ::-1][:, :kept]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return np.asarray(axes * np.sign(largest))
