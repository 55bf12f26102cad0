"""What problems from data share: a public half that never plays, and users who come in turn."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from croupier.plan import Plan
from croupier.simulation.data.maps import CONSTANT
from croupier.simulation.problem import BLOCK, Problem, World

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_SPLIT, _ORDER = 11, 3


@dataclass(frozen=True)
class DataProblem(Problem):
    """People with known rewards; ``split`` draws the half of them that is public.

    The public half fits the map of the features and never plays. The other half plays: everybody
    once in an order of its own, then everybody again, as often as the horizon needs.
    """

    @property
    @abstractmethod
    def uniform_reward(self) -> float:
        """The expected reward of a round if arms are played at random."""

    @property
    @abstractmethod
    def best_reward(self) -> float:
        """The expected reward of who knows every reward beforehand."""

    @property
    @abstractmethod
    def constant_reward(self) -> float | None:
        """The expected reward of the best single arm, None where arms are not the same twice."""

    @property
    @abstractmethod
    def players(self) -> int:
        """People who play."""

    @property
    @abstractmethod
    def scaling(self) -> str:
        """How features come into the unit ball, and at whose cost."""

    @abstractmethod
    def fitted(self, plan: Plan) -> Self:
        """The problem in the plan's dimension, or an error that says which ones it has."""


def split_in_half(count: int, split: int) -> tuple[Indices, Indices]:
    """The public half and the playing half of ``count`` people; the odd one plays."""
    key = np.random.SeedSequence(split, spawn_key=(_SPLIT,))
    order = np.random.default_rng(key).permutation(count)
    return np.sort(order[: count // 2]), np.sort(order[count // 2 :])


class DataWorld(World):
    """Some trials of the same people, who come in another order in each."""

    def visitors(self, index: int, people: int) -> Indices:
        """Who comes in a block of rounds ``(trials, BLOCK)``."""
        return np.array([self._queue(trial, index, people) for trial in self._trials])

    def _queue(self, trial: int, index: int, people: int) -> Indices:
        rounds = np.arange(index * BLOCK, (index + 1) * BLOCK)
        turns = range(rounds[0] // people, rounds[-1] // people + 1)
        orders = [self.generator(trial, _ORDER, turn).permutation(people) for turn in turns]
        return np.concatenate(orders)[rounds - turns.start * people]


def refused_dim(name: str, allowed: str, found: int, suggested: int, arms: int = 1) -> ValueError:
    """The error that says which plan the data needs, with a block for each of several ``arms``."""
    blocks = f"--blocks {arms} " if arms > 1 else ""
    return ValueError(
        f"dim must be {allowed} for {name}, the plan has {found}: make the plan with "
        f"`croupier plan --dim {suggested} {blocks}"
        f"--constant-feature {suggested // arms - 1}={CONSTANT} ...`"
    )


def directions(name: str, found: int, arms: int, least: int, most: int, usual: int) -> int:
    """Directions of a context that a plan of dimension ``found`` keeps: found / arms - 1."""
    width, left = divmod(found, arms)
    if left or not least < width <= most + 1:
        low, high = arms * (least + 1), arms * (most + 1)
        allowed = f"a multiple of {arms} from {low} to {high}" if low < high else f"{high}"
        raise refused_dim(name, allowed, found, usual, arms)
    return width - 1
