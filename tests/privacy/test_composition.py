"""Promises to the same people add up: squares of mu, or epsilons and deltas."""

from __future__ import annotations

import math

import pytest

from croupier.privacy import gdp
from croupier.privacy.composition import composed_epsilon
from croupier.privacy.guarantee import Guarantee, PureCurve, gaussian, unproved
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve


@pytest.mark.parametrize(("mu", "more", "delta"), [(0.3, 0.4, 1e-6), (2.0, 0.1, 1e-9)])
def test_gaussian_releases_of_the_same_data_add_up_by_their_squares(
    mu: float, more: float, delta: float
) -> None:
    exact = gdp.epsilon_of(math.hypot(mu, more), delta)
    found = composed_epsilon([gaussian(mu, "exact"), gaussian(more, "exact")], delta)
    assert exact <= found <= 1.001 * exact


def test_tails_of_certificates_are_paid_for() -> None:
    curve, delta, more = BinomialCurve(((CountRelease(5000, 0.5, 9.0, 4), 2),)), 1e-6, 0.2
    epsilon = composed_epsilon([Guarantee("counts", curve), gaussian(more, "exact")], delta)
    # Each of the two may spend a thousandth of half of delta on tails.
    tails = -math.expm1(curve.tails * math.log1p(-curve.tau(delta / 2)))
    both = math.hypot(curve.mu_at(delta / 2), more)
    assert tails + (1 - tails) * gdp.delta_of(both, epsilon) <= delta
    assert tails + (1 - tails) * gdp.delta_of(both, 0.99 * epsilon) > delta
    twice = composed_epsilon([Guarantee("counts", curve)] * 2, delta)
    together = BinomialCurve(((CountRelease(5000, 0.5, 9.0, 4), 4),))
    assert together.epsilon(delta) <= twice * (1 + 1e-3) <= 1.01 * together.epsilon(delta)


def test_other_curves_are_composed_plainly_and_nothing_stays_nothing() -> None:
    pure = Guarantee("pure", PureCurve(2.0))
    assert composed_epsilon([pure, pure, pure], 1e-6) == 6.0
    beside = composed_epsilon([pure, gaussian(0.5, "exact")], 1e-6)
    assert beside == 2.0 + composed_epsilon([gaussian(0.5, "exact")], 5e-7)
    few = Guarantee("counts", BinomialCurve(((CountRelease(4, 0.5, 9.0, 4), 1),)))
    assert composed_epsilon([few, gaussian(0.5, "exact")], 1e-6) == math.inf
    assert composed_epsilon([unproved("no noise"), pure], 1e-6) == math.inf
    with pytest.raises(ValueError, match="guarantees must not be empty"):
        composed_epsilon([], 1e-6)
