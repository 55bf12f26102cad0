"""``amplified-gaussian`` (P_Amp, appendix B): Gaussian reports, permuted in two channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from croupier.arguments import positive
from croupier.coins import Coins
from croupier.contribution import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, gaussian, unproved
from croupier.protocols.base import Floats, Protocol, ShuffleRelease, Terms, needed, sum_std
from croupier.shuffler import Messages
from croupier.theory import constants, released
from croupier.theory.schedules import Schedule


@dataclass(frozen=True)
class AmplifiedGaussianRelease(ShuffleRelease):
    """Every device adds N(0, sigma^2) to every coordinate."""

    sigma: float

    def __post_init__(self) -> None:
        """Noise must be there."""
        positive("sigma", self.sigma)

    @property
    def privacy_noise_std(self) -> float:
        """The noise of all users together."""
        return sum_std(self, self.sigma)

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        """R_Amp: a noisy vector in one channel, a noisy matrix in the other."""
        noisy = contribution + self.sigma * coins.normal(self.layout.size)
        return {
            "vector": noisy[None, : self.layout.dim],
            "matrix": noisy[None, self.layout.dim :],
        }

    def analyze(self, messages: Messages) -> Floats:
        """A_Amp: the sums, of sorted columns so that rounding does not tell the order."""
        parts = [np.sort(messages[channel], axis=0).sum(axis=0) for channel in ("vector", "matrix")]
        return np.concatenate(parts)

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """One Gaussian for the whole batch, of the same variance."""
        sums = contributions.sum(axis=-2)
        return np.asarray(sums + rng.normal(0.0, self.privacy_noise_std, sums.shape))


@dataclass(frozen=True)
class AmplifiedGaussian(Protocol):
    """P_Amp: privacy of local Gaussian noise, amplified by the two permutations."""

    name: ClassVar[str] = "amplified-gaussian"
    release_type: ClassVar[type[ShuffleRelease]] = AmplifiedGaussianRelease
    calibrations: ClassVar[tuple[str, ...]] = ("theorem", "released")

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """Sigma of ``thm:amp-main`` (or ``thm:amp_return``), or of the authors' script."""
        asked = needed(budget, cls.name)
        part = constants.composed_budget(asked, terms.max_participations)
        if terms.calibration == "theorem" and not terms.outside:
            constants.require(*constants.composition_range(asked, terms.max_participations))
            for users in schedule.sizes():
                constants.require(*constants.amplified_range(part, users))
        theorem = terms.calibration == "theorem"
        sigma_of = constants.amplified_sigma if theorem else released.amplified_sigma
        made = (
            AmplifiedGaussianRelease(layout, users, sigma_of(part, users))
            for users in schedule.sizes()
        )
        return cls(layout, schedule, tuple(made))

    def guarantee(self, participations: int = 1) -> Guarantee:
        """Not computed for shuffled Gaussian reports."""
        return unproved("no amplification bound has been computed for shuffled Gaussian reports")

    def local_guarantee(self) -> Guarantee:
        """A report alone is a Gaussian mechanism: mu = sensitivity / sigma, exactly (MATH 3)."""
        least = min(release.parameters["sigma"] for release in self.releases)
        return gaussian(self.layout.sensitivity / least, "exact Gaussian mechanism (MATH 3)")

    def released_scale(self, budget: Budget | None) -> released.Scale:
        """G = sigma sqrt(T d)."""
        sigma: float = self.release(0).parameters["sigma"]
        return released.private_scale(sigma * math.sqrt(self.schedule.rounds * self.layout.dim))
