"""``sampling``: optimistic Thompson sampling, the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from croupier.model import Model
from croupier.policies.base import Floats
from croupier.policies.bayesian import BayesianPolicy, drawn_scores


@dataclass(frozen=True)
class Sampling(BayesianPolicy):
    """The best of max(z.theta, z.(theta + 0.7 C^(1/2) n)): a draw may only flatter an arm."""

    name: ClassVar[str] = "sampling"
    usual_spread: ClassVar[float] = 0.7

    def draws(self, features: int) -> int:
        """One a feature."""
        return features

    def scores(self, model: Model, features: Floats, draws: Floats) -> tuple[Floats, Floats]:
        """Means, and what the draw adds where it adds."""
        means, added = drawn_scores(model, features, draws)
        widths = np.maximum(added, 0.0)
        return means + widths, widths
