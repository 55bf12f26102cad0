"""``sampling``: optimistic Thompson sampling, the default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from croupier.model import Model
from croupier.policies.base import Floats
from croupier.policies.bayesian import BayesianPolicy, strayed


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
        columns = np.swapaxes(features, -1, -2)
        means = np.einsum("...dk,...d->...k", columns, model.theta)
        widths = np.einsum("...dk,...d->...k", columns, strayed(model, draws))
        widths = np.maximum(widths, 0.0)
        return means + widths, widths
