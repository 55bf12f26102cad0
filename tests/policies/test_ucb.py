"""Algorithm 1's policy: what is played, and how released sums become a model (MATH 6.3)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.layouts import LightOffset, PapersLayout
from croupier.model import Model, ReleasedSums
from croupier.policies.base import Setting
from croupier.policies.ucb import Ucb, invert_above
from croupier.schedules import FixedBatches
from croupier.theory.released import Scale

Floats = NDArray[np.float64]

DIM, BATCHES, CONFIDENCE, STD = 3, 50, 0.01, 2.5
SETTING = Setting(PapersLayout(DIM), FixedBatches(20, 1000), CONFIDENCE, BATCHES * STD**2)
POLICY = Ucb.calibrate(SETTING)


def noise_bound(std: float, dim: int = DIM) -> float:
    """S of MATH 6.3 with noise std on the diagonal and beside it: there svec has sqrt(2) of it."""
    spread = math.sqrt(2 * dim) + math.sqrt(2 * math.log(2 * BATCHES / CONFIDENCE))
    return std * (math.sqrt(2) if dim > 1 else 1.0) * spread


def random_model(rng: np.random.Generator, dim: int, scale: float = 1.3) -> Model:
    half = rng.standard_normal((dim, dim))
    return Model("ucb", rng.standard_normal(dim), half @ half.T / dim, scale)


def sums_of(features: Floats, rewards: Floats, noise_variance: float = 0.0) -> ReleasedSums:
    return ReleasedSums(
        features.T @ rewards, features.T @ features, len(features), 1, noise_variance
    )


def test_choose_plays_the_arm_with_the_largest_score_and_says_why() -> None:
    rng = np.random.default_rng(0)
    model, features = random_model(rng, 4), rng.standard_normal((30, 4))
    choice = POLICY.choose(model, features)
    widths = [math.sqrt(row @ model.matrix @ row) for row in features]
    scores = [
        float(row @ model.theta) + 1.3 * width for row, width in zip(features, widths, strict=True)
    ]
    np.testing.assert_allclose(choice.widths, widths, rtol=1e-12)
    np.testing.assert_allclose(choice.scores, scores, rtol=1e-12)
    assert choice.arm == int(np.argmax(scores))


def test_equal_arms_have_equal_scores_and_the_lowest_index_is_played() -> None:
    rng = np.random.default_rng(1)
    for _ in range(1500):
        dim, arms = int(rng.integers(1, 24)), int(rng.integers(2, 130))
        model, features = random_model(rng, dim), rng.standard_normal((arms, dim))
        copies = np.sort(rng.choice(arms, int(rng.integers(2, arms + 1)), replace=False))
        best = int(POLICY.choose(model, features).arm)
        features[copies] = features[best]
        order = "C" if rng.random() < 0.5 else "F"
        choice = POLICY.choose(model, np.array(features, order=order))  # type: ignore[call-overload]
        assert len(set(choice.scores[copies])) == 1
        assert choice.arm == min(best, copies[0])


def test_equal_arms_tie_for_every_model_and_every_user_of_a_batch() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        dim, arms = int(rng.integers(1, 12)), int(rng.integers(2, 40))
        model = random_model(rng, dim)
        features = np.repeat(rng.standard_normal((4, 5, 1, dim)), arms, axis=2)
        assert not POLICY.choose(model, features).arm.any()


def test_before_anything_is_learnt_arms_of_equal_norm_tie() -> None:
    first = POLICY.first_model
    assert POLICY.choose(first, np.eye(DIM)[::-1].copy()).arm == 0
    assert not first.theta.any()
    assert first.version == first.users == first.repairs == 0


def test_a_batch_of_users_plays_what_each_would_play_alone() -> None:
    rng = np.random.default_rng(3)
    models = [random_model(rng, 5) for _ in range(6)]
    theta = np.array([model.theta for model in models])[:, None]
    matrix = np.array([model.matrix for model in models])[:, None]
    features = rng.standard_normal((6, 40, 17, 5))
    mask = rng.random((6, 40, 17)) < 0.7
    mask[..., 3] = True
    together = POLICY.choose(Model("ucb", theta, matrix, 1.3), features, mask=mask)
    for trial, model in enumerate(models):
        for user in range(40):
            alone = POLICY.choose(model, features[trial, user], mask=mask[trial, user])
            assert together.arm[trial, user] == alone.arm
            np.testing.assert_allclose(together.scores[trial, user], alone.scores, rtol=1e-12)
            np.testing.assert_allclose(together.widths[trial, user], alone.widths, rtol=1e-12)


def test_a_masked_arm_is_never_played() -> None:
    rng = np.random.default_rng(4)
    model, features = random_model(rng, 3), rng.standard_normal((200, 10, 3))
    mask = rng.random((200, 10)) < 0.3
    mask[np.arange(200), rng.integers(0, 10, 200)] = True
    arms = POLICY.choose(model, features, mask=mask).arm
    free = POLICY.choose(model, features)
    assert mask[np.arange(200), arms].all()
    assert (free.arm != arms).any()
    expected = np.where(mask, free.scores, -np.inf).argmax(axis=1)
    np.testing.assert_array_equal(arms, expected)


def test_a_mask_without_arms_is_refused() -> None:
    mask = np.array([[True, False], [False, False]])
    with pytest.raises(ValueError, match="mask must leave an arm"):
        POLICY.choose(POLICY.first_model, np.zeros((2, 2, DIM)), mask=mask)


def test_features_that_are_not_numbers_are_refused_even_where_masked() -> None:
    features = np.zeros((2, DIM))
    features[1, 0] = math.nan
    with pytest.raises(ValueError, match="features must be finite"):
        POLICY.choose(POLICY.first_model, features, mask=np.array([True, False]))


def test_theta_solves_the_regularised_equations() -> None:
    rng = np.random.default_rng(5)
    features, rewards = rng.uniform(-0.5, 0.5, (400, DIM)), rng.random(400)
    sums = sums_of(features, rewards, STD**2)
    model = POLICY.model(sums)
    gram = features.T @ features + POLICY.regularizer * np.eye(DIM)
    np.testing.assert_allclose(model.theta, np.linalg.solve(gram, features.T @ rewards), rtol=1e-10)
    np.testing.assert_allclose(model.matrix @ gram, np.eye(DIM), atol=1e-10)
    assert (model.version, model.users, model.repairs) == (1, 400, 0)


def test_the_fixed_regulariser_is_twice_the_noise_of_the_whole_horizon() -> None:
    assert pytest.approx(2 * noise_bound(STD * math.sqrt(BATCHES))) == POLICY.regularizer
    assert POLICY.model(sums_of(np.zeros((1, DIM)), np.zeros(1))).matrix[0, 0] == pytest.approx(
        1 / POLICY.regularizer
    )


@pytest.mark.parametrize("dim", [1, 2, 6])
def test_the_papers_layout_counts_its_louder_off_diagonal_noise(dim: int) -> None:
    policy = Ucb.calibrate(replace(SETTING, layout=PapersLayout(dim)))
    assert policy.regularizer == pytest.approx(2 * noise_bound(STD * math.sqrt(BATCHES), dim))


def test_other_layouts_are_refused() -> None:
    with pytest.raises(ValueError, match="policy ucb has a radius for the paper's layout alone"):
        Ucb.calibrate(replace(SETTING, layout=LightOffset(DIM)))


@pytest.mark.parametrize("batches", [1, 7, 50])
def test_the_growing_regulariser_is_twice_the_noise_so_far(batches: int) -> None:
    policy = Ucb.calibrate(SETTING, regularizer="growing")
    sums = ReleasedSums(
        np.zeros(DIM), np.zeros((DIM, DIM)), 20 * batches, batches, batches * STD**2
    )
    expected = 2 * noise_bound(STD * math.sqrt(batches))
    np.testing.assert_allclose(policy.model(sums).matrix, np.eye(DIM) / expected, rtol=1e-12)


def test_without_noise_the_regulariser_is_one() -> None:
    for regularizer in ("fixed", "growing"):
        policy = Ucb.calibrate(replace(SETTING, noise_variance=0.0), regularizer=regularizer)
        np.testing.assert_array_equal(policy.first_model.matrix, np.eye(DIM))


@pytest.mark.parametrize("regularizer", ["fixed", "growing"])
@pytest.mark.parametrize("batches", [0, 1, 50])
def test_the_radius_is_that_of_the_general_lemma(regularizer: str, batches: int) -> None:
    policy = Ucb.calibrate(SETTING, regularizer=regularizer, exploration=0.7)
    users, variance = 20 * batches, batches * STD**2
    model = policy.model(
        ReleasedSums(np.zeros(DIM), np.zeros((DIM, DIM)), users, batches, variance)
    )
    counted = BATCHES if regularizer == "fixed" else batches
    bound = noise_bound(STD * math.sqrt(counted))
    lam = max(1.0, 2 * bound)
    lowest, highest = lam - bound, lam + bound
    log = math.log(2 * BATCHES / CONFIDENCE)
    drift = math.sqrt(variance / lowest) * (math.sqrt(DIM) + math.sqrt(2 * log))
    learnt = 2 * math.log(2 / CONFIDENCE) + DIM * math.log(1 + users / (DIM * lowest))
    expected = math.sqrt(learnt) + math.sqrt(highest) + drift
    assert model.scale == pytest.approx(0.7 * expected, rel=1e-12)


def test_the_released_constants_do_not_change_with_time() -> None:
    scale = Scale(scale=9.0, regularizer=18.0)
    policy = Ucb.calibrate(replace(SETTING, released=scale))
    norm, rounds = 1.0, 1000
    expected = math.sqrt(9.0) * math.sqrt(DIM) + 0.5 * math.sqrt(
        DIM * math.log((1 + rounds * norm**2 / 9.0) * rounds)
    )
    for batches in (0, 1, 50):
        sums = ReleasedSums(
            np.zeros(DIM), np.zeros((DIM, DIM)), 20 * batches, batches, batches * STD**2
        )
        model = policy.model(sums)
        assert model.scale == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(model.matrix, np.eye(DIM) / 18.0, rtol=1e-12)


def test_small_eigenvalues_are_raised_to_half_the_regulariser_and_counted() -> None:
    lam = POLICY.regularizer
    axes = np.linalg.qr(np.random.default_rng(6).standard_normal((DIM, DIM)))[0]
    released = axes @ np.diag([5.0, -0.9 * lam, -3 * lam]) @ axes.T
    vector = np.array([0.3, -0.2, 0.5])
    model = POLICY.model(ReleasedSums(vector, released, 20, 1, STD**2))
    repaired = axes @ np.diag([5.0 + lam, lam / 2, lam / 2]) @ axes.T
    np.testing.assert_allclose(model.matrix, np.linalg.inv(repaired), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(model.theta, np.linalg.solve(repaired, vector), rtol=1e-9)
    assert model.repairs == 2


def test_a_matrix_above_the_floor_is_not_touched() -> None:
    lam = POLICY.regularizer
    released = np.diag([-0.49 * lam, 0.0, 10.0])
    model = POLICY.model(ReleasedSums(np.ones(DIM), released, 20, 1, STD**2))
    np.testing.assert_allclose(np.diag(model.matrix), 1 / (np.diag(released) + lam), rtol=1e-12)
    assert model.repairs == 0


def test_repairs_are_counted_over_all_trials_and_touch_only_the_trials_that_need_one() -> None:
    gram = np.array([np.diag([1.0, 2.0]), np.diag([0.1, -4.0]), np.diag([0.2, 3.0])])
    inverse, repairs = invert_above(gram, 0.5)
    assert repairs == 3
    expected = [np.diag([1.0, 0.5]), np.diag([2.0, 2.0]), np.diag([2.0, 1 / 3])]
    np.testing.assert_allclose(inverse, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"regularizer": "shrinking"}, r"regularizer must be one of .*, got 'shrinking'"),
        ({"exploration": 0.0}, r"exploration must be above 0, got 0.0"),
        ({"exploration": math.nan}, r"exploration must be a finite number, got nan"),
        ({"temperature": 1.0}, r"policy ucb has no option 'temperature'"),
    ],
)
def test_a_bad_option_is_refused_by_name_and_value(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Ucb.calibrate(SETTING, **options)  # type: ignore[arg-type]
