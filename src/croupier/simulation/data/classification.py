"""Classification turned bandit: an arm for every class, reward 1 for the right one."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar, Self

import numpy as np

from croupier.plan import Plan
from croupier.simulation.data import sources
from croupier.simulation.data.base import (
    DataProblem,
    DataWorld,
    Floats,
    Indices,
    directions,
    split_in_half,
)
from croupier.simulation.data.maps import CONSTANT, BallMap, from_public
from croupier.simulation.data.sources import LabelledTable
from croupier.simulation.problem import Users, in_blocks


@dataclass(frozen=True, eq=False)
class Players:
    """Mapped contexts ``(people, width)`` and labels of those who play, and the map."""

    contexts: Floats
    labels: Indices
    map: BallMap


@dataclass(frozen=True)
class Classification(DataProblem):
    """Arm k has the context in block k of its feature: dim = arms x (directions + 1).

    The plan's dimension says how many directions of the contexts are kept: those of most variance.
    The last coordinate of a block is constant.
    """

    @classmethod
    def blocks_of(cls, arms: int) -> int | None:
        """One an arm."""
        return arms

    @classmethod
    def constant_of(cls, dim: int) -> tuple[int, float] | None:
        """The last one of a block of ``dim`` entries."""
        return dim - 1, CONSTANT

    @property
    @abstractmethod
    def table(self) -> LabelledTable:
        """All people."""

    @property
    @abstractmethod
    def playing(self) -> Players:
        """Those who play, mapped."""

    @property
    def label(self) -> str:
        """What the data is called in words."""
        return repr(self.name)

    @property
    def least_kept(self) -> int:
        """The fewest directions that a map can keep."""
        return 1

    @property
    def kept(self) -> int:
        """Directions of the contexts that are kept."""
        return self.dim // self.arms - 1

    @property
    def uniform_reward(self) -> float:
        """One arm of all is right."""
        return 1 / self.arms

    @property
    def best_reward(self) -> float:
        """Every context has a label."""
        return 1.0

    @property
    def constant_reward(self) -> float:
        """The share of the most frequent class."""
        return float(np.bincount(self.playing.labels).max() / self.players)

    @property
    def players(self) -> int:
        """People who play."""
        return len(self.playing.labels)

    @property
    def scaling(self) -> str:
        """What the map says of itself."""
        return self.playing.map.words

    def fitted(self, plan: Plan) -> Self:
        """As many directions as fit the plan's dimension."""
        found, most = plan.layout.dim, len(self.table.columns)
        directions(self.label, found, self.arms, self.least_kept, most, self.dim)
        return replace(self, dim=found)

    def world(self, seed: int, trials: range) -> LabelledWorld:
        """The same people in another order in every trial."""
        return LabelledWorld(self, seed, trials)


class LabelledWorld(DataWorld):
    """Contexts in blocks, one block an arm."""

    def __init__(self, problem: Classification, seed: int, trials: range) -> None:
        super().__init__(problem, seed, trials)
        self._arms = problem.arms
        self._people = problem.playing

    def draw(self, index: int) -> Users:
        """The people whose turn it is."""
        who = self.visitors(index, len(self._people.labels))
        features = in_blocks(self._people.contexts[who], self._arms)
        means = (self._people.labels[who][..., None] == np.arange(self._arms)).astype(np.float64)
        return Users(features, means, self.uniforms(index))


@dataclass(frozen=True)
class Shipped(Classification):
    """A data set of an installed package, mapped by its public half."""

    split: int = 0
    usual_arms: ClassVar[int]

    def __post_init__(self) -> None:
        """Arms are the data's classes."""
        super().__post_init__()
        if self.arms != self.usual_arms:
            raise ValueError(f"arms must be {self.usual_arms} for {self.name!r}, got {self.arms}")

    @classmethod
    def blocks_of(cls, arms: int) -> int | None:
        """One a class, however many arms are asked for."""
        return cls.usual_arms

    @classmethod
    def for_plan(cls, plan: Plan, arms: int) -> Self:
        """As many directions as fit the plan's dimension."""
        return cls(arms=arms).fitted(plan)  # type: ignore[call-arg]

    @property
    def table(self) -> LabelledTable:
        """All people."""
        return sources.table(self.name)

    @property
    def playing(self) -> Players:
        """The half that is not public."""
        return _players(self.name, self.kept, self.split)


@cache
def _players(name: str, kept: int, split: int) -> Players:
    return mapped_half(sources.table(name), kept, split)


def mapped_half(table: LabelledTable, kept: int, split: int) -> Players:
    """The playing half under the map of the public half."""
    public, playing = split_in_half(len(table.labels), split)
    ball = from_public(table.contexts[public], kept)
    return Players(ball(table.contexts[playing]), table.labels[playing], ball)


@dataclass(frozen=True)
class Adult(Shipped):
    """Who earns above 50,000 dollars: 48,842 people of the census of 1994."""

    dim: int = 14
    arms: int = 2
    name: ClassVar[str] = "adult"
    usual_arms: ClassVar[int] = 2


@dataclass(frozen=True)
class Shuttle(Shipped):
    """Whether a reading of 9 sensors is an anomaly: 49,097 readings of a space shuttle."""

    dim: int = 8
    arms: int = 2
    name: ClassVar[str] = "shuttle"
    usual_arms: ClassVar[int] = 2


@dataclass(frozen=True)
class Segments(Shipped):
    """What a patch of a picture shows: 2,310 patches of 7 kinds."""

    dim: int = 49
    arms: int = 7
    name: ClassVar[str] = "segments"
    usual_arms: ClassVar[int] = 7


@dataclass(frozen=True)
class Digits(Shipped):
    """Which digit was written: 1,797 pictures."""

    dim: int = 50
    arms: int = 10
    name: ClassVar[str] = "digits"
    usual_arms: ClassVar[int] = 10
