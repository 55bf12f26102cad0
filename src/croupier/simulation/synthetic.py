"""Problems whose instances are drawn: those of the paper and of its script, and kin of them."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from croupier.arguments import whole
from croupier.plan import Plan
from croupier.simulation.problem import (
    BLOCK,
    FEATURES,
    INSTANCE,
    REWARDS,
    Floats,
    Problem,
    Users,
    World,
    arms_innermost,
    checked,
)

BLOCKS_AT_ONCE = 16
"""Blocks of a longer draw."""


def unit_vectors(rng: np.random.Generator, *shape: int) -> Floats:
    """Uniform directions ``shape``."""
    draws = rng.standard_normal(shape)
    return np.asarray(draws / np.linalg.norm(draws, axis=-1, keepdims=True))


def lifted(directions: Floats, norm: float, last: float) -> Floats:
    """Directions scaled to ``norm`` with a constant last coordinate."""
    tail = np.full((*directions.shape[:-1], 1), last)
    return np.concatenate([norm * directions, tail], axis=-1)


@dataclass(frozen=True)
class Synthetic(Problem):
    """A problem whose instances are drawn: a parameter theta*, and arm sets."""

    @abstractmethod
    def parameter(self, rng: np.random.Generator) -> Floats:
        """theta* ``(dim,)`` of one instance."""

    @abstractmethod
    def features(self, rng: np.random.Generator, count: int) -> Floats:
        """``count`` arm sets ``(count, arms, dim)``."""

    def visitor(self, round_index: int) -> int:
        """Which user comes in a round; everybody is new unless a problem says otherwise."""
        return round_index

    @property
    def prebuilt(self) -> int:
        """Arm sets that are drawn at the start and come in turn; 0 where each is drawn in time."""
        return 1 if self.common_arms else 0

    def world(self, seed: int, trials: range) -> World:
        """Mean rewards are linear in the features."""
        return DrawnWorld(self, seed, trials)


class DrawnWorld(World):
    """Instances of a synthetic problem."""

    def __init__(self, problem: Synthetic, seed: int, trials: range) -> None:
        super().__init__(problem, seed, trials)
        self._problem = problem
        draws = [problem.parameter(self.generator(trial, INSTANCE, 0)) for trial in trials]
        self._theta = np.array(draws)
        self._shared = self._arm_sets(0, problem.prebuilt) if problem.prebuilt else None
        if self._shared is not None:
            checked(Users(*self._shared, np.empty(0)), problem.feature_norm)

    def pool(self) -> tuple[Floats, Floats] | None:
        """The prebuilt arm sets."""
        return self._shared

    def block(self, index: int) -> Users:
        """A drawn block; what is prebuilt was checked when it was."""
        if self._shared is None:
            return super().block(index)
        if self._cached is None or self._cached[0] != index:
            self._cached = index, self.draw(index)
        return self._cached[1]

    def _arm_sets(self, block: int, count: int) -> tuple[Floats, Floats]:
        sets = [
            self._problem.features(self.generator(t, FEATURES, block), count) for t in self._trials
        ]
        features = arms_innermost(np.array(sets))
        return features, np.einsum("trkd,td->trk", features, self.parameters(block))

    def parameters(self, block: int) -> Floats:
        """theta* ``(trials, dim)`` of the users of a block."""
        return self._theta

    def _visitors(self, block: int) -> tuple[Floats, Floats]:
        """Arm sets of the users who come in a block of rounds."""
        if self._shared is not None:
            return self._in_turn(*self._shared, block * BLOCK)
        people = np.array([self._problem.visitor(block * BLOCK + i) for i in range(BLOCK)])
        shape = (len(self._trials), BLOCK, self._problem.dim, self._problem.arms)
        features = np.empty(shape).swapaxes(-1, -2)
        means = np.empty(features.shape[:-1])
        for home in np.unique(people // BLOCK):
            here = people // BLOCK == home
            known, liked = self._arm_sets(int(home), BLOCK)
            features[:, here] = known[:, people[here] % BLOCK]
            means[:, here] = liked[:, people[here] % BLOCK]
        return features, means

    @staticmethod
    def _in_turn(features: Floats, means: Floats, start: int) -> tuple[Floats, Floats]:
        """Prebuilt arm sets of a block of rounds, copied only if a block does not fit the pool."""
        sets = features.shape[1]
        if sets == 1:
            return features, means
        if sets % BLOCK == 0:
            rows: Any = slice(start % sets, start % sets + BLOCK)
        else:
            rows = (start + np.arange(BLOCK)) % sets
        return features[:, rows], means[:, rows]

    def draw(self, index: int) -> Users:
        """Users drawn from the problem's law."""
        features, means = self._visitors(index)
        return Users(features, means, self.uniforms(index))


class PooledWorld(DrawnWorld):
    """Instances with a pool: what decides rewards is drawn for many blocks at once."""

    _drawn: tuple[int, Floats] | None = None

    def uniforms(self, block: int) -> Floats:
        """What decides rewards ``(trials, BLOCK)``, cut from a longer draw."""
        place, inside = divmod(block, BLOCKS_AT_ONCE)
        if self._drawn is None or self._drawn[0] != place:
            rows = [self._row(trial, place) for trial in self._trials]
            self._drawn = place, np.array(rows)
        return self._drawn[1][:, inside * BLOCK : (inside + 1) * BLOCK]

    def _row(self, trial: int, place: int) -> Floats:
        return self.generator(trial, REWARDS, place).random(BLOCKS_AT_ONCE * BLOCK)


@dataclass(frozen=True)
class Sphere(Synthetic):
    """The paper's text: a common set of unit arms, half of each in a constant coordinate."""

    name: ClassVar[str] = "sphere"
    common_arms: ClassVar[bool] = True

    @classmethod
    def constant_of(cls, dim: int) -> tuple[int, float] | None:
        """The last one."""
        return dim - 1, math.sqrt(0.5)

    def parameter(self, rng: np.random.Generator) -> Floats:
        """A uniform direction of norm 1/sqrt2 with 1/sqrt2 appended."""
        return lifted(unit_vectors(rng, self.dim - 1), math.sqrt(0.5), math.sqrt(0.5))

    def features(self, rng: np.random.Generator, count: int) -> Floats:
        """The same law for every arm."""
        return lifted(
            unit_vectors(rng, count, self.arms, self.dim - 1), math.sqrt(0.5), math.sqrt(0.5)
        )


@dataclass(frozen=True)
class Contextual(Sphere):
    """Fresh arm sets every round, each with the law of ``sphere``."""

    name: ClassVar[str] = "contextual"
    common_arms: ClassVar[bool] = False


@dataclass(frozen=True)
class Pooled(Contextual):
    """``pool`` arm sets with the law of ``contextual``, drawn once a trial, which come in turn.

    Drawing fresh arm sets takes most of the time of a simulation; these are drawn in advance.
    """

    pool: int = BLOCK
    name: ClassVar[str] = "pooled"

    def __post_init__(self) -> None:
        """A pool has arm sets that differ."""
        super().__post_init__()
        whole("pool", self.pool, 2)

    @property
    def prebuilt(self) -> int:
        """All of them."""
        return self.pool

    def world(self, seed: int, trials: range) -> World:
        """Rewards are decided by longer draws, too."""
        return PooledWorld(self, seed, trials)


@dataclass(frozen=True)
class Returning(Contextual):
    """A pool of users, each with an own arm set, who come in turn, again and again.

    Any ``pool`` rounds in a row are different users, so nobody is twice in a batch of at most
    ``pool`` users.
    """

    pool: int = 1
    name: ClassVar[str] = "returning"

    def __post_init__(self) -> None:
        """A pool has people."""
        super().__post_init__()
        whole("pool", self.pool, 1)

    @classmethod
    def for_plan(cls, plan: Plan, arms: int) -> Returning:
        """As few users as may come back as often as the plan allows."""
        pool = math.ceil(plan.schedule.rounds / plan.participations)
        largest = max(plan.schedule.sizes())
        if pool < largest:
            raise ValueError(
                f"max_participations must be at most the number of batches "
                f"{plan.schedule.batches} (a user is once in a batch), "
                f"got {plan.participations}"
            )
        return cls(plan.layout.dim, arms, pool)

    def visitor(self, round_index: int) -> int:
        """Everybody in turn."""
        return round_index % self.pool


@dataclass(frozen=True)
class ReleasedProblem(Synthetic):
    """The authors' script: norm sqrt 2, the first arms basis vectors. Nothing is clipped."""

    name: ClassVar[str] = "released"
    feature_norm: ClassVar[float] = math.sqrt(2)
    common_arms: ClassVar[bool] = True

    @classmethod
    def constant_of(cls, dim: int) -> tuple[int, float] | None:
        """The last one."""
        return dim - 1, 1.0

    def parameter(self, rng: np.random.Generator) -> Floats:
        """Half a uniform direction with 0.5 appended."""
        return lifted(unit_vectors(rng, self.dim - 1), 0.5, 0.5)

    def features(self, rng: np.random.Generator, count: int) -> Floats:
        """Uniform directions with 1 appended; arm i < dim is e_i with last coordinate 1."""
        arms = lifted(unit_vectors(rng, count, self.arms, self.dim - 1), 1.0, 1.0)
        basis = np.eye(self.dim)[: self.arms]
        basis[:, -1] = 1.0
        arms[:, : len(basis)] = basis
        return arms
