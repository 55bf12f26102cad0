"""The certified ways of serving a need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from croupier.layouts import Layout, LightOffset
from croupier.plan import Plan
from croupier.plan_defaults import DEFAULT_OVERHEAD
from croupier.policies import registry as policy_registry
from croupier.policies.base import Setting
from croupier.privacy.gdp import mu_of
from croupier.privacy.shuffled_bits.calibration import BatchSum
from croupier.protocols import registry
from croupier.schedules import Schedule, growing_first, schedule
from croupier.simulation.planner.need import Need
from croupier.simulation.planner.sampled_users import Course, Noise, course_of

BATCHWISE, TREE = "vector-sum", "concurrent-tree"
OVERHEADS = (DEFAULT_OVERHEAD, 0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0, 16.0)
"""Noise above the floor that may be traded for smaller reports, least first."""

MANY_USERS = 10**5
"""Beyond these, doubling batches are worth a try on a common arm set (MATH 6.5)."""

VERY_MANY_USERS = 5 * 10**5
HELD_BY_GROWTH = 13_000
"""First batches that a growing schedule of 64 holds."""

FREQUENT = 5_000
"""First batches that make non-private batches small: some forty of them."""


@dataclass(frozen=True)
class Candidate:
    """One way of serving a need: everything that ``Plan.calibrate`` has to be told."""

    need: Need
    batches: str
    policy: str
    overhead: float = DEFAULT_OVERHEAD
    levels: int | None = None
    """Of a tree; None where every batch is released by itself."""

    @property
    def protocol(self) -> str:
        """The protocol's name."""
        return BATCHWISE if self.levels is None else TREE

    @property
    def label(self) -> str:
        """What sets it apart."""
        tree = "" if self.levels is None else f" of {self.levels} levels"
        return f"{self.protocol}{tree}, {self.batches} batches, {self.policy}"

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "protocol": self.protocol,
            "batches": self.batches,
            "policy": self.policy,
            "overhead": self.overhead,
            "levels": self.levels,
        }

    @property
    def layout(self) -> Layout:
        """Contributions of the simulated users, whose constant is the last coordinate."""
        declared = self.need.constant_feature is not None
        constant = self.need.problem.constant_of(self.need.dim) if declared else None
        return LightOffset(self.need.dim, constant=constant)

    @cached_property
    def schedule(self) -> Schedule:
        """Batches that start with the size that the noise asks for (MATH 6.5)."""
        return self._sized(self._present)

    @property
    def participations(self) -> int:
        """A user is at most once in a batch, so more than there are batches mean nothing."""
        return min(self._present, self.schedule.batches)

    @cached_property
    def _present(self) -> int:
        """The batches that one user may be in: all of them, if that is less than was allowed."""
        allowed = self.need.max_participations
        enough = (count for count in range(1, allowed) if self._sized(count).batches <= count)
        return next(enough, allowed)

    def _sized(self, present: int) -> Schedule:
        """The batches for the noise of a user in ``present`` of them."""
        users, layout = self.need.users, self.layout
        first = growing_first(
            layout.scored, layout.norm, math.sqrt(present) * self._std, layout.length, users
        )
        return schedule(self.batches, max(first, math.ceil(users / HELD_BY_GROWTH)), users)

    @cached_property
    def _std(self) -> float:
        """Noise on a batch sum for a user who is in one batch."""
        mu = mu_of(self.need.epsilon, self.need.delta)
        spread = self.layout.sensitivity / math.sqrt(self.need.honest_fraction)
        return (1 + self.overhead) * spread / mu

    def changed(self, **what: Any) -> Candidate:
        """The same for another need."""
        return replace(self, need=replace(self.need, **what))

    def plan(self) -> Plan:
        """The plan, certified."""
        sizes = self.schedule
        return self._calibrated(batches=sizes.name, batch_size=sizes.first, horizon=sizes.horizon)

    def largest_report(self) -> int:
        """Bytes of the largest report, from the smallest and the largest batch alone."""
        sizes = self.schedule.sizes()
        alone = [
            self._calibrated(batches="fixed", batch_size=size, horizon=size)
            for size in {min(sizes), max(sizes)}
        ]
        return max(report_bytes(plan)[1] for plan in alone)

    def _calibrated(self, **sizes: Any) -> Plan:
        need = self.need
        return Plan.calibrate(
            self.protocol,
            dim=need.dim,
            epsilon=need.epsilon,
            delta=need.delta,
            policy=self.policy,
            overhead=self.overhead,
            levels=self.levels,
            max_participations=self.participations,
            honest_fraction=need.honest_fraction,
            constant_feature=need.constant_feature,
            **sizes,
        )

    def course(self, plan: Plan | None = None) -> Course:
        """What to simulate: the plan's noise on the synthetic users' own constant feature.

        Before there is a plan, what calibration is going to give batch by batch.
        """
        if plan is None:
            return self._course(self._floors())
        return self._course(course_of(plan).noise)

    def _course(self, noise: Iterable[Noise]) -> Course:
        """Before anything is calibrated: these policies ask for no more than the layout."""
        sizes = self.schedule
        setting = Setting(self.layout, sizes, confidence=1.0, noise_variance=0.0)
        policy = policy_registry.find(self.policy).calibrate(setting)
        return Course(self.layout, sizes, policy, tuple(noise))

    def _floors(self) -> Iterator[Noise]:
        """Calibration uses up the overhead: that much above the Gaussian floor (MATH 4)."""
        need, layout, present = self.need, self.layout, self.participations
        for index, size in enumerate(self.schedule.sizes()):
            batch = BatchSum(size, need.honest_fraction, layout.sensitivity, layout.size, present)
            yield Noise(index, (1 + self.overhead) * batch.floor(need.budget))

    def without_noise(self) -> Course:
        """The same policy, not private, in batches so small that waiting hardly matters."""
        users, dim = self.need.users, self.need.dim
        first = max(dim, math.ceil(users / FREQUENT))
        # Very many users take a faster growth, or the first batch would be most of the regret.
        named = ("growing", first) if first <= dim**2 else ("doubling", dim)
        sizes = schedule(named[0], min(named[1], users), users)
        silent = (Noise(index, 0.0) for index in range(sizes.batches))
        return replace(self._course(silent), schedule=sizes)


def report_bytes(plan: Plan) -> tuple[int, int]:
    """Bytes of a report in the first batch, and of the largest."""
    sizes = [math.ceil(release.report_bits / 8) for release in plan.mechanism.releases]
    return sizes[0], max(sizes)


def choices(need: Need) -> Iterator[Candidate]:
    """Ways that are worth a simulation, the likeliest first by what is known before (MATH 6.5)."""
    long = need.action_sets == "common" and need.users > MANY_USERS
    if need.action_sets == "individual":
        yield Candidate(need, "growing", "randucb")
    elif long:
        yield Candidate(need, "growing", "thompson")
    yield Candidate(need, "growing", "sampling")
    if long:
        yield Candidate(need, "doubling", "sampling")
    if tree_is_worth_a_try(need):
        yield Candidate(need, "growing", "sampling", levels=2)


def tree_is_worth_a_try(need: Need) -> bool:
    """A tree has fewer bad runs on common arms, and more regret in the mean until users are many.

    Not where bytes are counted, which it takes more of, nor for users who return: they are in
    its nodes several times, which costs more than it saves.
    """
    known = TREE in registry.names() and need.action_sets == "common"
    free = need.max_participations == 1 and need.max_report_bytes is None
    return known and free and need.users > VERY_MANY_USERS
