"""Composition of discrete privacy losses, always on the safe side (MATH 5).

The loss of an outcome is ln(P/Q); its law under P gives delta(epsilon) = E[(1 - e^(epsilon-L))+],
and losses of independent mechanisms add up. Masses are convolved directly, not by Fourier
transform: sums of positive numbers keep their relative precision far into the tail.
"""

from __future__ import annotations

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
