"""Which plans kernels can play."""

from __future__ import annotations

import numpy as np

from croupier.plan import Plan
from croupier.policies.base import Policy
from croupier.policies.randucb import RandUcb
from croupier.policies.sampling import Sampling
from croupier.policies.thompson import Thompson
from croupier.policies.ucb import Ucb
from croupier.protocols.base import Mechanism, Release, RunningSum
from croupier.simulation.kernels.arrays import (
    DETERMINANT,
    EVERY,
    OPTIMIST,
    RARE,
    SAMPLER,
    THOMPSON,
    WIDENER,
)

KINDS: dict[type[Policy], int] = {
    Ucb: OPTIMIST,
    Sampling: SAMPLER,
    RandUcb: WIDENER,
    Thompson: THOMPSON,
}
ROOTED = {Sampling, Thompson}
"""They draw theta, for which devices need the covariance's root."""

RULES = {"every": EVERY, "rare": RARE, "determinant": DETERMINANT}


def draws_of(kind: int, features: int) -> int:
    """Normal numbers of one choice."""
    return {OPTIMIST: 0, WIDENER: 1}.get(kind, features)


def supports(plan: Plan) -> bool:
    """Whether kernels can play the plan: its policy, its publication and how it adds noise."""
    known = type(plan.policy) in KINDS and plan.publication.name in RULES
    return known and _noise_can_be_drawn_ahead(plan.mechanism)


def _noise_can_be_drawn_ahead(mechanism: Mechanism) -> bool:
    """A subclass that changes a law but not its shortcut must not be played by the shortcut."""
    rng = np.random.default_rng(0)
    running = type(mechanism.running_sum(rng))
    releases = {type(release) for release in mechanism.releases}
    return (
        _author(type(mechanism), "completed") is _author(type(mechanism), "collector")
        and _said_with(running, RunningSum, "ahead", "part")
        and all(_said_with(kind, Release, "noise_ahead", "sample_sum") for kind in releases)
        and all(release.noise_ahead(0, rng) is not None for release in mechanism.releases)
    )


def _said_with(kind: type, seam: type, shortcut: str, law: str) -> bool:
    """Whether the class that says a law says its shortcut too."""
    return vars(seam)[shortcut] is not getattr(kind, shortcut) and _author(
        kind, shortcut
    ) is _author(kind, law)


def _author(kind: type, name: str) -> type:
    return next(one for one in kind.__mro__ if name in vars(one))
