"""``randucb``: one random width for all arms, for users with action sets of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from croupier.model import Model
from croupier.policies.base import Floats
from croupier.policies.bayesian import BayesianPolicy
from croupier.policies.ucb import means_and_widths


@dataclass(frozen=True)
class RandUcb(BayesianPolicy):
    """z.theta + |n| sqrt(z'Cz) with one n ~ N(0, 1) per device.

    Where all users share one action set it explores too little.
    """

    name: ClassVar[str] = "randucb"

    def draws(self, features: int) -> int:
        """One for all arms."""
        return 1

    def scores(self, model: Model, features: Floats, draws: Floats) -> tuple[Floats, Floats]:
        """Optimistic scores and the widths that they add."""
        means, deviations = means_and_widths(model, features)
        widths = model.scale * np.abs(draws) * deviations
        return means + widths, widths
