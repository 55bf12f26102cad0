"""A plan document is read back bit for bit, or refused; what follows from it is not believed."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.errors import CroupierError, DocumentError
from croupier.layouts import LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.policies.ucb import Ucb
from croupier.privacy.budget import Budget
from croupier.protocols.amplified_gaussian import AmplifiedGaussian, AmplifiedGaussianRelease
from croupier.protocols.base import Terms
from croupier.protocols.noiseless import Noiseless, NoiselessRelease
from croupier.schedules import FixedBatches

BUDGET = {"epsilon": 1.0, "delta": 0.1}
CASES: dict[str, dict[str, Any]] = {
    "noiseless": {},
    "vector-sum": BUDGET,
    "amplified-gaussian": BUDGET,
    "linucb": {},
    "local": BUDGET,
    "central": BUDGET,
}


def plan(protocol: str = "vector-sum", calibration: str = "released", **changes: Any) -> Plan:
    shared = {"dim": 4, "batch_size": 20, "horizon": 1010, **CASES[protocol]}
    return Plan.calibrate(protocol, calibration=calibration, **{**shared, **changes})


@pytest.mark.parametrize("calibration", ["theorem", "released"])
@pytest.mark.parametrize("protocol", CASES)
def test_a_plan_is_read_back_as_it_was(protocol: str, calibration: str) -> None:
    made = plan(protocol, calibration, outside=True, reward_range=(-1.0, 2.5), exploration=0.3)
    again = Plan.from_json(made.to_json())
    assert again == made
    assert again.id == made.id
    assert again.to_json() == made.to_json()
    assert again.guarantees() == made.guarantees()


sigmas = st.floats(min_value=5e-324, max_value=8e4, allow_subnormal=True)


@given(
    sigma=sigmas,
    epsilon=st.floats(1e-9, 1e9),
    norm=st.floats(1e-3, 1e3),
    value=st.floats(1e-6, 1 - 1e-6),
    low=st.floats(-1e300, 0.0),
)
def test_every_float_of_a_plan_survives_the_document(
    sigma: float, epsilon: float, norm: float, value: float, low: float
) -> None:
    made = plan("amplified-gaussian")
    layout = LightOffset(4, norm, (low, 1.0), constant=(2, -value * norm))
    releases = (AmplifiedGaussianRelease(layout, 20, sigma),)
    mechanism = AmplifiedGaussian(layout, made.schedule, releases)
    raw = replace(made, mechanism=mechanism, budget=Budget(epsilon, 1e-300))
    # Guarantees of such a plan may not be finite; only what makes the plan is written here.
    document = {"kind": "plan", "id": raw.id, **raw.content}
    again = Plan.from_json(json.dumps(document))
    assert again == raw
    assert math.copysign(1.0, again.layout.reward_range[0]) == math.copysign(1.0, low)


def test_the_id_of_a_plan_is_the_same_everywhere_and_always() -> None:
    layout, sizes = PapersLayout(2), FixedBatches(10, 100)
    mechanism = Noiseless(layout, sizes, (NoiselessRelease(layout, 10),))
    policy = Ucb(1.0, False, 2.5, 1.0, 0.125, 10, 1.0, 0.0, 2)
    assert Plan(mechanism, policy, Terms("theorem")).id == "3e15d4ae4ca9b396dc610a2ebaa3ea89"


INGREDIENTS: dict[str, Any] = {
    "protocol": "amplified-gaussian",
    "calibration": "theorem",
    "dim": 3,
    "batch_size": 10,
    "horizon": 1011,
    "epsilon": 1.0000000000000002,
    "delta": 0.2,
    "max_participations": 2,
    "feature_norm": 0.5,
    "reward_range": (0.0, 2.0),
    "confidence": 0.2,
    "outside": True,
    "exploration": 0.5,
}


def test_every_ingredient_changes_the_id() -> None:
    ids = {plan(**{name: value}).id for name, value in INGREDIENTS.items()}
    assert len(ids | {plan().id}) == len(INGREDIENTS) + 1


def test_the_honest_fraction_and_the_kind_of_regulariser_change_the_id() -> None:
    made = plan(calibration="theorem")
    doubted = replace(made, terms=replace(made.terms, honest_fraction=0.5))
    growing = plan(calibration="theorem", regularizer="growing")
    assert len({made.id, doubted.id, growing.id}) == 3


ALTERED: dict[tuple[str | int, ...], Any] = {
    ("id",): "0" * 32,
    ("protocol",): "noiseless",
    ("calibration",): "theorem",
    ("policy",): "greedy",
    ("policy_parameters", "regularizer"): 1.0,
    ("policy_parameters", "growing"): True,
    ("policy_parameters", "radius"): 0.1,
    ("policy_parameters", "exploration"): 2.0,
    ("policy_parameters", "confidence"): 0.5,
    ("policy_parameters", "batches"): 1,
    ("policy_parameters", "matrix_noise"): 1.0,
    ("policy_parameters", "noise_bound"): 0.0,
    ("policy_parameters", "features"): 3,
    ("layout", "name"): "light-offset",
    ("layout", "dim"): 5,
    ("layout", "feature_norm"): 2.0,
    ("layout", "reward_range"): [0.0, 2.0],
    ("layout", "constant_feature"): [0, 0.5],
    ("horizon",): 1000,
    ("budget",): None,
    ("budget", "epsilon"): 0.5,
    ("budget", "delta"): 1e-6,
    ("schedule", "name"): "growing",
    ("schedule", "first"): 10,
    ("schedule", "exponent"): 1.5,
    ("schedule", "most"): 30,
    ("releases", 0, "users"): 21,
    ("releases", 0, "parameters", "noise_bits"): 1,
    ("releases", 0, "parameters", "grid"): 2.0,
    ("releases", 0, "parameters", "bias"): 0.5,
    ("max_participations",): 100,
    ("honest_fraction",): 0.5,
    ("outside",): True,
    ("overhead",): 0.1,
    ("strategy",): "tree",
    ("levels",): 3,
    ("publication", "name"): "rare",
    ("publication", "growth"): 4.0,
}


def altered(path: tuple[str | int, ...], value: Any) -> str:
    """The document of a plan with one value replaced."""
    document = json.loads(plan().to_json())
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    assert inner[path[-1]] != value or type(inner[path[-1]]) is not type(value)
    inner[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize("path", ALTERED, ids=str)
def test_an_altered_plan_is_refused(path: tuple[str | int, ...]) -> None:
    with pytest.raises(CroupierError):
        Plan.from_json(altered(path, ALTERED[path]))


def test_every_part_of_the_content_is_in_the_table_of_alterations() -> None:
    assert {path[0] for path in ALTERED} == {"id", *plan().content}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("policy_parameters", "radius"), math.nan),
        (("policy_parameters", "noise_bound"), math.inf),
        (("policy_parameters", "regularizer"), "large"),
        (("policy_parameters", "surplus"), 1),
        (("layout",), None),
        (("layout", "name"), "scaled"),
        (("layout", "name"), ["papers"]),
        (("layout", "weight"), 0.6),
        (("layout", "dim"), "five"),
        (("layout", "dim"), 0),
        (("releases",), []),
        (("releases", 0, "parameters"), {}),
        (("releases", 0, "parameters", "grid"), math.inf),
        (("budget", "epsilon"), -1.0),
        (("layout", "reward_range"), [0.0]),
        (("layout", "reward_range"), None),
        (("layout", "constant_feature"), [0]),
        (("layout", "constant_feature"), [0, 0.5, 1]),
        (("layout", "constant_feature"), [9, 0.5]),
        (("schedule",), None),
        (("protocol",), ["vector-sum"]),
    ],
    ids=str,
)
def test_a_plan_with_values_that_make_no_sense_is_refused(
    path: tuple[str | int, ...], value: Any
) -> None:
    document = json.loads(plan().to_json())
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(CroupierError):
        Plan.from_json(json.dumps(document))


@pytest.mark.parametrize("name", ["kind", "id", *plan().content])
def test_a_plan_without_one_of_its_parts_is_refused(name: str) -> None:
    document = json.loads(plan().to_json())
    del document[name]
    with pytest.raises(DocumentError):
        Plan.from_json(json.dumps(document))


def test_a_truncated_plan_is_refused_wherever_it_breaks_off() -> None:
    text = plan().to_json()
    for length in range(0, len(text), 7):
        with pytest.raises(DocumentError):
            Plan.from_json(text[:length])


def test_guarantees_in_a_file_are_ignored() -> None:
    made = plan("local")
    document = json.loads(made.to_json())
    document["guarantees"]["shuffle"].update(epsilon=1e-9, mu=0.0, method="a promise")
    again = Plan.from_json(json.dumps(document))
    assert again.guarantees() == made.guarantees()
    assert "a promise" not in again.to_json()
    del document["guarantees"]
    assert Plan.from_json(json.dumps(document)) == made


def test_numbers_that_follow_from_the_plan_are_computed_again() -> None:
    made = plan("vector-sum")
    document = json.loads(made.to_json())
    document["releases"][0]["noise_std"] = 0.0
    for name in ("noise_std", "privacy_noise_std", "report_bits", "batches", "parameters"):
        document[name] = 0
    assert Plan.from_json(json.dumps(document)).to_json() == made.to_json()


def test_the_document_says_what_a_reader_wants_to_know() -> None:
    made = plan("local")
    document = json.loads(made.to_json())
    local = document["guarantees"]["local"]
    assert document["batches"] == 50
    assert document["unreleased_rounds"] == 10
    assert document["noise_std"] == made.release(0).noise_std
    assert document["parameters"] == document["releases"][0]["parameters"]
    assert local["epsilon"] == made.guarantees()["local"].epsilon(0.1)
    assert local["mu"] == made.guarantees()["local"].mu
    assert json.loads(plan("noiseless").to_json())["guarantees"]["shuffle"]["epsilon"] is None
