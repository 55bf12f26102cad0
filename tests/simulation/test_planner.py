from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.errors import UnknownNameError
from croupier.layouts import LightOffset
from croupier.plan import Plan
from croupier.schedules import Span
from croupier.simulation import engine, sweep
from croupier.simulation.planner import Need, Recommendation, recommend
from croupier.simulation.planner.candidates import TREE, Candidate, choices, report_bytes
from croupier.simulation.planner.expectations import (
    ACCURACY,
    COMMON,
    INDIVIDUAL,
    Rehearsal,
    expected,
    indistinguishable,
)
from croupier.simulation.planner.sampled_users import (
    SimulatedRegret,
    course_of,
    play,
    played_rounds,
    sampled_rounds,
)
from croupier.simulation.planner.shortfall import WORTHWHILE, least, two_digits
from croupier.simulation.problem import BLOCK
from croupier.simulation.synthetic import Contextual, Sphere

SMALL = Need(users=3000, dim=3, epsilon=2.0, delta=1e-4)
HOPELESS = Need(users=500, dim=20, epsilon=0.1, delta=1e-6)
CONSTANT = math.sqrt(0.5)


answer = cache(recommend)


def accepted(found: Recommendation) -> Plan:
    assert found.plan is not None, found.reason
    return found.plan


@given(st.integers(0, 5000), st.integers(1, 20_000), st.sampled_from([BLOCK, 2 * BLOCK]))
def test_speakers_are_users_of_their_batch_drawn_block_by_block(
    start: int, users: int, most: int
) -> None:
    rounds = sampled_rounds(Span(0, start, start + users, complete=True), most)
    played = [index for first, stop in rounds for index in range(first, stop)]
    assert played == sorted(set(played))
    assert start <= played[0]
    assert played[-1] < start + users
    assert all(first // BLOCK == (stop - 1) // BLOCK for first, stop in rounds)
    assert len(played) == (users if users < most + BLOCK else most)


@pytest.mark.parametrize(
    ("kind", "policy", "declared", "count"),
    [
        (Sphere, "thompson", False, 160),
        (Contextual, "sampling", False, 80),
        (Contextual, "randucb", True, 80),
    ],
)
def test_speakers_have_the_regret_of_the_whole_batch(
    kind: type[Sphere], policy: str, declared: bool, count: int
) -> None:
    """False alarm: 4 standard errors of the difference, 1e-4.

    ``sampling`` has rare bad runs on a common arm set, which would hide a difference.
    """
    problem, trials = kind(3, 5), range(count)
    plan = Plan.calibrate(
        "vector-sum", dim=3, horizon=6000, epsilon=2.0, delta=1e-4, policy=policy,
        constant_feature=problem.constant_of(3) if declared else None,
    )  # fmt: skip
    whole = engine.run(plan, problem, 0, trials).regret[:, -1]
    spoken = play(course_of(plan), problem, 0, trials).regret
    assert played_rounds(plan.schedule, problem) < 6000
    error = np.hypot(whole.std(ddof=1), spoken.std(ddof=1)) / math.sqrt(len(trials))
    assert abs(spoken.mean() - whole.mean()) < 4 * error
    assert error < 0.1 * whole.mean()


def test_uniform_play_is_measured_on_the_same_users() -> None:
    need = replace(SMALL, action_sets="individual")
    played = play(Candidate(need, "growing", "sampling").course(), need.problem, 0, range(4))
    means = Contextual(3, 20).features(np.random.default_rng(0), 20_000) @ np.array(
        [CONSTANT, 0.0, CONSTANT]
    )
    expected_regret = SMALL.users * (means.max(axis=1) - means.mean(axis=1)).mean()
    np.testing.assert_allclose(played.uniform, expected_regret, rtol=0.05)


def test_noise_of_a_tree_is_that_of_its_prefixes() -> None:
    plan = Plan.calibrate(TREE, dim=2, horizon=4000, epsilon=2.0, delta=1e-4, levels=2)
    variances = [0.0]
    for noise in course_of(plan).noise:
        variances.append(variances[noise.start] + noise.std**2)
    largest = plan.mechanism.largest_noise_variance(plan.schedule.batches)
    assert max(variances) == pytest.approx(largest)
    assert any(noise.start < index for index, noise in enumerate(course_of(plan).noise))


def test_noise_before_calibration_is_nearly_that_of_the_plan() -> None:
    need = replace(SMALL, honest_fraction=0.67, max_participations=2)
    choice = Candidate(need, "growing", "sampling")
    before, after = choice.course(), choice.course(choice.plan())
    guessed = np.array([noise.std for noise in before.noise])
    certified = np.array([noise.std for noise in after.noise])
    np.testing.assert_allclose(guessed, certified, rtol=0.01)
    assert before.schedule == after.schedule
    assert before.policy.name == after.policy.name


def test_declines_where_nothing_can_be_learnt_and_says_what_it_would_take() -> None:
    found = answer(HOPELESS)
    assert found.plan is None
    assert found.choice is None
    assert found.reason.startswith("Not enough users to learn anything")
    assert found.expected is not None
    assert found.expected.share_high > WORTHWHILE
    assert found.needed is not None
    assert found.needed.users is not None
    assert found.needed.epsilon is not None
    accepted(answer(replace(HOPELESS, users=2 * found.needed.users)))
    accepted(answer(replace(HOPELESS, epsilon=2 * found.needed.epsilon)))


def test_expects_little_of_privacy_where_users_are_many() -> None:
    found = answer(replace(SMALL, users=30_000))
    assert found.expected is not None
    assert found.expected.share_high < 0.2
    assert found.non_private is not None
    assert found.non_private < found.expected.mean
    shares = {one.change: one.share for one in found.what_if}
    assert shares["10 times the users"] < shares["2 times the users"] < found.expected.share
    assert shares["twice the epsilon"] < found.expected.share


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"epsilon": 0.5, "users": 8000},
        {"epsilon": 8.0, "delta": 1e-9},
        {"honest_fraction": 0.6, "max_participations": 3},
        {"max_participations": 1000, "epsilon": 6.0},
        {"constant_feature": (0, -0.7), "action_sets": "individual"},
        {"constant_feature": (1, 0.1)},
        {"dim": 2, "users": 700, "arms": 3},
        {"max_report_bytes": 15, "users": 6000},
    ],
)
def test_every_suggested_plan_is_proved_to_meet_its_budget(changes: dict[str, Any]) -> None:
    need = replace(SMALL, **changes)
    plan = accepted(answer(need))
    assert plan.met
    assert plan.budget == need.budget
    assert plan.deployable
    assert plan.schedule.rounds == need.users
    assert plan.layout.dim == need.dim
    assert Plan.from_json(plan.to_json()).met


def test_the_interval_is_narrow() -> None:
    found = answer(SMALL).expected
    assert found is not None
    assert found.low < found.mean < found.high
    assert found.high - found.mean <= ACCURACY * found.mean


def test_a_constant_feature_is_declared_and_saves_regret() -> None:
    declared, plain = (
        answer(replace(SMALL, constant_feature=feature)) for feature in ((0, 0.6), None)
    )
    assert accepted(declared).layout == LightOffset(3, constant=(0, 0.6))
    assert accepted(plain).layout == LightOffset(3)
    assert declared.expected is not None
    assert plain.expected is not None
    assert declared.expected.mean < plain.expected.mean


def test_reports_fit_the_bytes_that_are_allowed() -> None:
    free = answer(SMALL)
    most = report_bytes(accepted(free))[1] // 2
    tight = answer(replace(SMALL, max_report_bytes=most))
    assert report_bytes(accepted(tight))[1] <= most
    assert tight.choice is not None
    assert tight.choice.overhead > 0.05
    assert any(one.change.startswith("reports of") for one in tight.what_if)


def test_declines_where_no_report_is_small_enough_and_says_the_least() -> None:
    found = answer(replace(SMALL, max_report_bytes=1))
    assert found.plan is None
    assert found.needed is not None
    size = found.needed.report_bytes
    assert size is not None
    assert f"the smallest takes {size} bytes" in found.reason
    smallest = replace(next(choices(SMALL)), overhead=16.0)
    assert report_bytes(smallest.plan())[1] <= size


def test_bytes_that_drown_the_signal_are_named_as_what_is_needed() -> None:
    need = replace(SMALL, users=600, epsilon=0.7, max_report_bytes=4)
    found = answer(need)
    assert found.plan is None
    assert found.expected is not None
    assert found.needed is not None
    assert found.needed.report_bytes is not None
    accepted(answer(replace(need, max_report_bytes=found.needed.report_bytes)))


def test_users_with_action_sets_of_their_own_get_one_width_for_all_arms() -> None:
    found = answer(replace(SMALL, users=20_000, action_sets="individual"))
    assert [one.label for one in found.alternatives if one.expected] == [
        "vector-sum, growing batches, randucb", "vector-sum, growing batches, sampling",
    ]  # fmt: skip
    assert found.choice is not None
    assert found.choice.policy == "randucb"


def test_of_choices_that_a_look_cannot_tell_apart_the_first_is_taken() -> None:
    """Rare bad runs decide the mean: 740 and 758 here, and 1,150 and 890 over 500 trials."""
    found = answer(Need(users=200_000, dim=10, epsilon=1.0, delta=1e-6))
    seen = {one.label: one.expected.mean for one in found.alternatives if one.expected}
    drawn, flattered = (f"vector-sum, growing batches, {name}" for name in ("thompson", "sampling"))
    assert abs(seen[drawn] / seen[flattered] - 1) < 0.1
    assert found.choice is not None
    assert found.choice.policy == "thompson"


def test_choices_follow_from_users_and_their_action_sets() -> None:
    kinds = {
        (users, sets): [
            (one.batches, one.policy, one.levels)
            for one in choices(replace(SMALL, users=users, action_sets=sets))
        ]
        for users in (10_000, 200_000, 10**6)
        for sets in ("common", "individual")
    }
    usual, doubling = ("growing", "sampling", None), ("doubling", "sampling", None)
    assert kinds[10_000, "common"] == [usual]
    assert kinds[200_000, "common"] == [("growing", "thompson", None), usual, doubling]
    assert kinds[10**6, "common"][-1] == ("growing", "sampling", 2)
    assert kinds[10_000, "individual"] == [("growing", "randucb", None), usual]
    assert kinds[10**6, "individual"] == kinds[10_000, "individual"]


def test_users_may_be_in_no_more_batches_than_there_are() -> None:
    always = Candidate(replace(SMALL, max_participations=10**6), "growing", "sampling")
    assert always.participations == always.schedule.batches
    twice = Candidate(replace(SMALL, max_participations=2), "growing", "sampling")
    assert twice.participations == 2 < twice.schedule.batches
    assert Candidate(SMALL, "growing", "sampling").schedule.first < twice.schedule.first


@pytest.mark.parametrize("users", [1, 7, 10**6, 10**8])
def test_schedules_hold_any_number_of_users(users: int) -> None:
    choice = Candidate(replace(SMALL, users=users), "growing", "sampling")
    assert sum(choice.schedule.sizes()) == users
    assert choice.without_noise().schedule.rounds == users


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("users", 0, "users must be a whole number of at least 1, got 0"),
        ("users", 10**9, "users must be at most 100000000, got 1000000000"),
        ("users", 1.5, "users must be a whole number"),
        ("dim", 1, "dim must be a whole number of at least 2, got 1"),
        ("epsilon", math.nan, "epsilon must be a finite number, got nan"),
        ("epsilon", 0.0, "epsilon must be above 0"),
        ("delta", 1.0, "delta must be below 1, got 1.0"),
        ("arms", 1, "arms must be a whole number of at least 2, got 1"),
        ("seed", -1, "seed must be a whole number of at least 0, got -1"),
        ("max_report_bytes", 0, "max_report_bytes must be a whole number of at least 1, got 0"),
        ("max_participations", 0, "max_participations must be"),
        ("honest_fraction", 1.2, "honest_fraction must be at most 1, got 1.2"),
        ("constant_feature", (3, 0.5), "constant_feature: constant index must be below dim 3"),
        ("constant_feature", (0, 2.0), "constant_feature: constant value must be"),
    ],
)
def test_bad_needs_are_refused_by_name_and_value(name: str, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(SMALL, **{name: value})  # type: ignore[arg-type]


def test_unknown_action_sets_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="'some'; known: common, individual"):
        replace(SMALL, action_sets="some")


def test_the_seed_decides_everything() -> None:
    once, again = answer(SMALL), recommend(SMALL)
    assert once.document() == again.document()
    other = recommend(replace(SMALL, seed=1))
    assert other.expected != once.expected


def test_progress_never_goes_back_and_ends_at_the_end() -> None:
    calls: list[tuple[int, int]] = []
    recommend(SMALL, lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert calls[-1][0] == calls[-1][1]


def test_courses_that_differ_less_than_their_noise_are_tied() -> None:
    rng = np.random.default_rng(0)
    base, uniform = rng.normal(100, 10, 50), np.full(50, 500.0)
    assert indistinguishable(SimulatedRegret(base, uniform), SimulatedRegret(base + 4, uniform))
    assert not indistinguishable(SimulatedRegret(base, uniform), SimulatedRegret(base + 8, uniform))
    noisy = SimulatedRegret(base + 8 + rng.normal(0, 60, 50), uniform)
    assert indistinguishable(SimulatedRegret(base, uniform), noisy)


def test_intervals_widen_with_spread_and_keep_room_for_the_shortcut() -> None:
    same = expected(SimulatedRegret(np.full(10, 100.0), np.full(10, 400.0)))
    assert (same.low, same.high) == pytest.approx((95.0, 105.0))
    assert (same.share, same.share_high) == pytest.approx((0.25, 0.2625))
    spread = expected(SimulatedRegret(np.linspace(50, 150, 10), np.full(10, 400.0)))
    assert spread.high > same.high


def test_a_close_look_takes_trials_until_it_is_sure_or_has_had_enough() -> None:
    need = replace(SMALL, users=200, epsilon=10.0)
    choice = Candidate(need, "growing", "sampling")
    rehearsal = Rehearsal(need.problem, 0, choice.schedule, 1, None)
    found = rehearsal.examine(choice.without_noise())
    assert found.trials % COMMON.least == 0
    assert found.trials <= COMMON.most
    assert found.accurate or found.trials == COMMON.most
    assert INDIVIDUAL.least < COMMON.least


def test_a_search_ends_just_above_what_is_enough() -> None:
    found = least(1.0, 1e6, lambda value: value >= 37)
    assert found is not None
    assert 37 <= found <= 37 * 1.2 * 1.1
    assert least(1.0, 100.0, lambda _: False) is None
    assert [two_digits(value) for value in (0.123, 9.91, 1234.0)] == [0.13, 10.0, 1300.0]


FRESH = [
    Need(20_000, 5, 1.0, 1e-5),
    Need(30_000, 10, 1.0, 1e-6),
    Need(20_000, 5, 0.2, 1e-5),
    Need(10_000, 3, 4.0, 1e-4, arms=50),
    Need(20_000, 5, 1.0, 1e-5, constant_feature=(4, CONSTANT)),
    Need(20_000, 5, 1.0, 1e-5, action_sets="individual"),
    Need(20_000, 8, 0.5, 1e-6, action_sets="individual"),
    Need(5000, 4, 2.0, 1e-4, action_sets="individual", honest_fraction=0.67),
    Need(20_000, 5, 1.0, 1e-5, action_sets="individual", constant_feature=(4, CONSTANT)),
    Need(10_000, 5, 2.0, 1e-5, action_sets="individual", max_report_bytes=30),
]


@pytest.mark.slow
def test_intervals_cover_the_mean_of_fresh_full_simulations() -> None:
    """Every user is played, by another seed: 9 of 10 means must be covered, 10 were."""
    covered = []
    for need in FRESH:
        found = recommend(need)
        trials = 60 if need.action_sets == "individual" else 200
        fresh = sweep.simulate(
            accepted(found), need.problem, trials=trials, seed=77, workers=2, points=1
        )
        assert found.expected is not None
        covered.append(found.expected.low <= fresh.mean[-1] <= found.expected.high)
    assert sum(covered) >= 9, covered
