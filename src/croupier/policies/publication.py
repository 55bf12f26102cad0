"""Publication rules: when a model learnt from a new batch replaces the published one.

A rule reads published numbers only, so it costs no privacy. Batches close as they always do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import finite
from croupier.errors import UnknownNameError
from croupier.layouts import Layout
from croupier.model import Model
from croupier.policies.base import Policy
from croupier.policies.ucb import Ucb
from croupier.schedules import Schedule
from croupier.theory.publications import most_publications

Due = NDArray[np.bool_]
Floats = NDArray[np.float64]

ROUNDED_UP = 1 + 1e-9

MOST_LOG = 700.0
"""Below the overflow of exp."""


@dataclass(frozen=True)
class Publication:
    """A named rule; ``growth`` is how much more must be known before a model is replaced.

    ``every`` has none. ``rare`` is MATH 6.2: the largest factor C by which a squared width may
    be too wide. ``determinant`` counts the volume of the ellipsoid (Garcelon et al. 2021).
    """

    name: str = "every"
    growth: float | None = None

    def __post_init__(self) -> None:
        """Refuse a rule that nobody knows, and fill in its usual growth."""
        if self.name not in RULES:
            raise UnknownNameError("publication rule", self.name, RULES)
        object.__setattr__(self, "growth", RULES[self.name].checked(self.name, self.growth))

    def due(self, published: Model, fresh: Model) -> Due:
        """Whether ``fresh`` replaces ``published``, for every leading axis of the models."""
        rule = RULES[self.name]
        if rule.grown is None or self.growth is None:
            return np.ones(fresh.theta.shape[:-1], dtype=np.bool_)
        return np.asarray(rule.grown(published, fresh) > self.growth)

    def most(self, policy: Policy, layout: Layout, sizes: Schedule) -> int | None:
        """How many models can follow the first one, None where nothing is proved.

        For ``rare`` it holds while noise keeps to the bound that ``ucb`` is sized to.
        """
        if self.name == "every":
            return sizes.batches
        if self.name != "rare" or self.growth is None or not isinstance(policy, Ucb):
            return None
        if policy.growing or policy.regularizer < 2 * policy.noise_bound:
            return None
        noise, weight = policy.noise_bound, policy.regularizer
        bound = most_publications(layout.dim, sizes.rounds, noise, self.growth, weight, layout.norm)
        return min(sizes.batches, math.floor(bound * ROUNDED_UP))


@dataclass(frozen=True)
class Rule:
    """``grown`` says how much more a fresh model knows; above ``least`` must the threshold be."""

    grown: Callable[[Model, Model], Floats] | None = None
    least: float = 0.0
    usual: float | None = None

    def checked(self, name: str, growth: float | None) -> float | None:
        """The threshold to use, or an error where the rule has none or is never sure to rest."""
        if growth is None:
            return self.usual
        if self.grown is None:
            raise ValueError(f"growth must be None for publication {name!r}, got {growth!r}")
        if finite("growth", growth) <= self.least:
            raise ValueError(
                f"growth must be above {self.least:g} for publication {name!r}, got {growth!r}"
            )
        return float(growth)


def widening(published: Model, fresh: Model) -> Floats:
    """lambda_max(V_tau^-1/2 V_t V_tau^-1/2) for every leading axis.

    It is also the largest ratio of squared widths x'V_tau^-1 x / x'V_t^-1 x over all x.
    """
    root = np.linalg.cholesky(fresh.matrix)
    half = np.linalg.solve(root, published.matrix)
    ratios = np.linalg.solve(root, np.swapaxes(half, -1, -2))
    return np.asarray(np.linalg.eigvalsh(ratios)[..., -1])


def volume(published: Model, fresh: Model) -> Floats:
    """det V_t / det V_tau for every leading axis."""
    before, after = (np.linalg.slogdet(model.matrix).logabsdet for model in (published, fresh))
    return np.asarray(np.exp(np.minimum(before - after, MOST_LOG)))


RULES = {
    "every": Rule(),
    "rare": Rule(widening, least=3.0, usual=4.0),
    "determinant": Rule(volume, least=1.0, usual=1.5),
}

EVERY = Publication()
