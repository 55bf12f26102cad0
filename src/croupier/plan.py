"""Plan: what every party agrees on, and what it is worth."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from croupier.arguments import fraction
from croupier.coins import SystemCoins
from croupier.documents import plan_document, plan_parts
from croupier.errors import DocumentError, RefusedError
from croupier.layouts import Layout
from croupier.model import canonical
from croupier.plan_defaults import (
    DEFAULT_OVERHEAD,
    first_size,
    honest_share,
    plan_layout,
    plan_schedule,
    policy_setting,
    require_budget,
    require_offered,
    unless_papers,
    uses_papers_layout,
)
from croupier.plan_promises import every_promise
from croupier.policies import registry as policy_registry
from croupier.policies.base import Policy
from croupier.policies.publication import EVERY, Publication
from croupier.policies.sampling import Sampling
from croupier.policies.ucb import Ucb
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee
from croupier.protocols import registry
from croupier.protocols.base import (
    Mechanism,
    Protocol,
    Release,
    ShuffleRelease,
    Terms,
    most_draws,
)
from croupier.schedules import FixedBatches, GrowingBatches, Schedule
from croupier.shuffler import Shapes, shapes_of


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
    publication: Publication = EVERY

    def __post_init__(self) -> None:
        """Refuse releases of other sizes than the schedule's: their noise would be another's.

        A tree may list every batch where others list those that differ.
        """
        made = tuple(release.users for release in self.mechanism.releases)
        wanted = self.schedule.sizes()
        every = len(made) == self.schedule.batches > len(wanted) > 1
        if made != (tuple(map(self.schedule.size, range(len(made)))) if every else wanted):
            raise ValueError(
                f"releases must have the users of the schedule's batches {wanted}, got {made}"
            )

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
        batches: str | None = None,
        policy: str | None = None,
        max_participations: int = 1,
        honest_fraction: float | None = None,
        feature_norm: float = 1.0,
        reward_range: tuple[float, float] = (0.0, 1.0),
        confidence: float | None = None,
        overhead: float = DEFAULT_OVERHEAD,
        strategy: str | None = None,
        levels: int | None = None,
        constant_feature: tuple[int, float] | None = None,
        publication: str | None = None,
        growth: float | None = None,
        outside: bool = False,
        drift: float = 0.0,
        blocks: int | None = None,
        **policy_options: Any,
    ) -> Plan:
        """The plan that the named calibration gives for this budget.

        Batches are ``growing`` and the policy is ``sampling`` unless named, for the paper's
        calibrations ``fixed`` and ``ucb``. ``batch_size`` and ``horizon`` may be left out for
        schedules that grow. ``max_participations`` is at most the number of batches.
        ``honest_fraction`` of every batch's users are relied on: 0.8 unless named where noise is
        certified, all for the paper's constants. ``confidence`` is the paper's alpha, 1/horizon
        unless given.
        ``overhead`` is how much more noise than the Gaussian floor may be added to send fewer
        bits. ``strategy`` chooses among the ways of the central model, ``levels`` is the height
        of a tree. ``constant_feature`` is the index and value of a feature that everybody has:
        whoever declares it gets less noise. ``publication`` and its ``growth`` say when a model is
        replaced.
        ``outside`` takes a theorem's formula beyond its range, which claims nothing. ``drift`` is
        how far preferences move per user and coordinate: what is old is forgotten, and batches
        that grow stop growing. ``blocks`` is the number of blocks of equally many features of which
        all but one are zero, as where every arm has parameters of its own; the index of
        ``constant_feature`` is then one within a block. Further options go to the policy.
        """
        kind = registry.find(protocol)
        if honest_fraction is None:
            honest_fraction = honest_share(kind, calibration)
        terms = Terms(
            calibration, max_participations, honest_fraction, outside, overhead, strategy, levels
        )
        require_offered(kind, terms)
        rule = policy_registry.find(policy or unless_papers(calibration, Ucb.name, Sampling.name))
        told = {"feature_norm": feature_norm, "reward_range": reward_range}
        kept = uses_papers_layout(calibration, rule)
        layout = plan_layout(kept, {"dim": dim, "constant": constant_feature, **told}, blocks)
        budget = None if kind.trust == "none" else require_budget(epsilon, delta, protocol)
        named = batches or unless_papers(calibration, FixedBatches.name, GrowingBatches.name)
        first = first_size(batch_size, named, layout, budget, horizon)
        sizes = plan_schedule(named, first, horizon, layout, budget, drift)
        present = min(terms.max_participations, sizes.batches)
        terms = replace(terms, max_participations=present)
        made = kind.calibrate(budget, layout, sizes, terms)
        mechanism = replace(made, honest_fraction=honest_fraction)
        if drift:
            policy_options["drift"] = drift
        setting = policy_setting(mechanism, terms, budget, confidence)
        chosen = rule.calibrate(setting, **policy_options)
        when = Publication(publication or kind.publication, growth)
        return cls(mechanism, chosen, terms, budget, when)

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

    @property
    def report_weight(self) -> float:
        """Honest reports that one hostile report can weigh in the worst batch; infinite if any."""
        return max(release.report_weight for release in self.mechanism.releases)

    def shapes(self, index: int) -> Shapes:
        """What a report of batch ``index`` looks like, whatever the data: that of phi = 0."""
        release = self.release(index)
        if not isinstance(release, ShuffleRelease):
            raise RefusedError(f"{self.protocol} is a baseline and has no reports")
        return shapes_of(release.randomize(np.zeros(self.layout.size), SystemCoins()))

    def closing(self, index: int) -> frozenset[str] | None:
        """Channels that are released when batch ``index`` is complete; None for all of them."""
        return self.mechanism.closing(index) if isinstance(self.mechanism, Protocol) else None

    def guarantees(self) -> dict[str, Guarantee]:
        """Against the analyzer (shuffle), other users (joint), shuffler and network (local)."""
        return every_promise(self.mechanism, self.participations, self.draws)

    def with_honest(self, share: float) -> Guarantee:
        """What the promise becomes where only this share of a batch's users are honest."""
        mechanism = replace(self.mechanism, honest_fraction=fraction("share", share))
        return replace(self, mechanism=mechanism).promise

    @property
    def draws(self) -> int:
        """Reports that one device ever makes, whether they are taken or not."""
        return most_draws(self.participations) if self.deployable else self.participations

    @property
    def participations(self) -> int:
        """Batches that one user may be in: what is allowed, and no more than there are."""
        return min(self.terms.max_participations, self.schedule.batches)

    @property
    def promise(self) -> Guarantee:
        """The guarantee that the budget is about: the one of the mechanism's trust model."""
        return self.promise_for(self.participations)

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
        setting = policy_setting(mechanism, self.terms, self.budget, self.policy.confidence)
        policy = type(self.policy).calibrate(setting, **self.policy.options)
        return replace(self, mechanism=mechanism, policy=policy)

    def to_json(self) -> str:
        """A document that ``from_json`` reads back bit for bit."""
        return json.dumps(plan_document(self), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan; a document whose id does not fit its content is refused."""
        parts, claimed = plan_parts(text)
        try:
            plan = cls(*parts)
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
            "layout": layout.content,
            "horizon": sizes.horizon,
            "budget": self.budget and vars(self.budget),
            "schedule": {
                "name": sizes.name,
                "first": sizes.first,
                "exponent": sizes.exponent,
                "most": sizes.largest,
            },
            "releases": [
                {"users": release.users, "parameters": release.parameters}
                for release in self.mechanism.releases
            ],
            "max_participations": terms.max_participations,
            "honest_fraction": terms.honest_fraction,
            "outside": terms.outside,
            "overhead": terms.overhead,
            "strategy": terms.strategy,
            "levels": terms.levels,
            "publication": vars(self.publication),
        }

    @cached_property
    def id(self) -> str:
        """A stable name: 32 hex digits of the SHA-256 of the content."""
        return hashlib.sha256(canonical(self.content)).hexdigest()[:32]
