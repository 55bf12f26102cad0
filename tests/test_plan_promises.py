"""What a plan says of itself is true: who is the adversary, what they know, who must be honest."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from croupier.coins import SystemCoins
from croupier.contribution import checked_features, contribution
from croupier.documents import fewer_honest, plan_document
from croupier.errors import DocumentError
from croupier.model import canonical
from croupier.plan import Plan
from croupier.plan_promises import composed_epsilons
from croupier.privacy.gdp import compose, epsilon_of, mu_of
from croupier.protocols.base import most_draws
from croupier.protocols.vector_release import VectorSumRelease

VECTORS = json.loads((Path(__file__).parent / "vectors" / "plans.json").read_text())
SHUFFLED = ("vector-sum", "concurrent-tree", "amplified-gaussian", "garcelon")
BUDGET = {"epsilon": 1.0, "delta": 1e-5}


def plan(protocol: str = "vector-sum", **changes: Any) -> Plan:
    asked: dict[str, Any] = {"dim": 3, "batch_size": 50, "batches": "fixed", "horizon": 500}
    return Plan.calibrate(protocol, **{**asked, **BUDGET, **changes})


# A plan is what its releases are


@pytest.mark.parametrize("bad", VECTORS["bad"], ids=lambda bad: bad["why"])
def test_a_forged_plan_is_refused(bad: dict[str, str]) -> None:
    """Each is signed by its own id: whoever forges it computes that, too."""
    with pytest.raises(DocumentError, match="releases must have the users of the schedule"):
        Plan.from_json(json.dumps(bad["document"]))


@pytest.mark.parametrize("good", VECTORS["good"], ids=lambda good: good["why"])
def test_a_known_plan_is_read_and_has_the_known_id(good: dict[str, Any]) -> None:
    made = Plan.from_json(json.dumps(good["document"]))
    assert (made.id, made.met) == (good["document"]["id"], True)
    assert canonical(made.content).decode() == good["canonical"]


@pytest.mark.parametrize("protocol", SHUFFLED)
def test_no_plan_can_be_made_of_releases_for_other_batches(protocol: str) -> None:
    made = plan(protocol)
    small = plan(protocol, batch_size=10).schedule
    with pytest.raises(ValueError, match="releases must"):
        replace(made, mechanism=replace(made.mechanism, schedule=small))


def test_numbers_are_spelled_as_every_language_spells_them() -> None:
    assert canonical({"b": 1.0, "a": 5e-05, "c": [1e21, 1e-7]}) == (
        b'{"a":0.00005,"b":1,"c":[1e+21,1e-7]}'
    )


# Other users


def test_against_all_other_users_only_local_is_left() -> None:
    """They know their own coins, and models can be inverted to sums: 30 of 30 guesses are right."""
    made = plan(batch_size=1000, horizon=10_000, epsilon=4.0)
    release = made.mechanism.releases[0]
    assert isinstance(release, VectorSumRelease)
    coins, rng = SystemCoins(), np.random.default_rng(1)
    rows = [contribution(made.layout, np.eye(3)[arm], float(arm)) for arm in (0, 1)]
    truths = rng.integers(2, size=30)
    guesses = []
    for truth in truths:
        others = [release.randomize(rows[user % 2], coins) for user in range(20)]
        own = release.randomize(rows[truth], coins)
        total = release.tally(_gathered([*others, own]))
        left = total - sum(release.tally(_gathered([one])) for one in others)
        sums = release.settle(left, 1)
        guesses.append(int(np.argmin([np.linalg.norm(sums - row) for row in rows])))
    assert np.array_equal(guesses, truths)
    found = made.guarantees()
    assert "against all of them together only local is left" in found["joint"].assumptions[-1]
    assert found["joint"].epsilon(1e-5) <= 4
    assert found["local"].epsilon(1e-5) > 10


def _gathered(reports: list[Any]) -> dict[str, Any]:
    return {label: np.concatenate([one[label] for one in reports]) for label in reports[0]}


@pytest.mark.parametrize("protocol", SHUFFLED)
def test_another_user_is_never_counted_as_honest(protocol: str) -> None:
    """Where all are honest, one of them looks: the noise of the others is what hides."""
    made = plan(protocol, honest_fraction=1.0)
    fewer = replace(made.mechanism, honest_fraction=0.98).guarantee(1)
    joint, shuffle = (made.guarantees()[name].epsilon(1e-5) for name in ("joint", "shuffle"))
    assert joint == fewer.epsilon(1e-5) >= shuffle
    assert joint > shuffle or protocol == "amplified-gaussian", "whose reports hide by themselves"


@pytest.mark.parametrize("protocol", SHUFFLED)
def test_a_coalition_within_the_share_learns_what_the_analyzer_learns(protocol: str) -> None:
    found = plan(protocol).guarantees()
    assert found["joint"].epsilon(1e-5) == found["shuffle"].epsilon(1e-5) <= 1


@pytest.mark.parametrize("protocol", ["central", "local"])
def test_where_nobody_hides_in_a_crowd_all_other_users_are_covered(protocol: str) -> None:
    joint = plan(protocol).guarantees()["joint"]
    assert joint.epsilon(1e-5) <= 1
    assert not any("pool what they know" in text for text in joint.assumptions)


# Assumptions


@pytest.mark.parametrize("protocol", SHUFFLED)
def test_every_shuffle_guarantee_lists_all_it_rests_on(protocol: str) -> None:
    assumed = " / ".join(plan(protocol).guarantees()["shuffle"].assumptions)
    for text in (
        "at least 80 % of the users of every batch are honest and keep their coins to themselves",
        "one account is one user",
        "the device clips",
        "at most 1 of the batches",
        "batches are released complete",
    ):
        assert text in assumed
    everybody = plan(protocol, honest_fraction=1.0).guarantees()["shuffle"].assumptions
    assert any(text.startswith("all users of every batch are honest") for text in everybody)


@pytest.mark.parametrize("protocol", SHUFFLED)
def test_four_of_five_users_are_relied_on_unless_a_share_is_named(protocol: str) -> None:
    assert plan(protocol).terms.honest_fraction == 0.8
    assert plan("central").terms.honest_fraction == 1.0
    papers = plan("vector-sum", calibration="theorem", outside=True)
    assert papers.terms.honest_fraction == 1.0


def test_relying_on_fewer_costs_at_most_an_eighth_more_noise() -> None:
    few, all_of_them = plan(), plan(honest_fraction=1.0)
    assert few.release(0).noise_std <= 1.12 * all_of_them.release(0).noise_std


def test_a_plan_says_what_is_left_with_fewer_honest_users() -> None:
    made = plan()
    rows = fewer_honest(made)
    assert rows == plan_document(made)["fewer_honest"]
    assert [row["honest_fraction"] for row in rows] == [0.6, 0.4, 0.2, 0.1]
    found = [row["epsilon"] for row in rows]
    assert found == sorted(found)
    assert found[1] == made.with_honest(0.4).epsilon(1e-5)
    # Half as many honest users have half the variance: mu grows by the root of two.
    assert found[1] == pytest.approx(epsilon_of(mu_of(1.0, 1e-5) * math.sqrt(2), 1e-5), rel=0.03)


# What the shuffler gathers


@pytest.mark.parametrize("protocol", SHUFFLED[:3])
@pytest.mark.parametrize("present", [1, 4])
def test_local_counts_every_report_that_a_device_makes(protocol: str, present: int) -> None:
    made = plan(protocol, max_participations=present, honest_fraction=1.0, epsilon=8.0)
    assert made.draws == most_draws(present) > present
    local, once = made.guarantees()["local"], made.mechanism.local_guarantee(1)
    assert local.epsilon(0.1) == made.mechanism.local_guarantee(made.draws).epsilon(0.1)
    assert local.epsilon(0.1) > once.epsilon(0.1) or once.epsilon(0.1) == math.inf
    assert any(f"no more than {made.draws} reports" in text for text in local.assumptions)


# Participations


def test_participations_are_no_more_than_there_are_batches() -> None:
    """Ten batches and fifty participations cost 2.24 times the noise once."""
    many, ten = plan(max_participations=50), plan(max_participations=10)
    assert many == ten
    assert many.participations == many.terms.max_participations == 10
    forged = replace(many, terms=replace(many.terms, max_participations=50))
    assert forged.participations == 10
    assert forged.promise.epsilon(1e-5) == ten.promise.epsilon(1e-5)


# Several plans


def test_plans_on_the_same_people_add_up() -> None:
    first, then = plan(epsilon=5.0), plan(epsilon=1.0)
    found = composed_epsilons([first, then], 1e-5)["shuffle"]
    floor = epsilon_of(compose((mu_of(5.0, 1e-5), mu_of(1.0, 1e-5))), 1e-5)
    assert 5 < found == pytest.approx(floor, rel=0.02)
    assert found >= first.promise.epsilon(1e-5)
    assert composed_epsilons([first], 1e-5)["shuffle"] >= first.promise.epsilon(1e-5)


def test_plans_without_a_mu_add_their_epsilons() -> None:
    made = plan("amplified-gaussian")
    found = composed_epsilons([made, made], 1e-5)["shuffle"]
    assert found == pytest.approx(2 * made.promise.epsilon(5e-6), rel=1e-12)
    both = composed_epsilons([made, plan()], 1e-5)["shuffle"]
    assert both > made.promise.epsilon(1e-5) + 0.9


def test_nothing_is_promised_with_a_plan_that_promises_nothing() -> None:
    assert composed_epsilons([plan(), plan("noiseless")], 1e-5)["shuffle"] == math.inf


# Units


def test_unit_vectors_of_32_bits_are_unit_vectors() -> None:
    """Nearly half of them were refused: their norm is 1 up to 6e-8."""
    layout = plan().layout
    drawn = np.random.default_rng(3).standard_normal((2000, 3)).astype(np.float32)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    assert (np.linalg.norm(drawn.astype(float), axis=1) > 1 + 1e-9).mean() > 0.3
    checked_features(layout, drawn)
    rows = np.array([contribution(layout, row, 1.0) for row in drawn[:200]])
    assert np.linalg.norm(rows[:, :4], axis=1).max() <= 0.5
    with pytest.raises(ValueError, match="norm at most"):
        checked_features(layout, [1 + 3e-6, 0.0, 0.0])


def test_yes_and_no_are_rewards() -> None:
    layout = plan().layout
    for said, number in ((True, 1.0), (False, 0.0), (np.True_, 1.0)):
        assert np.array_equal(
            contribution(layout, [0.6, 0.0, 0.8], said), contribution(layout, [0.6, 0, 0.8], number)
        )
    with pytest.raises(ValueError, match="reward must be a finite number, got 'yes'"):
        layout.unit_reward("yes")  # type: ignore[arg-type]


def test_a_contribution_is_the_same_in_all_units() -> None:
    one, eight = plan(), plan(feature_norm=8.0)
    row = np.array([0.5, -0.25, 0.375])
    assert np.array_equal(
        contribution(one.layout, row, 0.5), contribution(eight.layout, 8 * row, 0.5)
    )
    assert eight.mechanism.releases[0].parameters == one.mechanism.releases[0].parameters
