"""``sampling``: a Wiener posterior on the server, optimistic Thompson sampling on the device."""

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

SPREAD = 0.7
"""How far a device strays from the posterior mean, in posterior deviations (MATH 6.5)."""


@dataclass(frozen=True)
class Sampling(Policy):
    """MATH 6.5: no regulariser and no repair; what noise hides falls back to the prior N(0, I/d).

    ``matrix_noise`` is the noise of the gram matrix per svec coordinate for noise 1 per released
    coordinate.
    """

    confidence: float
    matrix_noise: float
    spread: float = SPREAD
    name: ClassVar[str] = "sampling"

    def __post_init__(self) -> None:
        """Refuse numbers that make no posterior."""
        fraction("confidence", self.confidence)
        positive("matrix_noise", self.matrix_noise)
        positive("spread", self.spread)

    @classmethod
    def calibrate(cls, setting: Setting, **options: Any) -> Self:
        """Only the layout matters."""
        if options:
            raise ValueError(f"policy sampling has no option {next(iter(options))!r}")
        return cls(setting.confidence, setting.layout.matrix_noise_factor)

    @property
    def options(self) -> dict[str, Any]:
        """It takes none."""
        return {}

    def model(self, sums: ReleasedSums) -> Model:
        """Mean and covariance of theta given the released sums."""
        return posterior_model(self.name, sums, self.matrix_noise, self.spread)

    def choose(
        self,
        model: Model,
        features: Floats,
        coins: Coins | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> Choice:
        """A uniform arm before anything is learnt, then the best of mean and one posterior draw."""
        if coins is None:
            raise ValueError("coins must be given: the device draws its own sample, got None")
        arms, dim = features.shape[-2:]
        if model.users == 0:
            return pick(coins.normal(arms), np.ones(arms), mask)
        return pick(*self._scores(model, features, coins.normal(dim)), mask)

    def sample(
        self,
        model: Model,
        features: Floats,
        rounds: int,
        rng: np.random.Generator,
        mask: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.intp]:
        """Arms ``(trials, rounds)`` of as many devices, each with its own draw."""
        trials, _, arms, dim = features.shape
        if model.users == 0:
            return uniform_arms((trials, rounds), arms, rng, mask)
        draws = rng.standard_normal((trials, rounds, dim))
        return pick(*self._scores(model, features, draws), mask).arm

    def _scores(self, model: Model, features: Floats, draws: Floats) -> tuple[Floats, Floats]:
        """max(x.theta, x.(theta + spread C^(1/2) z)) and the width that the draw gives."""
        columns = np.swapaxes(features, -1, -2)
        strayed = model.scale * np.einsum("...de,...e->...d", root(model.matrix), draws)
        means = np.einsum("...dk,...d->...k", columns, model.theta)
        widths = np.maximum(np.einsum("...dk,...d->...k", columns, strayed), 0.0)
        return means + widths, widths


def root(matrix: Floats) -> Floats:
    """The symmetric square root of ``(..., dim, dim)``."""
    values, axes = np.linalg.eigh(matrix)
    positive_part = np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.einsum("...di,...i,...ei->...de", axes, positive_part, axes))
