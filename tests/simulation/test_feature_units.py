"""The same problem in other units is the same problem: features are divided by their norm.

Not for ``ucb``, whose radius is stated for features as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.plan import Plan
from croupier.simulation.engine import run
from croupier.simulation.synthetic import Sphere

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ScaledSphere(Sphere):
    """``sphere`` with features of another norm and a parameter to match."""

    feature_norm: float = 1.0  # type: ignore[misc]

    def parameter(self, rng: np.random.Generator) -> Floats:
        return super().parameter(rng) / self.feature_norm

    def features(self, rng: np.random.Generator, count: int) -> Floats:
        return super().features(rng, count) * self.feature_norm


def regret(norm: float, policy: str, *, oracle: bool) -> Floats:
    plan = Plan.calibrate(
        "vector-sum", dim=4, horizon=5000, epsilon=2.0, delta=1e-4, policy=policy,
        feature_norm=norm, batch_size=200,
    )  # fmt: skip
    problem = ScaledSphere(4, 20, feature_norm=norm)
    return run(plan, problem, 7, range(3), points=5, oracle=oracle).regret


@pytest.mark.parametrize("policy", ["sampling", "randucb", "thompson"])
@pytest.mark.parametrize("oracle", [False, True], ids=["kernels", "oracle"])
def test_regret_does_not_depend_on_the_units_of_features(policy: str, oracle: bool) -> None:
    """With units left as they are it was four and nine times as much at norm 10 and 0.1."""
    base = regret(1.0, policy, oracle=oracle)
    for exact in (0.125, 8.0):
        assert np.array_equal(regret(exact, policy, oracle=oracle), base)
    for other in (0.1, 10.0):
        found = regret(other, policy, oracle=oracle)
        assert found[:, -1].mean() == pytest.approx(base[:, -1].mean(), rel=0.01)
    assert base[:, -1].mean() < 300
