"""``noiseless``: the whole path without noise, to see what privacy costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from croupier.coins import Coins
from croupier.contribution import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, unproved
from croupier.protocols.base import Floats, Protocol, ShuffleRelease, Terms
from croupier.protocols.releases import exact_part
from croupier.shuffler import Messages
from croupier.theory.released import NOT_PRIVATE, Scale
from croupier.theory.schedules import Schedule

NO_NOISE = "no noise is added"


@dataclass(frozen=True)
class NoiselessRelease(ShuffleRelease):
    """A batch sum in the clear."""

    @property
    def privacy_noise_std(self) -> float:
        """None."""
        return 0.0

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        """The contribution as it is."""
        return {"report": np.array(contribution[None, :])}

    def analyze(self, messages: Messages) -> Floats:
        """Sorted before it is added up, so that rounding does not tell the order."""
        return np.asarray(np.sort(messages["report"], axis=0).sum(axis=0))

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The sum, without the detour."""
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
class Noiseless(Protocol):
    """Algorithm 1 with an identity randomiser."""

    name: ClassVar[str] = "noiseless"
    release_type: ClassVar[type[ShuffleRelease]] = NoiselessRelease
    calibrations: ClassVar[tuple[str, ...]] = ("certified", "theorem", "released")
    trust: ClassVar[str] = "none"

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """Takes no budget."""
        made = tuple(NoiselessRelease(layout, users) for users in schedule.sizes())
        return cls(layout, schedule, made)

    def guarantee(self, participations: int = 1) -> Guarantee:
        """None."""
        return unproved(NO_NOISE)

    def local_guarantee(self) -> Guarantee:
        """None."""
        return unproved(NO_NOISE)

    def released_scale(self, budget: Budget | None) -> Scale:
        """G = 1 in the radius, almost no regulariser."""
        return NOT_PRIVATE
