"""The seam of a policy: learns from sums on the server, ``choose(model, ...)`` on the device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import fraction
from croupier.coins import Coins
from croupier.layouts import Layout
from croupier.model import Model, ReleasedSums
from croupier.schedules import Schedule
from croupier.theory.released import Scale

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Choice:
    """The arm played, and the scores and widths ``(..., arms)`` that decided it."""

    arm: NDArray[np.intp]
    scores: Floats
    widths: Floats


@dataclass(frozen=True)
class Setting:
    """What a policy may know when it is set up: public numbers only.

    ``noise_variance`` is the largest of any prefix; ``released`` holds the authors' constants.
    """

    layout: Layout
    schedule: Schedule
    confidence: float
    noise_variance: float
    released: Scale | None = None

    def __post_init__(self) -> None:
        """Refuse a confidence that is no probability of failure."""
        fraction("confidence", self.confidence)


def uniform_arms(
    shape: tuple[int, ...], arms: int, rng: np.random.Generator, mask: NDArray[np.bool_] | None
) -> NDArray[np.intp]:
    """Arms drawn at random, of those available where ``mask (..., arms)`` says."""
    if mask is None:
        return rng.integers(arms, size=shape)
    ranks = np.broadcast_to(mask, (*shape, arms)).cumsum(axis=-1)
    drawn = np.floor(rng.random(shape) * ranks[..., -1]).astype(np.intp)
    return np.asarray(np.argmax(ranks > drawn[..., None], axis=-1))


class Policy(ABC):
    """How released sums become a model and a model an arm; a frozen value."""

    name: ClassVar[str]
    confidence: float
    """The paper's alpha: how often its high-probability bounds may fail."""

    @classmethod
    @abstractmethod
    def calibrate(cls, setting: Setting, **options: Any) -> Self:
        """The policy for this setting."""

    @abstractmethod
    def start(self) -> Any:
        """What is known before any user."""

    @abstractmethod
    def learn(self, known: Any, sums: ReleasedSums) -> Any:
        """What is known after one more released sum, of users who are in no other."""

    @abstractmethod
    def model(self, known: Any) -> Model:
        """What is published of it."""

    @abstractmethod
    def choose(
        self,
        model: Model,
        features: Floats,
        coins: Coins | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> Choice:
        """The arm for features ``(..., arms, dim)``; ``mask`` marks the available arms.

        Ties go to the lowest index.
        """

    def sample(
        self,
        model: Model,
        features: Floats,
        rounds: int,
        rng: np.random.Generator,
        mask: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.intp]:
        """Arms of many simulated devices, ``(trials, rounds)`` or ``(trials, 1)`` if all agree.

        ``features (trials, rounds or 1, arms, dim)``, ``mask (trials, rounds or 1, arms)``. The
        default is for policies without coins.
        """
        return self.choose(model, features, mask=mask).arm

    @property
    @abstractmethod
    def options(self) -> dict[str, Any]:
        """The options that ``calibrate`` was given."""

    @classmethod
    def restore(cls, parameters: dict[str, Any]) -> Self:
        """The policy of these parameters, as a document has them."""
        return cls(**parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """Public numbers that make the policy, as plain values."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @property
    def first_model(self) -> Model:
        """What devices play before anything was learnt."""
        return self.model(self.start())
