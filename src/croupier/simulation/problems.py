"""Bandit problems: who comes, with which features, and what they like.

Users are a pure function of (seed, trial, round): whatever an algorithm does and however its
batches fall, it meets the same people. They are drawn in blocks of rounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole
from croupier.contribution import NORM_SLACK
from croupier.errors import UnknownNameError
from croupier.plan import Plan

Floats = NDArray[np.float64]

BLOCK = 256
"""Rounds that are drawn at once."""

_INSTANCE, _FEATURES, _REWARDS = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Users:
    """Consecutive rounds of many trials.

    ``features (trials, rounds, arms, dim)`` and ``means (trials, rounds, arms)``; the rounds axis
    has length 1 where all users share one arm set. ``uniforms (trials, rounds)`` decide rewards.
    """

    features: Floats
    means: Floats
    uniforms: Floats


@dataclass(frozen=True)
class Problem(ABC):
    """A family of bandit instances with ``arms`` arms of dimension ``dim``."""

    dim: int
    arms: int
    name: ClassVar[str]
    feature_norm: ClassVar[float] = 1.0
    common_arms: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """At least one arm and a direction to tell arms apart."""
        whole("dim", self.dim, 2)
        whole("arms", self.arms, 1)

    @classmethod
    def for_plan(cls, plan: Plan, arms: int) -> Problem:
        """The problem that fits a plan."""
        return cls(plan.layout.dim, arms)

    @abstractmethod
    def world(self, seed: int, trials: range) -> World:
        """The users of some trials of one seed."""


class World(ABC):
    """Instances of a problem for some trials of one seed."""

    def __init__(self, problem: Problem, seed: int, trials: range) -> None:
        self._norm = problem.feature_norm
        self._common = problem.common_arms
        self._seed = seed
        self._trials = trials
        self._cached: tuple[int, Users] | None = None

    @abstractmethod
    def draw(self, index: int) -> Users:
        """Rounds ``index * BLOCK`` to ``(index + 1) * BLOCK``, a pure function of the index."""

    def block(self, index: int) -> Users:
        """A drawn block, checked; the last one is kept."""
        if self._cached is None or self._cached[0] != index:
            self._cached = index, checked(self.draw(index), self._norm)
        return self._cached[1]

    def users(self, start: int, stop: int) -> Users:
        """Rounds ``start`` to ``stop``, which must lie in one block."""
        block = self.block(start // BLOCK)
        inside = slice(start % BLOCK, start % BLOCK + stop - start)
        if self._common:
            return Users(block.features, block.means, block.uniforms[:, inside])
        return Users(block.features[:, inside], block.means[:, inside], block.uniforms[:, inside])

    def generator(self, trial: int, stream: int, block: int) -> np.random.Generator:
        """The random stream of one block of one trial."""
        key = np.random.SeedSequence(self._seed, spawn_key=(trial, stream, block))
        return np.random.default_rng(key)

    def uniforms(self, block: int) -> Floats:
        """What decides rewards ``(trials, BLOCK)``."""
        draws = [self.generator(trial, _REWARDS, block).random(BLOCK) for trial in self._trials]
        return np.array(draws)


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

    def world(self, seed: int, trials: range) -> World:
        """Mean rewards are linear in the features."""
        return DrawnWorld(self, seed, trials)


class DrawnWorld(World):
    """Instances of a synthetic problem."""

    def __init__(self, problem: Synthetic, seed: int, trials: range) -> None:
        super().__init__(problem, seed, trials)
        self._problem = problem
        draws = [problem.parameter(self.generator(trial, _INSTANCE, 0)) for trial in trials]
        self._theta = np.array(draws)
        self._shared = self._arm_sets(0, 1) if problem.common_arms else None

    def _arm_sets(self, block: int, count: int) -> tuple[Floats, Floats]:
        sets = [
            self._problem.features(self.generator(t, _FEATURES, block), count) for t in self._trials
        ]
        features = arms_innermost(np.array(sets))
        return features, np.einsum("trkd,td->trk", features, self._theta)

    def _visitors(self, block: int) -> tuple[Floats, Floats]:
        """Arm sets of the users who come in a block of rounds."""
        if self._shared is not None:
            return self._shared
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

    def draw(self, index: int) -> Users:
        """Users drawn from the problem's law."""
        features, means = self._visitors(index)
        return Users(features, means, self.uniforms(index))


def arms_innermost(features: Floats) -> Floats:
    """The same features, stored so that the arms of a coordinate lie next to each other."""
    return np.ascontiguousarray(features.swapaxes(-1, -2)).swapaxes(-1, -2)


def checked(users: Users, norm: float) -> Users:
    """Users whose features keep the declared norm and whose mean rewards are probabilities."""
    largest = math.sqrt(np.einsum("...d,...d->...", users.features, users.features).max())
    if not largest <= norm * (1 + NORM_SLACK):
        raise ValueError(f"features must have norm at most {norm}, got {largest}")
    low, high = users.means.min(), users.means.max()
    if not (low >= -NORM_SLACK and high <= 1 + NORM_SLACK):
        raise ValueError(f"mean rewards must be in [0, 1], got {low} to {high}")
    return users


def unit_vectors(rng: np.random.Generator, *shape: int) -> Floats:
    """Uniform directions ``shape``."""
    draws = rng.standard_normal(shape)
    return np.asarray(draws / np.linalg.norm(draws, axis=-1, keepdims=True))


def lifted(directions: Floats, norm: float, last: float) -> Floats:
    """Directions scaled to ``norm`` with a constant last coordinate."""
    tail = np.full((*directions.shape[:-1], 1), last)
    return np.concatenate([norm * directions, tail], axis=-1)


@dataclass(frozen=True)
class Sphere(Synthetic):
    """The paper's text: a common set of unit arms, half of each in a constant coordinate."""

    name: ClassVar[str] = "sphere"
    common_arms: ClassVar[bool] = True

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
        pool = math.ceil(plan.schedule.rounds / plan.terms.max_participations)
        largest = max(plan.schedule.sizes())
        if pool < largest:
            raise ValueError(
                f"max_participations must be at most the number of batches "
                f"{plan.schedule.batches} (a user is once in a batch), "
                f"got {plan.terms.max_participations}"
            )
        return cls(plan.layout.dim, arms, pool)

    def visitor(self, round_index: int) -> int:
        """Everybody in turn."""
        return round_index % self.pool


@dataclass(frozen=True)
class Released(Synthetic):
    """The authors' script: norm sqrt 2, the first arms basis vectors. Nothing is clipped."""

    name: ClassVar[str] = "released"
    feature_norm: ClassVar[float] = math.sqrt(2)
    common_arms: ClassVar[bool] = True

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


PROBLEMS: dict[str, type[Problem]] = {
    kind.name: kind for kind in (Sphere, Released, Contextual, Returning)
}


def find(name: str) -> type[Problem]:
    """The problem called ``name``."""
    if name not in PROBLEMS:
        raise UnknownNameError("problem", name, PROBLEMS)
    return PROBLEMS[name]
