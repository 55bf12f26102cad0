from __future__ import annotations

import math

import numpy as np
import pytest

from croupier.coins import SeededCoins, SystemCoins
from croupier.errors import GuaranteeError
from croupier.fixed_point import UNIT
from croupier.layouts import LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.privacy.gdp import delta_of
from croupier.privacy.shuffled_reports.gaussian import ShuffledGaussianCurve, least_sigma
from croupier.protocols import amplified_gaussian
from croupier.protocols.amplified_gaussian import AmplifiedGaussian, AmplifiedGaussianRelease
from croupier.protocols.base import Terms
from croupier.schedules import FixedBatches, GrowingBatches
from croupier.shuffler import gather, shuffle

LAYOUT = LightOffset(3)


def release(sigma: float = 0.7, users: int = 6) -> AmplifiedGaussianRelease:
    return AmplifiedGaussianRelease(LAYOUT, users, sigma)


def test_vector_and_matrix_are_rows_of_their_own_channels() -> None:
    sent = release().randomize(np.zeros(LAYOUT.size), SystemCoins())
    assert {channel: rows.shape for channel, rows in sent.items()} == {
        "vector": (1, 4),
        "matrix": (1, 9),
    }


def test_every_coordinate_gets_its_own_noise() -> None:
    sent = release().randomize(np.zeros(LAYOUT.size), SeededCoins(0))
    assert len(set(np.concatenate([rows[0] for rows in sent.values()]))) == LAYOUT.size


def test_noise_is_drawn_afresh() -> None:
    coins, row = SeededCoins(0), np.ones(LAYOUT.size)
    first, second = (release().randomize(row, coins) for _ in range(2))
    assert not np.any(first["vector"] == second["vector"])


def test_a_report_is_the_contribution_plus_noise() -> None:
    row = np.arange(LAYOUT.size, dtype=float)
    sent = release(1e-9).randomize(row, SeededCoins(0))
    units = np.concatenate([sent["vector"][0], sent["matrix"][0]])
    assert units * UNIT == pytest.approx(row, abs=1e-7)


def test_analyzer_ignores_message_order_to_the_last_bit() -> None:
    coins = SeededCoins(0)
    rows = np.random.default_rng(0).normal(size=(6, LAYOUT.size)) * 10.0 ** np.arange(6)[:, None]
    messages = gather([release().randomize(row, coins) for row in rows])
    sums = release().analyze(messages)
    for _ in range(20):
        assert np.array_equal(release().analyze(shuffle(messages, coins)), sums)


def test_sums_beyond_64_bits_are_exact() -> None:
    """Twelve of the largest numbers that count."""
    made = AmplifiedGaussianRelease(PapersLayout(1), 12, 80_000.0)
    rows = np.full((12, 1), 800_000 * 2**40)
    rows[0] += 2**39
    assert rows.sum(dtype=object) > 2**63
    expected = 12 * 800_000 + 0.5
    assert made.analyze({"vector": rows, "matrix": -rows}).tolist() == [expected, -expected]


def test_noise_that_could_leave_64_bits_is_refused() -> None:
    with pytest.raises(ValueError, match=r"sigma must keep reports below 2\*\*22, got 90000.0"):
        release(90_000.0)


def discrete_delta(scale: float, shift: int, epsilon: float) -> float:
    """Hockey-stick divergence of two discrete Gaussians whose centres are ``shift`` apart."""
    places = np.arange(-20 * int(scale), 20 * int(scale) + 1)
    chances = np.exp(-(places**2) / (2 * scale**2))
    chances /= chances.sum()
    first, second = chances[shift:], chances[:-shift]
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum() + chances[:shift].sum())


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_discrete_noise_costs_no_more_than_the_slack(epsilon: float) -> None:
    layout, scale = PapersLayout(1, feature_norm=500 * UNIT), 1000
    made = AmplifiedGaussianRelease(layout, 6, scale * UNIT)
    mu = layout.sensitivity / made.sigma
    allowed = math.exp(layout.size / 8 / scale**2) * delta_of(mu, epsilon - made.loss_slack)
    assert mu == 1
    assert discrete_delta(scale, 1000, epsilon) <= allowed
    assert allowed <= delta_of(mu, epsilon) * 1.002


def test_the_slack_is_negligible_where_anyone_would_use_it() -> None:
    assert 0 < AmplifiedGaussianRelease(LightOffset(20), 6, 0.5).loss_slack < 1e-18
    assert AmplifiedGaussianRelease(LightOffset(20), 6, 0.01).loss_slack < 2e-14
    assert AmplifiedGaussianRelease(LightOffset(20), 6, 5e-324).loss_slack == math.inf


def test_noise_of_the_sum_grows_with_the_root_of_the_users() -> None:
    assert release(0.7, 9).noise_std == pytest.approx(2.1)
    assert release(0.7, 9).privacy_noise_std == release(0.7, 9).noise_std


def test_a_report_alone_is_an_exact_gaussian_mechanism() -> None:
    made = AmplifiedGaussian(LAYOUT, FixedBatches(6, 60), (release(2.0), release(4.0)))
    local = made.local_guarantee()
    assert local.mu == pytest.approx(math.sqrt(9 / 8) / 2.0)
    assert local.delta(1.0) == pytest.approx(delta_of(math.sqrt(9 / 8) / 2.0, 1.0))


def test_theorem_sigma_is_that_of_the_paper_inside_its_range() -> None:
    users, epsilon, delta = 10_000, 0.02, 1e-5
    plan = Plan.calibrate(
        "amplified-gaussian",
        dim=3,
        batch_size=users,
        horizon=users,
        calibration="theorem",
        epsilon=epsilon,
        delta=delta,
    )
    logs = math.log(2.5 * users / delta) * math.log(2 / delta)
    sigma = 4 * math.sqrt(2 * logs) / (epsilon * math.sqrt(users))
    assert plan.release(0).parameters == {"sigma": pytest.approx(sigma)}


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_theorem_refuses_the_papers_own_figure_with_both_numbers(epsilon: float) -> None:
    # MATH 5: B=20, delta=0.1 excludes all three panels.
    with pytest.raises(GuaranteeError) as caught:
        AmplifiedGaussian.calibrate(
            Budget(epsilon, 0.1), LAYOUT, FixedBatches(20, 200), Terms("theorem")
        )
    local, most = epsilon * math.sqrt(20 / math.log(20)), math.log(20 / (16 * math.log(40)))
    assert f"{local:.6g} > {most:.6g}" in str(caught.value)


def test_a_formula_outside_its_theorem_must_be_asked_for() -> None:
    terms = Terms("theorem", outside=True)
    made = AmplifiedGaussian.calibrate(Budget(1, 0.1), LAYOUT, FixedBatches(20, 200), terms)
    assert made.release(0).parameters["sigma"] > 0


def growing(participations: int = 1) -> AmplifiedGaussian:
    schedule, terms = GrowingBatches(100, 5000), Terms("certified", participations)
    return AmplifiedGaussian.calibrate(Budget(1.0, 1e-5), LAYOUT, schedule, terms)


def test_every_batch_size_is_certified_with_its_own_least_noise() -> None:
    made = growing()
    assert len({release.users for release in made.releases}) > 5
    for index, release in enumerate(made.releases):
        sigma = release.parameters["sigma"]
        curve = ShuffledGaussianCurve(LAYOUT.device_sensitivity / sigma, made.honest_users(index))
        assert curve.delta(1.0) <= 1e-5 < curve.delta(0.999)
    assert made.guarantee().meets(Budget(1.0, 1e-5))
    assert made.guarantee().epsilon(1e-5) == pytest.approx(1, rel=1e-6)
    assert made.guarantee().epsilon(1e-5) <= 1


@pytest.mark.parametrize("participations", [1, 3])
def test_a_batch_size_is_calibrated_once(
    participations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def counted(budget: Budget, *, sensitivity: float, users: int, batches: int) -> float:
        asked.append(users)
        return least_sigma(budget, sensitivity=sensitivity, users=users, batches=batches)

    monkeypatch.setattr(amplified_gaussian, "least_sigma", counted)
    made = growing(participations)
    sizes = {release.users for release in made.releases}
    assert sorted(asked) == (sorted(sizes) if participations == 1 else [min(sizes)])
    assert made.guarantee(participations).meets(Budget(1.0, 1e-5))


def test_noise_must_be_there() -> None:
    with pytest.raises(ValueError, match="sigma must be above 0, got 0"):
        release(0)
