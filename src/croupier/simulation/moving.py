"""Problems whose preferences move: at random, or with the seasons."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from croupier.arguments import finite, whole
from croupier.simulation.problem import BLOCK, DRIFT, Floats, World
from croupier.simulation.synthetic import Contextual, DrawnWorld


@dataclass(frozen=True)
class Drifting(Contextual):
    """``contextual`` users whose theta* walks at random on its sphere, ``drift`` a user.

    It moves once a block of users, by as much as all of them together.
    """

    drift: float = 1e-3
    name: ClassVar[str] = "drifting"

    def __post_init__(self) -> None:
        """It moves, and not further than it can be from anywhere."""
        super().__post_init__()
        if not 0 < finite("drift", self.drift) <= 1:
            raise ValueError(f"drift must be above 0 and at most 1, got {self.drift!r}")

    def world(self, seed: int, trials: range) -> World:
        """Theta* is drawn block by block."""
        return WalkingWorld(self, seed, trials)


class WalkingWorld(DrawnWorld):
    """Instances whose theta* walks; where it has been is kept."""

    def __init__(self, problem: Drifting, seed: int, trials: range) -> None:
        self._step = problem.drift * math.sqrt(BLOCK)
        self._path: list[Floats] = []
        super().__init__(problem, seed, trials)

    def parameters(self, block: int) -> Floats:
        """A step a block, back onto the sphere; the constant coordinate stays."""
        if not self._path:
            self._path.append(self._theta)
        while len(self._path) <= block:
            self._path.append(self._walked(self._path[-1], len(self._path)))
        return self._path[block]

    def _walked(self, theta: Floats, block: int) -> Floats:
        generators = [self.generator(trial, DRIFT, block) for trial in self._trials]
        steps = np.array([one.standard_normal(theta.shape[1] - 1) for one in generators])
        moved = theta[:, :-1] + self._step * steps
        moved *= math.sqrt(0.5) / np.linalg.norm(moved, axis=1, keepdims=True)
        return np.concatenate([moved, theta[:, -1:]], axis=1)


@dataclass(frozen=True)
class Seasonal(Contextual):
    """``contextual`` users whose theta* goes round a circle, once in ``period`` users."""

    period: int = 100_000
    name: ClassVar[str] = "seasonal"

    def __post_init__(self) -> None:
        """A circle needs a plane, and time."""
        super().__post_init__()
        whole("period", self.period, BLOCK)
        if self.dim < 3:
            raise ValueError(f"dim must be at least 3 for seasons, got {self.dim}")

    def world(self, seed: int, trials: range) -> World:
        """Theta* is known for every block."""
        return TurningWorld(self, seed, trials)


class TurningWorld(DrawnWorld):
    """Instances whose theta* turns in a plane of its own."""

    def __init__(self, problem: Seasonal, seed: int, trials: range) -> None:
        self._period = problem.period
        drawn = [
            np.random.default_rng(
                np.random.SeedSequence(seed, spawn_key=(trial, DRIFT, 0))
            ).standard_normal(problem.dim - 1)
            for trial in trials
        ]
        self._other = np.array(drawn)
        super().__init__(problem, seed, trials)

    def parameters(self, block: int) -> Floats:
        """The first direction, and one at a right angle to it a quarter of a period later."""
        first = self._theta[:, :-1]
        along = np.einsum("td,td->t", self._other, first)[:, None] / 0.5
        across = self._other - along * first
        across *= math.sqrt(0.5) / np.linalg.norm(across, axis=1, keepdims=True)
        angle = 2 * math.pi * block * BLOCK / self._period
        turned = math.cos(angle) * first + math.sin(angle) * across
        return np.concatenate([turned, self._theta[:, -1:]], axis=1)
