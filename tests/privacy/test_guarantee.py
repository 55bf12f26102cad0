from __future__ import annotations

import math

import pytest

from croupier.privacy import gdp
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import SWAP, GaussianCurve, Guarantee, PureCurve, gaussian, unproved


def randomised_response_delta(bound: float, epsilon: float) -> float:
    """The hockey-stick divergence of a coin of odds e^bound against its mirror image."""
    likely = math.exp(bound) / (1 + math.exp(bound))
    return max(0.0, likely - math.exp(epsilon) * (1 - likely))


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 1.999, 2.0, 5.0])
def test_pure_privacy_below_its_bound_is_randomised_response(epsilon: float) -> None:
    computed = PureCurve(2.0).delta(epsilon)
    assert math.isclose(computed, randomised_response_delta(2.0, epsilon), abs_tol=1e-15)


def test_pure_privacy_has_one_epsilon_and_no_mu() -> None:
    curve = PureCurve(2.0)
    assert curve.epsilon(1e-9) == curve.epsilon(0.5) == 2.0
    assert Guarantee("pure", curve).mu is None
    assert Guarantee("pure", curve).mu_at(0.1) is None


def test_a_gaussian_guarantee_answers_both_questions() -> None:
    promise = gaussian(0.5, "exact", "the server is trusted")
    assert promise.proved
    assert promise.mu == promise.mu_at(1e-12) == 0.5
    assert promise.curve == GaussianCurve(0.5)
    assert promise.epsilon(1e-5) == gdp.epsilon_of(0.5, 1e-5)
    assert promise.delta(1.0) == gdp.delta_of(0.5, 1.0)
    assert promise.adjacency == SWAP
    assert promise.assumptions == ("the server is trusted",)


def test_what_is_not_proved_promises_nothing_and_says_why() -> None:
    nothing = unproved("no noise is added")
    assert not nothing.proved
    assert nothing.mu is None
    assert nothing.mu_at(0.1) is None
    assert nothing.epsilon(0.99) == math.inf
    assert nothing.delta(1e9) == 1.0
    assert nothing.reason == "no noise is added"
    assert not nothing.meets(Budget(1e9, 0.999))


def test_a_budget_is_met_up_to_its_edge_and_not_beyond() -> None:
    mu = gdp.mu_of(1.0, 1e-5)
    assert gaussian(mu, "exact").meets(Budget(1.0, 1e-5))
    assert not gaussian(mu * (1 + 1e-6), "exact").meets(Budget(1.0, 1e-5))


def test_assumptions_are_added_to_a_copy() -> None:
    bare = gaussian(1.0, "exact", "first")
    more = bare.assuming("second", "third")
    assert bare.assumptions == ("first",)
    assert more.assumptions == ("first", "second", "third")
    assert isinstance(more, Guarantee)
    assert more.curve == bare.curve
