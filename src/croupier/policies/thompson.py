"""``thompson``: Thompson sampling, for common arms, private contexts and long horizons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croupier.model import Model
from croupier.policies.base import Floats
from croupier.policies.bayesian import BayesianPolicy, drawn_scores


@dataclass(frozen=True)
class Thompson(BayesianPolicy):
    """The best of z.(theta + C^(1/2) n): more exploration, and fewer runs that are stuck."""

    name: ClassVar[str] = "thompson"

    def draws(self, features: int) -> int:
        """One a feature."""
        return features

    def scores(self, model: Model, features: Floats, draws: Floats) -> tuple[Floats, Floats]:
        """Means under the draw, and what it adds to them."""
        means, widths = drawn_scores(model, features, draws)
        return means + widths, widths
