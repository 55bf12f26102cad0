"""Plan: what every party agrees on, and what it is worth."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from croupier.coins import SystemCoins
from croupier.contribution import Layout
from croupier.documents import plan_document, plan_parts
from croupier.errors import DocumentError, GuaranteeError, RefusedError
from croupier.model import canonical
from croupier.policies import registry as policy_registry
from croupier.policies.base import Policy, Setting
from croupier.privacy.budget import Budget
from croupier.privacy.gdp import mu_of
from croupier.privacy.guarantee import Guarantee
from croupier.protocols import registry
from croupier.protocols.base import Mechanism, Release, ShuffleRelease, Terms
from croupier.shuffler import Shapes, shapes_of
from croupier.theory.constants import composed_budget
from croupier.theory.schedules import FixedBatches, Schedule, growing_first, schedule

PAPERS_LAYOUT = ("theorem", "released")
"""Calibrations whose noise is stated for the paper's unscaled layout."""

DEFAULT_OVERHEAD = 0.05

CLIPPED = "the device clips features and rewards to their declared bounds"
COMPLETE = "batches are released complete, by a shuffler that does not collude with the analyzer"
SWAPPED_ONCE = "a user is in at most {} of the batches, at most once in each"


@dataclass(frozen=True)
class Plan:
    """Protocol, schedule and policy with the terms they were calibrated on; immutable.

    ``Plan.calibrate`` cannot give a false promise. This constructor promises nothing: a plan
    made with it is worth what ``guarantees()`` computes.
    """

    mechanism: Mechanism
    policy: Policy
    terms: Terms
    budget: Budget | None = None

    @classmethod
    def calibrate(
        cls,
        protocol: str,
        *,
        dim: int,
        batch_size: int | None = None,
        horizon: int | None = None,
        calibration: str = "certified",
        epsilon: float | None = None,
        delta: float | None = None,
        batches: str = "fixed",
        policy: str = "ucb",
        max_participations: int = 1,
        honest_fraction: float = 1.0,
        feature_norm: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        confidence: float | None = None,
        overhead: float = DEFAULT_OVERHEAD,
        strategy: str | None = None,
        outside: bool = False,
        **policy_options: Any,
    ) -> Plan:
        """The plan that the named calibration gives for this budget.

        ``batch_size`` and ``horizon`` may be left out for schedules that grow. ``confidence`` is
        the paper's alpha, 1/horizon unless given. ``overhead`` is how much more
        noise than the Gaussian floor may be added to send fewer bits. ``strategy`` chooses among
        the ways of the central model. ``outside`` takes a theorem's formula beyond its range,
        which claims nothing. Further options go to the policy.
        """
        kind = registry.find(protocol)
        terms = Terms(calibration, max_participations, honest_fraction, outside, overhead, strategy)
        _offered(kind, terms)
        layout = Layout(dim, calibration not in PAPERS_LAYOUT, 1.0, feature_norm, reward_range)
        budget = None if kind.trust == "none" else _budget(epsilon, delta, protocol)
        first = _first_size(batch_size, batches, layout, budget, horizon)
        sizes = schedule(batches, first, horizon)
        made = kind.calibrate(budget, layout, sizes, terms)
        mechanism = replace(made, honest_fraction=honest_fraction)
        rule = policy_registry.find(policy)
        setting = _setting(mechanism, terms, budget, confidence)
        return cls(mechanism, rule.calibrate(setting, **policy_options), terms, budget)

    @property
    def layout(self) -> Layout:
        """The coordinates of a contribution."""
        return self.mechanism.layout

    @property
    def schedule(self) -> Schedule:
        """The batch sizes."""
        return self.mechanism.schedule

    @property
    def protocol(self) -> str:
        """The protocol's or baseline's name."""
        return self.mechanism.name

    @property
    def calibration(self) -> str:
        """The name of the calibration that chose the noise."""
        return self.terms.calibration

    @property
    def deployable(self) -> bool:
        """Whether devices and an analyzer can run it."""
        return issubclass(self.mechanism.release_type, ShuffleRelease)

    def users(self, index: int) -> int:
        """Reports that batch ``index`` waits for."""
        return self.schedule.size(index)

    def release(self, index: int) -> Release:
        """Public parameters of batch ``index``."""
        return self.mechanism.release(index)

    @property
    def noise_floor(self) -> float | None:
        """Noise on a first batch's sum below which no analysis can meet the budget, if known."""
        return self.mechanism.noise_floor(self.budget, self.terms)

    def shapes(self, index: int) -> Shapes:
        """What a report of batch ``index`` looks like, whatever the data: that of phi = 0."""
        release = self.release(index)
        if not isinstance(release, ShuffleRelease):
            raise RefusedError(f"{self.protocol} is a baseline and has no reports")
        return shapes_of(release.randomize(np.zeros(self.layout.size), SystemCoins()))

    def guarantees(self) -> dict[str, Guarantee]:
        """Against the analyzer (shuffle), other users (joint), shuffler and network (local)."""
        present = self.terms.max_participations
        once = SWAPPED_ONCE.format(present)
        return {
            "shuffle": self.mechanism.guarantee(present).assuming(CLIPPED, once, COMPLETE),
            "joint": self.mechanism.joint_guarantee(present).assuming(CLIPPED, once),
            "local": self.mechanism.local_guarantee().assuming(CLIPPED, "one report alone"),
        }

    @property
    def promise(self) -> Guarantee:
        """The guarantee that the budget is about: the one of the mechanism's trust model."""
        return self.promise_for(self.terms.max_participations)

    def promise_for(self, participations: int) -> Guarantee:
        """The same for a user in that many batches."""
        if self.mechanism.trust == "joint":
            return self.mechanism.joint_guarantee(participations)
        return self.mechanism.guarantee(participations)

    @property
    def met(self) -> bool:
        """Whether the budget, if any, is proved to be met."""
        return self.budget is None or self.promise.meets(self.budget)

    def with_feature_norm(self, norm: float) -> Plan:
        """The same noise for features of another norm, radius and guarantees recomputed."""
        if norm == self.layout.feature_norm:
            return self
        layout = replace(self.layout, feature_norm=norm)
        made = [(release.users, release.parameters) for release in self.mechanism.releases]
        honest = self.mechanism.honest_fraction
        mechanism = type(self.mechanism).restore(layout, self.schedule, made, honest)
        setting = _setting(mechanism, self.terms, self.budget, self.policy.confidence)
        policy = type(self.policy).calibrate(setting, **self.policy.options)
        return replace(self, mechanism=mechanism, policy=policy)

    def to_json(self) -> str:
        """A document that ``from_json`` reads back bit for bit."""
        return json.dumps(plan_document(self), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan; a document whose id does not fit its content is refused."""
        parts, claimed = plan_parts(text)
        plan = cls(*parts)
        try:
            found = plan.id
        except ValueError as error:
            raise DocumentError(f"not a plan: {error}") from error
        if found != claimed:
            raise DocumentError(f"plan id is {found}, the document says {claimed}")
        return plan

    @cached_property
    def content(self) -> dict[str, Any]:
        """Everything that makes the plan, as plain values; the id is its hash."""
        layout, sizes, terms = self.layout, self.schedule, self.terms
        return {
            "protocol": self.protocol,
            "calibration": self.calibration,
            "policy": self.policy.name,
            "policy_parameters": self.policy.parameters,
            "dim": layout.dim,
            "horizon": sizes.horizon,
            "budget": self.budget and vars(self.budget),
            "schedule": {"name": sizes.name, "first": sizes.first, "exponent": sizes.exponent},
            "releases": [
                {"users": release.users, "parameters": release.parameters}
                for release in self.mechanism.releases
            ],
            "max_participations": terms.max_participations,
            "honest_fraction": terms.honest_fraction,
            "outside": terms.outside,
            "overhead": terms.overhead,
            "strategy": terms.strategy,
            "scaled": layout.scaled,
            "weight": layout.weight,
            "feature_norm": layout.feature_norm,
            "reward_range": list(layout.reward_range),
        }

    @cached_property
    def id(self) -> str:
        """A stable name: 32 hex digits of the SHA-256 of the content."""
        return hashlib.sha256(canonical(self.content)).hexdigest()[:32]


def _first_size(
    given: int | None, batches: str, layout: Layout, budget: Budget | None, horizon: int | None
) -> int:
    """The first batch: as asked for, or sized to the noise where batches grow (MATH 6.5)."""
    if given is not None:
        return given
    if batches == FixedBatches.name:
        raise ValueError("batch_size must be given for fixed batches, got None")
    if budget is None:
        return growing_first(layout.dim, 0.0, horizon)
    floor = layout.sensitivity / mu_of(budget.epsilon, budget.delta)
    return growing_first(layout.dim, (1 + DEFAULT_OVERHEAD) * floor, horizon)


def _offered(kind: type[Mechanism], terms: Terms) -> None:
    """Refuse a calibration that the mechanism does not have."""
    if terms.calibration not in kind.calibrations:
        known = ", ".join(kind.calibrations)
        raise GuaranteeError(
            f"calibration {terms.calibration!r} is not offered by {kind.name}; it offers: {known}"
        )
    if terms.calibration in PAPERS_LAYOUT and terms.honest_fraction != 1:
        raise GuaranteeError(
            f"{terms.calibration} constants count the noise of all users: honest_fraction must "
            f"be 1, got {terms.honest_fraction!r}"
        )


def _budget(epsilon: float | None, delta: float | None, protocol: str) -> Budget:
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is None:
            raise ValueError(f"{name} must be given for {protocol}, got None")
    return Budget(epsilon, delta)  # type: ignore[arg-type]


def _setting(
    mechanism: Mechanism, terms: Terms, budget: Budget | None, confidence: float | None
) -> Setting:
    """The public numbers that the policy is set up with."""
    sizes = mechanism.schedule
    part = budget and composed_budget(budget, terms.max_participations)
    return Setting(
        layout=mechanism.layout,
        schedule=sizes,
        confidence=1 / sizes.rounds if confidence is None else confidence,
        noise_variance=mechanism.largest_noise_variance(sizes.batches),
        released=mechanism.released_scale(part) if terms.calibration == "released" else None,
    )
