"""A plan as a JSON document, and the parts of a plan from one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from croupier.errors import CroupierError, DocumentError, GuaranteeError, UnknownNameError
from croupier.layouts import LAYOUTS, Layout
from croupier.model import load_document
from croupier.policies import registry as policy_registry
from croupier.policies.base import Policy
from croupier.policies.publication import Publication
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee
from croupier.protocols import registry
from croupier.protocols.base import Mechanism, Release, Terms
from croupier.schedules import Schedule, schedule

if TYPE_CHECKING:
    from croupier.plan import Plan

Parts = tuple[Mechanism, Policy, Terms, Budget | None, Publication]

SHOWN_RELEASES = 64


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan with everything that follows from it, for people and programs."""
    first = plan.release(0)
    shown = [_release_document(release) for release in plan.mechanism.releases[:SHOWN_RELEASES]]
    delta = plan.budget.delta if plan.budget else None
    return {
        "kind": "plan",
        "id": plan.id,
        **plan.content,
        "releases": shown,
        "batches": plan.schedule.batches,
        "unreleased_rounds": plan.schedule.unreleased,
        "most_publications": plan.publication.most(plan.policy, plan.layout, plan.schedule),
        "parameters": first.parameters,
        "before_ceilings": plan.mechanism.formula(plan.budget, plan.terms),
        "noise_std": first.noise_std,
        "privacy_noise_std": first.privacy_noise_std,
        "noise_floor_std": plan.noise_floor,
        "report_bits": first.report_bits,
        "guarantees": {
            name: guarantee_document(guarantee, delta)
            for name, guarantee in plan.guarantees().items()
        },
        "fewer_honest": fewer_honest(plan),
    }


FEWER = (0.9, 0.8, 0.6, 0.4, 0.2, 0.1)
"""Shares of honest users for which people are told what is left."""


def fewer_honest(plan: Plan) -> list[dict[str, Any]]:
    """The epsilon at the budget's delta where fewer users are honest than the plan relies on."""
    if plan.mechanism.trust != "shuffle" or plan.budget is None or not plan.promise.proved:
        return []
    delta = plan.budget.delta
    shares = [share for share in FEWER if share < plan.mechanism.honest_fraction]
    found = [_epsilon_with(plan, share, delta) for share in shares]
    return [
        {"honest_fraction": share, "epsilon": finite_or_null(epsilon)}
        for share, epsilon in zip(shares, found, strict=True)
    ]


def _epsilon_with(plan: Plan, share: float, delta: float) -> float:
    """With that share of honest users; infinite where a batch has none left."""
    try:
        return plan.with_honest(share).epsilon(delta)
    except GuaranteeError:
        return math.inf


def guarantee_document(guarantee: Guarantee, delta: float | None) -> dict[str, Any]:
    """A guarantee at one delta; epsilon is null where nothing finite is proved."""
    epsilon = guarantee.epsilon(delta) if delta is not None else math.inf
    return {
        "epsilon": finite_or_null(epsilon),
        "delta": delta,
        "mu": finite_or_null(guarantee.mu if delta is None else guarantee.mu_at(delta)),
        "method": guarantee.method,
        "adjacency": guarantee.adjacency,
        "assumptions": list(guarantee.assumptions),
        "reason": guarantee.reason,
    }


def finite_or_null(value: float | None) -> float | None:
    """JSON has no infinity: null says that there is no number."""
    return value if value is not None and math.isfinite(value) else None


def plan_parts(text: str) -> tuple[Parts, str]:
    """What a plan is made of, and the id that the document claims.

    Guarantees in the document are ignored: they are computed again.
    """
    document = load_document(text, "plan")
    try:
        return _restore(document), document["id"]
    except CroupierError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DocumentError(f"not a plan: {error!r}") from error


def _restore(document: dict[str, Any]) -> Parts:
    layout = _layout(document["layout"])
    sizes = _schedule(document)
    made = [(release["users"], release["parameters"]) for release in document["releases"]]
    mechanism = registry.find(document["protocol"]).restore(
        layout, sizes, made, document["honest_fraction"]
    )
    terms = Terms(
        document["calibration"],
        document["max_participations"],
        document["honest_fraction"],
        document["outside"],
        document["overhead"],
        document["strategy"],
        document["levels"],
    )
    policy = policy_registry.find(document["policy"]).restore(document["policy_parameters"])
    budget = document["budget"] and Budget(**document["budget"])
    return mechanism, policy, terms, budget, Publication(**document["publication"])


def _layout(told: dict[str, Any]) -> Layout:
    """The layout of that name; everything in it that is not its own is refused."""
    own = dict(told)
    name, (low, high) = own.pop("name"), own.pop("reward_range")
    constant = own.pop("constant_feature")
    if name not in LAYOUTS:
        raise UnknownNameError("layout", name, LAYOUTS)
    if constant is not None:
        index, value = constant
        constant = (index, value)
    return LAYOUTS[name](reward_range=(low, high), constant=constant, **own)


def _schedule(document: dict[str, Any]) -> Schedule:
    """The schedule, whose exponent follows from its name and must not say otherwise."""
    told = document["schedule"]
    sizes = schedule(told["name"], told["first"], document["horizon"], told["most"])
    if told["exponent"] != sizes.exponent:
        raise DocumentError(
            f"schedule {sizes.name!r} has exponent {sizes.exponent}, "
            f"the document says {told['exponent']!r}"
        )
    return sizes


def _release_document(release: Release) -> dict[str, Any]:
    return {
        "users": release.users,
        "parameters": release.parameters,
        "noise_std": release.noise_std,
        "privacy_noise_std": release.privacy_noise_std,
        "report_bits": release.report_bits,
    }
