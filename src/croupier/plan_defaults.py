"""What ``Plan.calibrate`` fills in: layout, batches, honest users and the policy's setting."""

from __future__ import annotations

from typing import Any

from croupier.arguments import fraction
from croupier.errors import GuaranteeError
from croupier.layouts import Blocks, Layout, LightOffset, PapersLayout
from croupier.policies.base import Policy, Setting
from croupier.policies.ucb import Ucb
from croupier.privacy.budget import Budget
from croupier.privacy.gdp import mu_of
from croupier.protocols.base import Mechanism, Terms
from croupier.schedules import (
    CappedBatches,
    FixedBatches,
    GrowingBatches,
    Schedule,
    drift_most,
    growing_first,
    schedule,
)
from croupier.theory.constants import composed_budget

PAPERS = ("theorem", "released")
"""Calibrations whose noise is stated for the paper's own layout."""

DEFAULT_OVERHEAD = 0.05

DEFAULT_HONEST = 0.8
"""Of a batch's users, unless named: others may drop out or work together against a user."""


def honest_share(kind: type[Mechanism], calibration: str) -> float:
    """The share of honest users that is relied on unless one is named."""
    crowd = kind.trust == "shuffle" and calibration not in PAPERS
    return DEFAULT_HONEST if crowd else 1.0


def uses_papers_layout(calibration: str, policy: type[Policy]) -> bool:
    """Its constants are stated for it, and so is the radius of ``ucb``."""
    return calibration in PAPERS or policy is Ucb


def plan_layout(kept: bool, told: dict[str, Any], blocks: int | None) -> Layout:
    """The paper's where it is kept, else one with an offset, or with one a block."""
    if blocks is None:
        return PapersLayout(**told) if kept else LightOffset(**told)
    if kept:
        raise ValueError(f"blocks must be left out for the paper's layout, got {blocks!r}")
    return Blocks(**told, blocks=blocks)


def first_size(
    given: int | None, batches: str, layout: Layout, budget: Budget | None, horizon: int | None
) -> int:
    """The first batch: as asked for, or sized to the noise where batches grow (MATH 6.5)."""
    if given is not None:
        return given
    if batches == FixedBatches.name:
        raise ValueError("batch_size must be given for fixed batches, got None")
    std = batch_std(layout, budget)
    return growing_first(layout.free, layout.norm, std, layout.length, horizon, layout.blocks)


def batch_std(layout: Layout, budget: Budget | None) -> float:
    """Noise on the sum of a batch whose users are in no other; none without a budget."""
    if budget is None:
        return 0.0
    return (1 + DEFAULT_OVERHEAD) * layout.sensitivity / mu_of(budget.epsilon, budget.delta)


def plan_schedule(
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
    std, moved = batch_std(layout, budget), fraction("drift", drift)
    free = layout.blocks * layout.free
    most = drift_most(free, layout.norm, std, layout.length, moved)
    return schedule(CappedBatches.name, first, horizon, max(first, most))


def unless_papers(calibration: str, papers: str, ours: str) -> str:
    """The paper's constants are stated for Algorithm 1 with fixed batches."""
    return papers if calibration in PAPERS else ours


def require_offered(kind: type[Mechanism], terms: Terms) -> None:
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


def require_budget(epsilon: float | None, delta: float | None, protocol: str) -> Budget:
    """The budget, or an error where half of it was left out."""
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is None:
            raise ValueError(f"{name} must be given for {protocol}, got None")
    return Budget(epsilon, delta)  # type: ignore[arg-type]


def policy_setting(
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
