"""What policies with a posterior have in common: the server learns it, a device draws from it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import fraction, positive
from croupier.coins import Coins
from croupier.layouts import PapersLayout
from croupier.model import Model, ReleasedSums
from croupier.policies.base import Choice, Floats, Policy, Setting, uniform_arms
from croupier.policies.pick import pick
from croupier.policies.posterior import LinearPrior, Posterior


@dataclass(frozen=True)
class BayesianPolicy(Policy):
    """No regulariser and no repair: what noise hides falls back to the prior.

    ``spread`` is how far a device strays from the posterior mean, in posterior deviations.
    """

    confidence: float
    prior: LinearPrior
    spread: float

    usual_spread: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers that make no posterior."""
        fraction("confidence", self.confidence)
        positive("spread", self.spread)

    @classmethod
    def calibrate(cls, setting: Setting, drift: float = 0.0, **options: Any) -> Self:
        """Only the layout matters, and how far theta may drift per user and coordinate."""
        if options:
            raise ValueError(f"policy {cls.name} has no option {next(iter(options))!r}")
        if isinstance(setting.layout, PapersLayout):
            raise ValueError(
                f"policy {cls.name} learns an offset, for which the paper's layout has no place"
            )
        moved = fraction("drift", drift) if drift != 0 else 0.0
        return cls(setting.confidence, LinearPrior.of(setting.layout, moved), cls.usual_spread)

    @classmethod
    def restore(cls, parameters: dict[str, Any]) -> Self:
        """From a document."""
        return cls(**parameters | {"prior": LinearPrior.restore(parameters["prior"])})

    @property
    def options(self) -> dict[str, Any]:
        """What ``calibrate`` was asked for."""
        return {"drift": self.prior.drift}

    def start(self) -> Posterior:
        """The prior."""
        return self.prior.state

    def learn(self, known: Posterior, sums: ReleasedSums) -> Posterior:
        """One Bayes update."""
        return self.prior.learn(known, sums)

    def model(self, known: Posterior) -> Model:
        """Mean and covariance of theta."""
        return self.prior.model(self.name, known, self.spread)

    @abstractmethod
    def draws(self, features: int) -> int:
        """Normal numbers that a device draws for a choice."""

    @abstractmethod
    def scores(self, model: Model, features: Floats, draws: Floats) -> tuple[Floats, Floats]:
        """Of all arms ``(..., arms)``, and the widths that the draws add."""

    def choose(
        self,
        model: Model,
        features: Floats,
        coins: Coins | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> Choice:
        """A uniform arm before anything is learnt, then the best by the device's own draw."""
        if coins is None:
            raise ValueError("coins must be given: the device draws its own sample, got None")
        arms, dim = features.shape[-2:]
        if model.users == 0:
            return pick(coins.normal(arms), np.ones(arms), mask)
        return pick(*self.scores(model, features, coins.normal(self.draws(dim))), mask)

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
        draws = rng.standard_normal((trials, rounds, self.draws(dim)))
        return pick(*self.scores(model, features, draws), mask).arm


def drawn_scores(model: Model, features: Floats, draws: Floats) -> tuple[Floats, Floats]:
    """Means z.theta of all arms, and what theta + scale C^(1/2) n adds for draws n."""
    columns = np.swapaxes(features, -1, -2)
    strayed = model.scale * np.einsum("...de,...e->...d", root(model.matrix), draws)
    means = np.einsum("...dk,...d->...k", columns, model.theta)
    return means, np.einsum("...dk,...d->...k", columns, strayed)


def root(matrix: Floats) -> Floats:
    """The symmetric square root of ``(..., dim, dim)``."""
    values, axes = np.linalg.eigh(matrix)
    positive_part = np.sqrt(np.maximum(values, 0.0))
    return np.asarray(np.einsum("...di,...i,...ei->...de", axes, positive_part, axes))
