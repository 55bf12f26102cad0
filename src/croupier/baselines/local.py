"""``local``: Gaussian noise on the device, no shuffler (Zheng et al. 2020); B = 1 is sequential."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from croupier.arguments import positive
from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.gdp import sigma_of
from croupier.privacy.guarantee import Guarantee, gaussian
from croupier.protocols.base import Floats, Mechanism, Release, Terms, needed
from croupier.protocols.releases import exact_part, gaussian_ahead, gaussian_finish, sum_std
from croupier.schedules import Schedule
from croupier.theory import constants, released


@dataclass(frozen=True)
class LocalRelease(Release):
    """The sum of ``users`` noisy reports."""

    sigma: float

    def __post_init__(self) -> None:
        """Noise must be there."""
        positive("sigma", self.sigma)

    @property
    def privacy_noise_std(self) -> float:
        """The noise of all users together."""
        return sum_std(self, self.sigma)

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """One Gaussian for the whole batch: a sum of reports is all the learner uses."""
        return self.finish(self.partial(contributions, rng), rng)

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The exact sum of some."""
        return exact_part(contributions)

    def finish(self, added: Floats, rng: np.random.Generator) -> Floats:
        """The sum of all with the noise of all."""
        return gaussian_finish(self, added, rng)

    def noise_ahead(self, count: int, rng: np.random.Generator) -> Floats:
        """That of whole batches."""
        return gaussian_ahead(self, count, rng)

    def sample_view(
        self, pair: Floats, truth: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        """The server knows who sent what: the user's own report ``(trials, size)``."""
        noise = self.sigma * rng.standard_normal((trials, self.layout.size))
        return np.asarray(pair[truth] + noise)


@dataclass(frozen=True)
class Local(Mechanism):
    """LDP; with batches it is the paper's Batched-Local-LinUCB.

    A report is private by its own noise, so ``honest_fraction`` plays no role.
    """

    name: ClassVar[str] = "local"
    release_type: ClassVar[type[Release]] = LocalRelease
    calibrations: ClassVar[tuple[str, ...]] = ("certified", "theorem", "released")
    trust: ClassVar[str] = "local"

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """The least noise that meets the budget, or that of Zheng et al. or the script."""
        asked = needed(budget, cls.name)
        if terms.calibration == "certified":
            moved = _moved(layout, terms.max_participations)
            sigma = sigma_of(moved, asked.epsilon, asked.delta)
        else:
            sigma = _papers_sigma(asked, terms)
        made = tuple(LocalRelease(layout, users, sigma) for users in schedule.sizes())
        return cls(layout, schedule, made)

    @property
    def sigma(self) -> float:
        """The least noise that any report carries."""
        return float(min(release.parameters["sigma"] for release in self.releases))

    def guarantee(self, participations: int = 1) -> Guarantee:
        """Exact: mu = sqrt(participations) * sensitivity / sigma (MATH 3)."""
        mu = _moved(self.layout, participations) / self.sigma
        return gaussian(mu, "exact Gaussian mechanism (MATH 3)")

    def local_guarantee(self, draws: int = 1) -> Guarantee:
        """So many reports alone."""
        return self.guarantee(draws)

    def released_scale(self, budget: Budget | None) -> released.Scale:
        """G = sigma sqrt(T d)."""
        return released.private_scale(
            self.sigma * math.sqrt(self.schedule.rounds * self.layout.dim)
        )


def _moved(layout: Layout, participations: int) -> float:
    """The norm by which one user moves all of the user's reports together."""
    return math.sqrt(participations) * layout.sensitivity


def _papers_sigma(budget: Budget, terms: Terms) -> float:
    """Sigma of Zheng et al. with the paper's composition, or of the authors' script."""
    part = constants.composed_budget(budget, terms.max_participations)
    if terms.calibration != "theorem":
        return released.local_sigma(part)
    if not terms.outside:
        constants.require(
            *constants.local_range(budget),
            *constants.composition_range(budget, terms.max_participations),
        )
    return constants.local_sigma(part)
