"""The problems that come with croupier, by name; ``worlds`` says what a problem is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from croupier.arguments import whole
from croupier.errors import UnknownNameError
from croupier.plan import Plan
from croupier.simulation.worlds import (
    BLOCK,
    DrawnWorld,
    Floats,
    PooledWorld,
    Problem,
    Synthetic,
    Users,
    World,
    arms_innermost,
    checked,
)

__all__ = [
    "BLOCK",
    "DATA",
    "PROBLEMS",
    "Contextual",
    "DrawnWorld",
    "Pooled",
    "PooledWorld",
    "Problem",
    "Released",
    "Returning",
    "Sphere",
    "Synthetic",
    "Users",
    "World",
    "arms_innermost",
    "checked",
    "find",
    "lifted",
    "unit_vectors",
]


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
    kind.name: kind for kind in (Sphere, Released, Contextual, Pooled, Returning)
}


DATA = ("movielens", "adult", "shuttle", "segments", "digits")
"""Problems from data, which other packages ship; see ``simulation/data``."""


def find(name: str) -> type[Problem]:
    """The problem called ``name``."""
    if name in DATA:
        # Data problems are built on this module, and few runs need what they read with.
        from croupier.simulation import data

        return data.PROBLEMS[name]
    if name not in PROBLEMS:
        raise UnknownNameError("problem", name, [*PROBLEMS, *DATA])
    return PROBLEMS[name]
