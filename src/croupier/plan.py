"""Plan: what every party agrees on, and what it is worth."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from croupier.arguments import fraction
from croupier.coins import SystemCoins
from croupier.documents import plan_document, plan_parts
from croupier.errors import DocumentError, GuaranteeError, RefusedError
from croupier.layouts import Blocks, Layout, LightOffset, PapersLayout
from croupier.model import canonical
from croupier.policies import registry as policy_registry
from croupier.policies.base import Policy, Setting
from croupier.policies.publication import EVERY, Publication
from croupier.policies.sampling import Sampling
from croupier.policies.ucb import Ucb
from croupier.privacy.budget import Budget
from croupier.privacy.composition import composed_epsilon
from croupier.privacy.gdp import mu_of
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
from croupier.schedules import (
    CappedBatches,
    FixedBatches,
    GrowingBatches,
    Schedule,
    drift_most,
    growing_first,
    schedule,
)
from croupier.shuffler import Shapes, shapes_of
from croupier.theory.constants import composed_budget

PAPERS = ("theorem", "released")
"""Calibrations whose noise is stated for the paper's own layout."""

DEFAULT_OVERHEAD = 0.05

DEFAULT_HONEST = 0.8
"""Of a batch's users, unless named: others may drop out or work together against a user."""

CLIPPED = "the device clips features and rewards to their declared bounds"
COMPLETE = "batches are released complete, by a shuffler that does not collude with the analyzer"
ONE_ACCOUNT = "one account is one user"
SWAPPED_ONCE = "a user is in at most {} of the batches, at most once in each"
HONEST = "{} users of every batch are honest and keep their coins to themselves"
COALITION = (
    "of the other users of a batch at most {} pool what they know, their coins included; "
    "against all of them together only local is left"
)
DRAWN = "a device makes no more than {} reports, those for batches that closed before included"

AGAINST = {
    "shuffle": "the analyzer and everybody after it",
    "joint": "a coalition of other users",
    "local": "the shuffler and the network, from all reports of a device",
}
"""Whom each guarantee is against."""


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
            honest_fraction = _honest(kind, calibration)
        terms = Terms(
            calibration, max_participations, honest_fraction, outside, overhead, strategy, levels
        )
        _offered(kind, terms)
        rule = policy_registry.find(policy or _default(calibration, Ucb.name, Sampling.name))
        kept = calibration in PAPERS or rule is Ucb
        told = {"feature_norm": feature_norm, "reward_range": reward_range}
        layout = _layout(kept, {"dim": dim, "constant": constant_feature, **told}, blocks)
        budget = None if kind.trust == "none" else _budget(epsilon, delta, protocol)
        named = batches or _default(calibration, FixedBatches.name, GrowingBatches.name)
        first = _first_size(batch_size, named, layout, budget, horizon)
        sizes = _schedule(named, first, horizon, layout, budget, drift)
        present = min(terms.max_participations, sizes.batches)
        terms = replace(terms, max_participations=present)
        made = kind.calibrate(budget, layout, sizes, terms)
        mechanism = replace(made, honest_fraction=honest_fraction)
        if drift:
            policy_options["drift"] = drift
        chosen = rule.calibrate(_setting(mechanism, terms, budget, confidence), **policy_options)
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
        present, draws = self.participations, self.draws
        users = (CLIPPED, ONE_ACCOUNT)
        once = (*users, SWAPPED_ONCE.format(present))
        crowd, coalition = self._crowd()
        return {
            "shuffle": self.promise_of("shuffle", present).assuming(*once, *crowd, COMPLETE),
            "joint": self.promise_of("joint", present).assuming(*once, *coalition),
            "local": self.promise_of("local", draws).assuming(*users, DRAWN.format(draws)),
        }

    def promise_of(self, name: str, reports: int) -> Guarantee:
        """One of the guarantees, for a user in so many batches or with so many reports."""
        kinds = {
            "shuffle": self.mechanism.guarantee,
            "joint": self.mechanism.joint_guarantee,
            "local": self.mechanism.local_guarantee,
        }
        return kinds[name](reports)

    def _crowd(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Who must be honest, where users hide in a crowd: against the analyzer, and others."""
        if self.mechanism.trust != "shuffle":
            return (), ()
        share = self.mechanism.honest_fraction
        most = "one" if share == 1 else f"{_percent(1 - share)}, or one,"
        honest = HONEST.format("all" if share == 1 else f"at least {_percent(share)} of the")
        return (honest,), (COALITION.format(most),)

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


def composed_epsilons(plans: Sequence[Plan], delta: float) -> dict[str, float]:
    """The epsilon of every guarantee where the same people may take part in all of the plans."""
    every = [plan.guarantees() for plan in plans]
    return {name: composed_epsilon([one[name] for one in every], delta) for name in AGAINST}


def _honest(kind: type[Mechanism], calibration: str) -> float:
    """The share of honest users that is relied on unless one is named."""
    crowd = kind.trust == "shuffle" and calibration not in PAPERS
    return DEFAULT_HONEST if crowd else 1.0


def _layout(kept: bool, told: dict[str, Any], blocks: int | None) -> Layout:
    """The paper's where it is kept, else one with an offset, or with one a block."""
    if blocks is None:
        return PapersLayout(**told) if kept else LightOffset(**told)
    if kept:
        raise ValueError(f"blocks must be left out for the paper's layout, got {blocks!r}")
    return Blocks(**told, blocks=blocks)


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def _first_size(
    given: int | None, batches: str, layout: Layout, budget: Budget | None, horizon: int | None
) -> int:
    """The first batch: as asked for, or sized to the noise where batches grow (MATH 6.5)."""
    if given is not None:
        return given
    if batches == FixedBatches.name:
        raise ValueError("batch_size must be given for fixed batches, got None")
    std = _batch_std(layout, budget)
    return growing_first(layout.free, layout.norm, std, layout.length, horizon, layout.blocks)


def _batch_std(layout: Layout, budget: Budget | None) -> float:
    """Noise on the sum of a batch whose users are in no other; none without a budget."""
    if budget is None:
        return 0.0
    return (1 + DEFAULT_OVERHEAD) * layout.sensitivity / mu_of(budget.epsilon, budget.delta)


def _schedule(
    named: str,
    first: int,
    horizon: int | None,
    layout: Layout,
    budget: Budget | None,
    drift: float,
) -> Schedule:
    """The batches; those that grow stop growing where preferences drift."""
    if not drift or named != GrowingBatches.name:
        return schedule(named, first, horizon)
    std, moved = _batch_std(layout, budget), fraction("drift", drift)
    free = layout.blocks * layout.free
    most = drift_most(free, layout.norm, std, layout.length, moved)
    return schedule(CappedBatches.name, first, horizon, max(first, most))


def _default(calibration: str, papers: str, ours: str) -> str:
    """The paper's constants are stated for Algorithm 1 with fixed batches."""
    return papers if calibration in PAPERS else ours


def _offered(kind: type[Mechanism], terms: Terms) -> None:
    """Refuse a calibration that the mechanism does not have."""
    if terms.calibration not in kind.calibrations:
        known = ", ".join(kind.calibrations)
        raise GuaranteeError(
            f"calibration {terms.calibration!r} is not offered by {kind.name}; it offers: {known}"
        )
    if terms.levels is not None and not kind.takes_levels:
        raise ValueError(f"levels are those of a tree, {kind.name} has none, got {terms.levels!r}")
    if terms.calibration in PAPERS and terms.honest_fraction != 1:
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
