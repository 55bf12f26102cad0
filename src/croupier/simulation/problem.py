"""What a bandit problem is: who comes, with which features, and what they like.

Users are a pure function of (seed, trial, round): whatever an algorithm does and however its
batches fall, it meets the same people. They are drawn in blocks of rounds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole
from croupier.contribution import NORM_SLACK
from croupier.plan import Plan

Floats = NDArray[np.float64]

BLOCK = 256
"""Rounds that are drawn at once."""

INSTANCE, FEATURES, REWARDS, DRIFT = 0, 1, 2, 3
"""Random streams of a trial."""


@dataclass(frozen=True, eq=False)
class Users:
    """Consecutive rounds of many trials.

    ``features (trials, rounds, arms, dim)`` and ``means (trials, rounds, arms)``; the rounds axis
    has length 1 where all users share one arm set. ``uniforms (trials, rounds)`` decide rewards.
    ``available (trials, rounds or 1, arms)`` marks the arms that may be played, None for all.
    """

    features: Floats
    means: Floats
    uniforms: Floats
    available: NDArray[np.bool_] | None = None

    @property
    def best(self) -> Floats:
        """The best mean reward ``(trials, rounds or 1)`` that a user could have."""
        if self.available is None:
            return np.asarray(self.means.max(axis=-1))
        return np.asarray(np.where(self.available, self.means, -np.inf).max(axis=-1))

    def rounds(self, inside: slice) -> Users:
        """Some of the rounds; an axis of length 1 stands for all of them."""

        def cut(rows: Any) -> Any:
            return rows[:, inside] if rows.shape[1] == self.uniforms.shape[1] else rows

        offered = None if self.available is None else cut(self.available)
        return Users(cut(self.features), cut(self.means), self.uniforms[:, inside], offered)


@dataclass(frozen=True)
class Problem(ABC):
    """A family of bandit instances with ``arms`` arms of dimension ``dim``."""

    dim: int
    arms: int
    name: ClassVar[str]
    feature_norm: ClassVar[float] = 1.0
    common_arms: ClassVar[bool] = False
    usual_arms: ClassVar[int] = 100

    @classmethod
    def constant_of(cls, dim: int) -> tuple[int, float] | None:
        """Index and value of a feature that is the same for everybody and every arm, if any.

        Of one block of ``dim`` entries, where features have blocks.
        """
        return None

    @classmethod
    def blocks_of(cls, arms: int) -> int | None:
        """Blocks of features outside one of which every arm's are zero, if they have any."""
        return None

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
        first = start % BLOCK
        return self.block(start // BLOCK).rounds(slice(first, first + stop - start))

    def pool(self) -> tuple[Floats, Floats] | None:
        """Arm sets ``(trials, sets, arms, dim)`` that come in turn, and their means.

        None where they are not all known from the start; it only saves time.
        """
        return None

    def luck(self, start: int, stop: int) -> Floats:
        """``uniforms`` of rounds ``start`` to ``stop``."""
        blocks = range(start // BLOCK, (stop - 1) // BLOCK + 1)
        drawn = np.concatenate([self.uniforms(block) for block in blocks], axis=1)
        return drawn[:, start - blocks[0] * BLOCK : stop - blocks[0] * BLOCK]

    def generator(self, trial: int, stream: int, block: int) -> np.random.Generator:
        """The random stream of one block of one trial."""
        key = np.random.SeedSequence(self._seed, spawn_key=(trial, stream, block))
        return np.random.default_rng(key)

    def uniforms(self, block: int) -> Floats:
        """What decides rewards ``(trials, BLOCK)``."""
        draws = [self.generator(trial, REWARDS, block).random(BLOCK) for trial in self._trials]
        return np.array(draws)


def arms_innermost(features: Floats) -> Floats:
    """The same features, stored so that the arms of a coordinate lie next to each other."""
    return np.ascontiguousarray(features.swapaxes(-1, -2)).swapaxes(-1, -2)


def in_blocks(contexts: Floats, arms: int) -> Floats:
    """Contexts ``(..., width)`` as features ``(..., arms, arms * width)``, arms innermost."""
    width = contexts.shape[-1]
    stored = np.zeros((*contexts.shape[:-1], arms * width, arms))
    for arm in range(arms):
        stored[..., arm * width : (arm + 1) * width, arm] = contexts
    return stored.swapaxes(-1, -2)


def checked(users: Users, norm: float) -> Users:
    """Users whose features keep the declared norm and whose mean rewards are probabilities."""
    largest = math.sqrt(np.einsum("...d,...d->...", users.features, users.features).max())
    if not largest <= norm * (1 + NORM_SLACK):
        raise ValueError(f"features must have norm at most {norm}, got {largest}")
    low, high = users.means.min(), users.means.max()
    if not (low >= -NORM_SLACK and high <= 1 + NORM_SLACK):
        raise ValueError(f"mean rewards must be in [0, 1], got {low} to {high}")
    if users.available is not None and not users.available.any(axis=-1).all():
        raise ValueError("available must leave an arm, got a round without any")
    return users
