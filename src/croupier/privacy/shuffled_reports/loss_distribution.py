"""Composition of discrete privacy losses, always on the safe side (MATH 5).

The loss of an outcome is ln(P/Q); its law under P gives delta(epsilon) = E[(1 - e^(epsilon-L))+],
and losses of independent mechanisms add up. Masses are convolved directly, not by Fourier
transform: sums of positive numbers keep their relative precision far into the tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import positive, whole

Floats = NDArray[np.float64]

NEGLIGIBLE = 1e-31
"""Mass that is cut off at either end after a convolution, and accounted for."""

MOST_CELLS = 2048
"""Wider sums go on a coarser grid; over 24 standard deviations that adds 1e-4 of the variance."""

ROUNDING = 1e-10
"""Relative error allowed for the masses and their sums."""


@dataclass(frozen=True)
class Losses:
    """Masses under P of the losses ``(lowest + i) * step``, and of an infinite loss."""

    step: float
    lowest: int
    masses: Floats
    infinite: float

    def delta(self, epsilon: float) -> float:
        """The delta at ``epsilon``, rounded up."""
        losses, masses = self._above(epsilon)
        kept = masses @ -np.expm1(epsilon - losses)
        return float(kept + ROUNDING * masses.sum() + self.infinite)

    def slope(self, epsilon: float) -> float:
        """The mass under Q of the losses above ``epsilon``: how delta falls in exp(epsilon)."""
        losses, masses = self._above(epsilon)
        return float(masses @ np.exp(-losses))

    @property
    def grid(self) -> Floats:
        """The losses that ``masses`` belong to."""
        return np.asarray((self.lowest + np.arange(self.masses.size)) * self.step, np.float64)

    def _above(self, epsilon: float) -> tuple[Floats, Floats]:
        losses = self.grid
        above = int(np.searchsorted(losses, epsilon, "right"))
        return losses[above:], self.masses[above:]


def split(losses: Floats, masses: Floats, step: float, infinite: float = 0.0) -> Losses:
    """Losses on a grid, each shared by its two neighbours so that P and Q keep their masses.

    Merging the two neighbours again gives back the original pair, so the new one dominates it
    (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022).
    """
    positive("step", step)
    below = np.floor(losses / step).astype(np.int64)
    upper = masses * np.clip(np.expm1(below * step - losses) / np.expm1(-step), 0.0, 1.0)
    lowest = int(below.min())
    places = np.concatenate([below, below + 1]) - lowest
    shared = np.bincount(places, np.concatenate([masses - upper, upper])).astype(np.float64)
    return Losses(step, lowest, shared, infinite)


def mirrored(upper: Losses) -> Losses:
    """The losses of a pair that an exchange turns round, from its half with losses from 0 on.

    An outcome of loss -L has the mass under P that its counterpart has under Q.
    """
    places = upper.lowest + np.arange(upper.masses.size)
    top = int(places[-1])
    masses = np.zeros(2 * top + 1)
    masses[top + places] = upper.masses
    masses[top - places] += upper.masses * np.exp(-places * upper.step)
    return Losses(upper.step, -top, masses, upper.infinite)


def dominating(deltas: Floats, step: float) -> Losses | None:
    """The losses of a pair that an exchange turns round, no better than ``deltas`` say.

    ``deltas`` are bounds at the multiples of ``step``, from 0 on. What they bound is convex in
    exp(epsilon), so their lower hull bounds it as well, everywhere: that is the pair (Doroshenko
    and others 2022). None if an exchange would not turn it round.
    """
    hull = _lower_hull(list(enumerate(deltas.tolist())), step)
    right = _masses(hull, step, deltas.size)
    wrong = right * np.exp(-step * np.arange(deltas.size))
    middle = (1 - hull[-1][1] - right.sum() - wrong.sum()) / 2
    if not middle >= 0:
        return None
    right[0] = middle
    return mirrored(Losses(step, 0, right, hull[-1][1]))


def dominating_above(deltas: Floats, step: float, lowest: int) -> Losses:
    """The losses of a pair no better than ``deltas`` say, from ``lowest * step`` on.

    An exchange need not turn it round: it may stand for any pair that is bounded in both orders.
    Of smaller losses nothing is said, so they count as the first of these.
    """
    hull = _lower_hull([NOTHING, *enumerate(deltas.tolist())], step)
    return Losses(step, lowest, _masses(hull, step, deltas.size), hull[-1][1])


Point = tuple[float, float]
"""A cell and its delta: epsilon is so many steps."""
NOTHING: Point = (-math.inf, 1.0)
"""Where exp(epsilon) is 0 every delta is 1."""


def _lower_hull(points: Sequence[Point], step: float) -> list[Point]:
    """Where the largest function convex in exp(epsilon) that is nowhere above these points bends.

    The first and the last of them are always there.
    """
    kept: list[Point] = []
    for point in points:
        while len(kept) > 1 and _bend(kept[-2], kept[-1], point, step) <= 0:
            kept.pop()
        kept.append(point)
    return kept


def _bend(before: Point, at: Point, after: Point, step: float) -> float:
    """By how much the slope in exp(epsilon) grows at a point, times exp(epsilon) there.

    Only quotients of exponentials enter: exp(epsilon) itself may be beyond all numbers.
    """
    near, far = (step * (one[0] - two[0]) for one, two in ((before, at), (at, after)))
    falls = (at[1] - after[1]) * math.exp(far) / -math.expm1(far)
    return (before[1] - at[1]) / -math.expm1(near) - falls


def _masses(hull: Sequence[Point], step: float, cells: int) -> Floats:
    """The masses under P, which are how much a hull bends at every cell but its first."""
    masses = np.zeros(cells)
    beyond = (math.inf, hull[-1][1])
    for before, at, after in zip(hull, hull[1:], [*hull[2:], beyond], strict=False):
        masses[int(at[0])] = _bend(before, at, after, step)
    return masses


def composed(losses: Losses, times: int) -> Losses:
    """The losses of ``times`` independent copies, by repeated squaring."""
    if whole("times", times, 1) == 1:
        return losses
    half = composed(losses, times // 2)
    double = together(half, half)
    return together(double, losses) if times % 2 else double


def together(first: Losses, second: Losses) -> Losses:
    """The sum of two independent losses, on the coarser grid or one coarser still."""
    step = max(first.step, second.step)
    first, second = _on(first, step), _on(second, step)
    masses = np.convolve(first.masses, second.masses)
    infinite = first.infinite + second.infinite
    both = _trimmed(Losses(step, first.lowest + second.lowest, masses, infinite))
    return both if both.masses.size <= MOST_CELLS else _on(both, 2 * step)


def _on(losses: Losses, step: float) -> Losses:
    """The losses on a coarser grid."""
    if losses.step == step:
        return losses
    return split(losses.grid, losses.masses, step, losses.infinite)


def _trimmed(losses: Losses) -> Losses:
    """Without negligible ends: the upper becomes an infinite loss, the lower moves up."""
    masses = losses.masses
    start = int(np.searchsorted(np.cumsum(masses), NEGLIGIBLE))
    dropped = int(np.searchsorted(np.cumsum(masses[::-1]), NEGLIGIBLE))
    kept = masses[start : masses.size - dropped].copy()
    kept[0] += masses[:start].sum()
    infinite = losses.infinite + float(masses[masses.size - dropped :].sum())
    return Losses(losses.step, losses.lowest + start, kept, infinite)
