"""A plan refuses what it cannot keep, and says what it is worth."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from croupier.errors import GuaranteeError, UnknownNameError
from croupier.layouts import PapersLayout
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.schedules import FixedBatches

GOOD: dict[str, Any] = {
    "protocol": "vector-sum",
    "dim": 5,
    "batch_size": 20,
    "horizon": 1000,
    "epsilon": 1.0,
    "delta": 0.1,
    "calibration": "released",
}


def plan(**changes: Any) -> Plan:
    return Plan.calibrate(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 0}, r"dim must be a whole number of at least 1, got 0"),
        ({"dim": 2.5}, r"dim must be a whole number of at least 1, got 2.5"),
        ({"batch_size": 0}, r"batch_size must be a whole number of at least 1, got 0"),
        ({"batch_size": 1001}, r"batch_size must be at most the horizon 1000, got 1001"),
        ({"horizon": 0}, r"horizon must be a whole number of at least 1, got 0"),
        ({"epsilon": 0.0}, r"epsilon must be above 0, got 0.0"),
        ({"epsilon": -1.0}, r"epsilon must be above 0, got -1.0"),
        ({"epsilon": math.nan}, r"epsilon must be a finite number, got nan"),
        ({"epsilon": math.inf}, r"epsilon must be a finite number, got inf"),
        ({"epsilon": None}, r"epsilon must be given for vector-sum, got None"),
        ({"delta": 0.0}, r"delta must be above 0, got 0.0"),
        ({"delta": 1.0}, r"delta must be below 1, got 1.0"),
        ({"delta": math.nan}, r"delta must be a finite number, got nan"),
        ({"delta": None}, r"delta must be given for vector-sum, got None"),
        (
            {"max_participations": 0},
            r"max_participations must be a whole number of at least 1, got 0",
        ),
        ({"honest_fraction": 0.0}, r"honest_fraction must be above 0, got 0.0"),
        ({"honest_fraction": 1.5}, r"honest_fraction must be at most 1, got 1.5"),
        ({"feature_norm": 0.0}, r"feature_norm must be above 0, got 0.0"),
        ({"reward_range": (1.0, 0.0)}, r"reward_range must rise, got \(1.0, 0.0\)"),
        ({"confidence": 0.0}, r"confidence must be above 0, got 0.0"),
        ({"confidence": -0.5}, r"confidence must be above 0, got -0.5"),
        ({"confidence": 2.0}, r"confidence must be at most 1, got 2.0"),
        ({"confidence": math.nan}, r"confidence must be a finite number, got nan"),
        ({"exploration": -1.0}, r"exploration must be above 0, got -1.0"),
        ({"colour": "red"}, r"policy ucb has no option 'colour'"),
    ],
)
def test_a_bad_argument_is_refused_by_name_and_value(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"protocol": "vector-summ"}, r"unknown protocol 'vector-summ'; known: .*vector-sum"),
        ({"policy": "greedy"}, r"unknown policy 'greedy'; known: .*ucb"),
        ({"batches": "shrinking"}, r"unknown batch schedule 'shrinking'; known: .*fixed"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UnknownNameError, match=message):
        plan(**changes)


def test_a_calibration_that_is_not_offered_is_refused_with_those_that_are() -> None:
    with pytest.raises(GuaranteeError, match=r"'guessed' is not offered by vector-sum.*theorem"):
        plan(calibration="guessed")


@pytest.mark.parametrize("calibration", ["theorem", "released"])
def test_the_papers_noise_is_not_stretched_to_dishonest_users(calibration: str) -> None:
    with pytest.raises(GuaranteeError, match=r"honest_fraction must be 1, got 0.5"):
        plan(calibration=calibration, honest_fraction=0.5)


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({"protocol": "vector-sum", "epsilon": 15.5}, r"15.5 > 15"),
        ({"protocol": "vector-sum", "delta": 0.5}, r"delta < 1/2, but 0.5 >= 0.5"),
        ({"protocol": "vector-sum", "max_participations": 2}, r"epsilon < 1, but 1 >= 1"),
        ({"protocol": "local", "epsilon": 1.25}, r"1.25 > 1"),
        ({"protocol": "central", "epsilon": 1.25}, r"1.25 > 1"),
        ({"protocol": "amplified-gaussian"}, rf"1 > {math.sqrt(math.log(20) / 20):.6g}"),
    ],
)
def test_a_budget_outside_the_theorem_is_refused_with_both_numbers(
    changes: dict[str, Any], numbers: str
) -> None:
    with pytest.raises(GuaranteeError, match=numbers):
        plan(calibration="theorem", **changes)


def test_a_formula_outside_its_theorem_can_be_asked_for_and_claims_nothing() -> None:
    made = plan(protocol="amplified-gaussian", calibration="theorem", outside=True)
    assert made.terms.outside
    assert made.promise.epsilon(0.1) == pytest.approx(made.guarantees()["shuffle"].epsilon(0.1))


def test_no_budget_is_taken_where_nothing_is_private() -> None:
    made = plan(protocol="noiseless", epsilon=None, delta=None)
    assert made.budget is None
    assert made.met
    assert math.isinf(made.guarantees()["shuffle"].epsilon(0.1))


def test_the_papers_calibrations_use_the_papers_layout_and_schedule() -> None:
    made = plan(reward_range=(-1.0, 3.0))
    assert made.layout == PapersLayout(5, reward_range=(-1.0, 3.0))
    assert made.schedule == FixedBatches(20, 1000)
    assert made.budget == Budget(1.0, 0.1)
    assert [made.users(index) for index in (0, 3, 49)] == [20, 20, 20]


def test_confidence_is_one_over_the_horizon_unless_given() -> None:
    assert plan().policy.confidence == 1 / 1000
    assert plan(confidence=0.05).policy.confidence == 0.05


def test_only_protocols_can_be_deployed() -> None:
    kinds = {name: plan(protocol=name).deployable for name in ("local", "central", "linucb")}
    assert not any(kinds.values())
    assert plan().deployable
    assert plan(protocol="amplified-gaussian").deployable


def test_every_guarantee_names_what_it_assumes() -> None:
    for name, guarantee in plan(protocol="local", max_participations=3).guarantees().items():
        assert any("clips" in text for text in guarantee.assumptions), name
        if name != "local":
            assert any("at most 3 " in text for text in guarantee.assumptions), name


def test_the_local_promise_gets_weaker_with_every_participation() -> None:
    once = plan(protocol="local")
    twice = replace(once, terms=replace(once.terms, max_participations=2))
    first, second = once.promise.mu, twice.promise.mu
    assert first is not None
    assert second == pytest.approx(math.sqrt(2) * first)
    assert twice.guarantees()["local"].mu == second
    assert twice.mechanism.local_guarantee(1).mu == first


def test_the_central_promise_is_the_joint_one() -> None:
    made = plan(protocol="central", calibration="theorem")
    assert made.promise.proved
    assert made.met
    assert not made.guarantees()["shuffle"].proved


@pytest.mark.parametrize("protocol", ["local", "central", "vector-sum", "linucb"])
def test_another_feature_norm_keeps_the_noise_and_recomputes_the_rest(protocol: str) -> None:
    norm = math.sqrt(2)
    before = plan(protocol=protocol, exploration=0.5)
    after = before.with_feature_norm(norm)
    assert after.release(0).parameters == before.release(0).parameters
    assert after.layout == replace(before.layout, feature_norm=norm)
    assert after.policy == plan(protocol=protocol, exploration=0.5, feature_norm=norm).policy
    assert after.id != before.id
    stated, louder = before.promise.mu, after.promise.mu
    if stated is not None:
        # Exact for Gaussian noise; the certificate for bits bends a little.
        slack = 0.01 if protocol == "vector-sum" else 1e-6
        assert louder == pytest.approx(stated * math.sqrt(12.5 / 4.5), rel=slack)


def test_another_feature_norm_keeps_what_the_policy_was_asked_for() -> None:
    before = plan(
        protocol="vector-sum", calibration="theorem", regularizer="growing", confidence=0.03
    )
    after = before.with_feature_norm(1.5)
    assert after.policy.options == {"regularizer": "growing", "exploration": 1.0}
    assert after.policy.confidence == 0.03
    assert before.with_feature_norm(1.0) is before
