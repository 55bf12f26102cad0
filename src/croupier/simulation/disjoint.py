"""Arms with parameters of their own, which share nothing but the user's context."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from croupier.simulation.problem import Floats, in_blocks
from croupier.simulation.synthetic import Synthetic, lifted, unit_vectors

SLOPE, SHIFT = 0.4, 0.1
"""Mean rewards are 1/2 and at most so much by the context, and by the arm."""


@dataclass(frozen=True)
class Disjoint(Synthetic):
    """Arm k has the user's context in block k of its feature: ``dim / arms`` entries.

    Contexts are uniform directions of norm 1/sqrt2 with the constant 1/sqrt2 behind them.
    """

    name: ClassVar[str] = "disjoint"
    usual_arms: ClassVar[int] = 10

    def __post_init__(self) -> None:
        """A block has its constant and something else."""
        super().__post_init__()
        if self.dim % self.arms or self.dim < 2 * self.arms:
            raise ValueError(
                f"dim must be a multiple of {self.arms} arms and twice as many at least, "
                f"got {self.dim}"
            )

    @classmethod
    def blocks_of(cls, arms: int) -> int | None:
        """One an arm."""
        return arms

    @classmethod
    def constant_of(cls, dim: int) -> tuple[int, float] | None:
        """The last one of a block of ``dim`` entries."""
        return dim - 1, math.sqrt(0.5)

    def parameter(self, rng: np.random.Generator) -> Floats:
        """A uniform direction and a uniform offset for every arm."""
        width = self.dim // self.arms
        slopes = 2 * SLOPE * unit_vectors(rng, self.arms, width - 1)
        shifts = 1 + 2 * SHIFT * rng.uniform(-1, 1, (self.arms, 1))
        return np.asarray(math.sqrt(0.5) * np.hstack([slopes, shifts]).ravel())

    def features(self, rng: np.random.Generator, count: int) -> Floats:
        """A context for every user, once in every block."""
        width = self.dim // self.arms
        contexts = lifted(unit_vectors(rng, count, width - 1), math.sqrt(0.5), math.sqrt(0.5))
        return in_blocks(contexts, self.arms)
