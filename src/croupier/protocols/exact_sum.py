"""Batch sums in the clear: what ``noiseless`` and the baseline ``linucb`` share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, unproved
from croupier.protocols.base import Floats, Mechanism, Release, Terms
from croupier.protocols.releases import exact_part
from croupier.schedules import Schedule
from croupier.theory.released import NOT_PRIVATE, Scale


@dataclass(frozen=True)
class ExactRelease(Release):
    """A batch sum in the clear."""

    @property
    def privacy_noise_std(self) -> float:
        """None."""
        return 0.0

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The sum."""
        return self.finish(self.partial(contributions, rng), rng)

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The sum of some."""
        return exact_part(contributions)

    def finish(self, added: Floats, rng: np.random.Generator) -> Floats:
        """As it is."""
        return added

    def noise_ahead(self, count: int, rng: np.random.Generator) -> Floats:
        """None of any size."""
        return np.zeros((count, self.layout.size))


@dataclass(frozen=True)
class ExactSum(Mechanism):
    """A mechanism without privacy; ``reason`` says why nothing is proved of it."""

    reason: ClassVar[str]
    calibrations: ClassVar[tuple[str, ...]] = ("certified", "theorem", "released")
    trust: ClassVar[str] = "none"

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """Takes no budget."""
        made = tuple(cls.release_type(layout, users) for users in schedule.sizes())
        return cls(layout, schedule, made)

    def guarantee(self, participations: int = 1) -> Guarantee:
        """None."""
        return unproved(self.reason)

    def local_guarantee(self, draws: int = 1) -> Guarantee:
        """None."""
        return unproved(self.reason)

    def released_scale(self, budget: Budget | None) -> Scale:
        """G = 1 in the radius, almost no regulariser."""
        return NOT_PRIVATE
