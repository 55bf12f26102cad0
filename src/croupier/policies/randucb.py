"""``randucb``: the Wiener posterior of ``sampling`` with one random width for all arms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import fraction, positive
from croupier.coins import Coins
from croupier.model import Model, ReleasedSums
from croupier.policies.base import Choice, Floats, Policy, Setting, uniform_arms
from croupier.policies.pick import pick
from croupier.policies.posterior import posterior_model
from croupier.policies.ucb import means_and_widths


@dataclass(frozen=True)
class RandUcb(Policy):
    """MATH 6.5, point 6: x.theta + |n| sqrt(x'Cx) with one n ~ N(0, 1) per device.

    For users with action sets of their own; where all share one it explores too little.
    """

    confidence: float
    matrix_noise: float
    name: ClassVar[str] = "randucb"

    def __post_init__(self) -> None:
        """Refuse numbers that make no posterior."""
        fraction("confidence", self.confidence)
        positive("matrix_noise", self.matrix_noise)

    @classmethod
    def calibrate(cls, setting: Setting, **options: Any) -> Self:
        """Only the layout matters."""
        if options:
            raise ValueError(f"policy randucb has no option {next(iter(options))!r}")
        return cls(setting.confidence, setting.layout.matrix_noise_factor)

    @property
    def options(self) -> dict[str, Any]:
        """It takes none."""
        return {}

    def model(self, sums: ReleasedSums) -> Model:
        """Mean and covariance of theta given the released sums."""
        return posterior_model(self.name, sums, self.matrix_noise, 1.0)

    def choose(
        self,
        model: Model,
        features: Floats,
        coins: Coins | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> Choice:
        """A uniform arm before anything is learnt, then the best at a random width."""
        if coins is None:
            raise ValueError("coins must be given: the device draws its own width, got None")
        if model.users == 0:
            arms = features.shape[-2]
            return pick(coins.normal(arms), np.ones(arms), mask)
        return pick(*_scores(model, features, coins.normal(1)), mask)

    def sample(
        self,
        model: Model,
        features: Floats,
        rounds: int,
        rng: np.random.Generator,
        mask: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.intp]:
        """Arms ``(trials, rounds)`` of as many devices, each with its own width."""
        trials, _, arms, _ = features.shape
        if model.users == 0:
            return uniform_arms((trials, rounds), arms, rng, mask)
        return pick(*_scores(model, features, rng.standard_normal((trials, rounds, 1))), mask).arm


def _scores(model: Model, features: Floats, draws: Floats) -> tuple[Floats, Floats]:
    """Optimistic scores and the widths that they add, ``(..., arms)``."""
    means, deviations = means_and_widths(model, features)
    widths = model.scale * np.abs(draws) * deviations
    return means + widths, widths
