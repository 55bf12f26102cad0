"""What somebody needs a plan for."""

from __future__ import annotations

from dataclasses import dataclass

from croupier.arguments import fraction, whole
from croupier.errors import UnknownNameError
from croupier.layouts import LightOffset
from croupier.plan_defaults import DEFAULT_HONEST
from croupier.privacy.budget import Budget
from croupier.schedules import MOST_USERS
from croupier.simulation.problem import Problem
from croupier.simulation.synthetic import Contextual, Sphere

ACTION_SETS: dict[str, type[Problem]] = {"common": Sphere, "individual": Contextual}
"""Whom a plan is tried on: users who share one set of arms, or bring their own."""

DEFAULT_ARMS = 20


@dataclass(frozen=True)
class Need:
    """What a plan is for: so many users, features, a budget, and what limits the choice.

    ``action_sets`` is ``common`` where all users have the same ``arms`` and ``individual`` where
    each has its own. ``constant_feature`` is the index and value of a feature that everybody has.
    """

    users: int
    dim: int
    epsilon: float
    delta: float
    max_report_bytes: int | None = None
    action_sets: str = "common"
    arms: int = DEFAULT_ARMS
    constant_feature: tuple[int, float] | None = None
    max_participations: int = 1
    honest_fraction: float = DEFAULT_HONEST
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no plan can be made for."""
        if whole("users", self.users, 1) > MOST_USERS:
            raise ValueError(f"users must be at most {MOST_USERS}, got {self.users}")
        for name, least in (("dim", 2), ("arms", 2), ("max_participations", 1), ("seed", 0)):
            whole(name, getattr(self, name), least)
        if self.max_report_bytes is not None:
            whole("max_report_bytes", self.max_report_bytes, 1)
        if self.action_sets not in ACTION_SETS:
            raise UnknownNameError("action_sets", self.action_sets, ACTION_SETS)
        fraction("honest_fraction", self.honest_fraction)
        Budget(self.epsilon, self.delta)
        try:
            LightOffset(self.dim, constant=self.constant_feature)
        except ValueError as error:
            raise ValueError(f"constant_feature: {error}") from error

    @property
    def budget(self) -> Budget:
        """The privacy asked for."""
        return Budget(self.epsilon, self.delta)

    @property
    def problem(self) -> Problem:
        """Synthetic users to try a plan on."""
        return ACTION_SETS[self.action_sets](self.dim, self.arms)
