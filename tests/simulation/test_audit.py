from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, ks_2samp

from croupier.baselines.central import CentralRelease
from croupier.baselines.local import LocalRelease
from croupier.layouts import Blocks, Layout, LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.privacy.guarantee import gaussian, unproved
from croupier.protocols.amplified_gaussian import AmplifiedGaussianRelease
from croupier.protocols.base import Floats, Mechanism, Release
from croupier.protocols.vector_release import VectorSumRelease
from croupier.simulation.audit import Runs, audit, turned_pair, worst_cosines

# Every audit has a fixed seed. An honest plan is flagged with probability 0.1 % at most over
# seeds; how sure a fault is to be found is beside its test, as the distance between the mean
# lower bound and the claim in standard deviations of the bound.


@cache
def certified(protocol: str = "vector-sum", **changes: Any) -> Plan:
    asked: dict[str, Any] = {"dim": 5, "batch_size": 20, "horizon": 20_000, "honest_fraction": 1.0}
    return Plan.calibrate(protocol, **{**asked, "epsilon": 1.0, "delta": 1e-5, **changes})


def running(plan: Plan, kind: type[Release] | None = None, **changes: Any) -> Mechanism:
    """The plan's mechanism with other parameters, or with releases that have a fault."""
    first = plan.release(0)
    made = (kind or type(first))(plan.layout, first.users, **{**first.parameters, **changes})
    return replace(plan.mechanism, releases=(made,))


@cache
def fine_plan() -> Plan:
    """MATH 4's reference in units of half the sensitivity: rounding hides next to nothing."""
    plan = certified(batches="fixed")
    return replace(plan, mechanism=running(plan, grid=18.0, noise_bits=1024))


class RoundsToNearest(VectorSumRelease):
    def steps(self, contributions: Floats) -> Any:
        floor, left = super().steps(contributions)
        return floor + (left >= 0.5), np.zeros_like(left)


class ForgetsToClip(VectorSumRelease):
    def steps(self, contributions: Floats) -> Any:
        return super().steps(1.1 * contributions)


class DrawsOnce(VectorSumRelease):
    def sample_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return np.broadcast_to(super().sample_noise((shape[0], 1), rng), shape)


class DoesNotShuffle(AmplifiedGaussianRelease):
    def shuffle_rows(self, rows: Floats, rng: np.random.Generator) -> Floats:
        return rows


class ShufflesChannelsAlike(AmplifiedGaussianRelease):
    def shuffle_rows(self, rows: Floats, rng: np.random.Generator) -> Floats:
        order = np.random.default_rng(len(rows)).random(rows.shape).argsort(axis=1)
        return np.take_along_axis(rows, order, axis=1)


def test_the_fine_plan_is_the_one_of_the_reference_values() -> None:
    assert fine_plan().promise.mu_at(1e-5) == pytest.approx(0.2677, abs=1e-4)
    assert fine_plan().met


def test_honest_shuffled_bits_pass_and_almost_reach_their_certificate() -> None:
    report = audit(fine_plan(), trials=200_000)
    assert not report.flagged
    assert report.mu_certified is not None
    assert report.mu_estimate is not None
    # The estimate has a standard deviation of 0.004; five of them on either side.
    assert report.mu_estimate == pytest.approx(report.mu_certified, abs=0.02)


@pytest.mark.parametrize(
    ("protocol", "changes"),
    [
        ("vector-sum", {}),
        ("vector-sum", {"dim": 1}),
        ("vector-sum", {"batch_size": 90, "honest_fraction": 2 / 3}),
        ("vector-sum", {"batch_size": 100, "max_participations": 4}),
        ("vector-sum", {"calibration": "theorem", "dim": 2}),
        ("amplified-gaussian", {}),
        ("amplified-gaussian", {"epsilon": 10.0, "delta": 0.1, "max_participations": 3}),
        ("local", {}),
        ("local", {"max_participations": 3}),
        ("central", {"horizon": 1000}),
        ("central", {"horizon": 1000, "strategy": "tree"}),
        ("central", {"horizon": 1000, "strategy": "tree", "max_participations": 3}),
    ],
    ids=str,
)
def test_honest_mechanisms_pass(protocol: str, changes: dict[str, Any]) -> None:
    report = audit(certified(protocol, **changes), trials=20_000)
    assert report.middle is not None
    assert report.guarantee.proved
    assert not report.flagged


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("protocol", "changes"),
    [
        ("vector-sum", {}),
        ("vector-sum", {"batch_size": 1000, "horizon": 100_000, "epsilon": 10.0}),
        ("vector-sum", {"epsilon": 10.0, "delta": 0.1}),
        ("amplified-gaussian", {"epsilon": 10.0, "delta": 0.1}),
        ("local", {}),
        ("central", {}),
        ("central", {"strategy": "tree"}),
    ],
    ids=str,
)
def test_honest_mechanisms_pass_in_long_runs(
    protocol: str, changes: dict[str, Any], seed: int
) -> None:
    assert not audit(certified(protocol, **changes), seed=seed).flagged


def test_exact_gaussian_mechanisms_reach_what_they_promise() -> None:
    report = audit(certified("local"), trials=100_000)
    assert report.mu_certified is not None
    # Standard deviation 0.006; training a direction in 20 dimensions costs 0.01 at most.
    assert report.mu_estimate == pytest.approx(report.mu_certified, abs=0.035)


@pytest.mark.parametrize("strategy", ["tree", "toeplitz"])
def test_all_prefixes_together_reach_what_the_central_model_promises(strategy: str) -> None:
    plan = certified("central", horizon=600, strategy=strategy, epsilon=5.0)
    report = audit(plan, trials=50_000)
    assert report.mu_certified is not None
    # Standard deviation 0.009 of 1.1.
    assert report.mu_estimate == pytest.approx(report.mu_certified, abs=0.05)


def test_batches_add_up_and_are_compared_with_their_own_guarantee() -> None:
    plan = certified("local", max_participations=4, epsilon=5.0)
    once, often = (audit(plan, trials=50_000, batches=batches) for batches in (1, 4))
    assert once.mu_certified == pytest.approx(often.mu_certified / 2)  # type: ignore[operator]
    # Standard deviation 0.009.
    assert often.mu_estimate == pytest.approx(2 * once.mu_estimate, abs=0.06)  # type: ignore[operator]
    assert audit(plan, trials=1000, batches=5).budget is None


@pytest.mark.parametrize("protocol", ["noiseless", "linucb"])
def test_nothing_is_run_where_nothing_is_claimed(protocol: str) -> None:
    report = audit(certified(protocol))
    assert report.middle is None
    assert report.mu_lower is None
    assert not report.flagged


def test_a_noiseless_mechanism_under_a_claim_is_flagged() -> None:
    plan = certified("noiseless")
    report = audit(plan, trials=1000, guarantee=gaussian(3.0, "planted"))
    assert report.promise_refuted
    assert report.mu_estimate == math.inf


def test_half_the_noise_bits_are_flagged() -> None:
    report = audit(fine_plan(), trials=100_000, mechanism=running(fine_plan(), noise_bits=512))
    assert report.promise_refuted  # by 13 standard deviations


def test_a_bias_of_a_quarter_with_the_bits_of_a_half_is_flagged() -> None:
    report = audit(fine_plan(), trials=300_000, mechanism=running(fine_plan(), bias=0.25))
    assert report.promise_refuted  # by 6 standard deviations


def test_norms_above_the_bound_are_flagged() -> None:
    wrong = running(fine_plan(), ForgetsToClip)
    report = audit(fine_plan(), trials=400_000, mechanism=wrong)
    assert report.promise_refuted  # by 4 standard deviations


def test_one_noise_draw_for_all_labels_is_flagged() -> None:
    report = audit(fine_plan(), trials=2000, mechanism=running(fine_plan(), DrawsOnce))
    assert report.promise_refuted
    assert report.mu_lower is not None
    assert report.mu_lower > 3


def test_deterministic_rounding_is_flagged_on_a_coarse_grid() -> None:
    plan = certified()
    report = audit(plan, trials=200_000, mechanism=running(plan, RoundsToNearest))
    assert report.promise_refuted  # by 9 standard deviations


def test_deterministic_rounding_is_flagged_where_it_is_hardest_to_see() -> None:
    plan = certified(batch_size=300, horizon=30_000, epsilon=10.0)
    report = audit(plan, trials=600_000, mechanism=running(plan, RoundsToNearest))
    assert report.promise_refuted  # by 4 standard deviations


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_tenth_of_the_noise_bits_missing_is_flagged(seed: int) -> None:
    wrong = running(fine_plan(), noise_bits=922)
    report = audit(fine_plan(), trials=1_600_000, mechanism=wrong, seed=seed)
    assert report.promise_refuted  # by 4.5 standard deviations


def test_less_noise_than_claimed_is_flagged_in_the_local_and_central_models() -> None:
    for protocol in ("local", "central"):
        plan = certified(protocol, horizon=600, epsilon=5.0)
        weak = running(plan, sigma=0.8 * plan.release(0).parameters["sigma"])
        assert audit(plan, trials=20_000, mechanism=weak).promise_refuted  # by 10 at least


def test_a_shuffler_that_does_not_shuffle_is_flagged() -> None:
    plan = certified("amplified-gaussian", batch_size=1000)
    assert plan.promise.mu_at(1e-5) is None
    report = audit(plan, trials=10_000, mechanism=running(plan, DoesNotShuffle))
    assert report.promise_refuted  # delta(0) of 0.06 is claimed, 0.19 is there, 0.03 the width


def test_a_shuffler_that_keeps_both_parts_of_a_report_together_gives_more_away() -> None:
    plan = certified("amplified-gaussian", epsilon=10.0, delta=0.1)
    honest, alike = (
        audit(plan, trials=20_000, mechanism=running(plan, kind)).mu_estimate
        for kind in (AmplifiedGaussianRelease, ShufflesChannelsAlike)
    )
    assert honest is not None
    assert alike is not None
    assert alike > honest + 0.08  # 0.19 is there, with a standard deviation of 0.02


@pytest.mark.parametrize(
    ("protocol", "epsilon", "false"),
    [
        ("local", 1.0, True),
        ("amplified-gaussian", 1.0, True),
        ("central", 1.0, False),
        ("vector-sum", 1.0, False),
        ("local", 10.0, True),
        ("amplified-gaussian", 10.0, True),
        ("central", 10.0, True),
    ],
)
def test_the_scripts_constants_are_flagged_where_they_are_false(
    protocol: str, epsilon: float, false: bool
) -> None:
    script: dict[str, Any] = {"calibration": "released", "delta": 0.1, "horizon": 2000}
    plan = certified(protocol, epsilon=epsilon, **script)
    # Epsilon 10 needs e^10 runs many times over before a rate can be bounded well enough.
    report = audit(plan, trials=20_000 if epsilon == 1 else 300_000)
    assert report.budget_refuted == false
    assert not report.promise_refuted


@pytest.mark.slow
def test_the_scripts_bits_are_flagged_at_epsilon_10() -> None:
    plan = certified(calibration="released", epsilon=10.0, delta=0.1)
    report = audit(plan, trials=6_000_000)
    assert report.budget_refuted
    assert report.delta_lower == pytest.approx(0.144, abs=0.02)


def test_the_scripts_deltas_are_those_of_the_paper_trail() -> None:
    deltas = {
        protocol: audit(
            certified(protocol, calibration="released", delta=0.1), trials=100_000
        ).delta_lower
        for protocol in ("local", "amplified-gaussian")
    }
    # MATH 8 has 0.195 and at least 0.66; bounds are lower by their width of about 0.015.
    assert deltas["local"] == pytest.approx(0.182, abs=0.012)
    assert deltas["amplified-gaussian"] == pytest.approx(0.652, abs=0.012)


def test_an_unproved_plan_is_held_to_its_budget() -> None:
    plan = certified("local", calibration="released", delta=0.1)
    report = audit(plan, trials=20_000, guarantee=unproved("planted"))
    assert report.budget_refuted
    assert report.mu_certified is None


def test_a_report_follows_from_its_seed() -> None:
    first, again, other = (audit(fine_plan(), trials=3000, seed=seed) for seed in (1, 1, 2))
    assert first.middle == again.middle
    assert np.array_equal(first.pair, again.pair)  # type: ignore[arg-type]
    assert first.middle != other.middle


@pytest.mark.parametrize(
    ("options", "named"),
    [({"trials": 10}, "trials"), ({"batches": 0}, "batches"), ({"batches": 1001}, "1001")],
)
def test_bad_arguments_are_refused_by_name(options: dict[str, int], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        audit(certified(), **options)  # type: ignore[arg-type]


def encoded(layout: Layout, pair: Floats) -> Floats:
    return layout.encode(pair, np.array(layout.worst_rewards))


LAYOUTS: list[Layout] = [
    Blocks(6),
    Blocks(9, constant=(1, 0.6), blocks=3),
    LightOffset(2),
    LightOffset(5),
    LightOffset(5, constant=(4, math.sqrt(0.5))),
    LightOffset(4, feature_norm=2.0),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_worst_pair_attains_the_sensitivity(layout: Layout) -> None:
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((layout.free, 2)))[0].T
    moved = [
        np.linalg.norm(np.diff(encoded(layout, turned_pair(layout, frame, cosine)), axis=0))
        for cosine in worst_cosines(layout)
    ]
    assert moved[0] == max(moved)
    assert moved[0] == pytest.approx(layout.sensitivity)


def test_one_dimension_moves_by_a_reward_alone() -> None:
    layout = LightOffset(1)
    (cosine,) = worst_cosines(layout)
    moved = np.diff(encoded(layout, turned_pair(layout, np.ones((1, 1)), cosine)), axis=0)
    assert np.linalg.norm(moved) == pytest.approx(1.0)


def test_the_search_finds_the_papers_layouts_own_worst_pair() -> None:
    plan = certified("local", calibration="theorem", dim=3)
    pair = Runs(plan.mechanism, 1, 1000, 0).search()
    moved = np.diff(encoded(plan.layout, pair), axis=0)
    assert np.linalg.norm(moved) == pytest.approx(plan.layout.sensitivity)


def test_the_search_turns_the_pair_to_where_rounding_adds_most() -> None:
    plan = certified(batch_size=300, horizon=30_000, epsilon=10.0)
    wrong = running(plan, RoundsToNearest)
    release = wrong.release(0)
    assert isinstance(release, RoundsToNearest)
    pair = Runs(wrong, 1, 10_000, 0).search()
    steps, _ = release.steps(encoded(plan.layout, pair))
    assert np.linalg.norm(steps[1] - steps[0]) / release.grid > 1.023 * plan.layout.sensitivity


def worst(layout: Layout) -> Floats:
    frame = np.eye(layout.scored)[:2]
    return encoded(layout, turned_pair(layout, frame, worst_cosines(layout)[0]))


@pytest.mark.parametrize("truth", [0, 1])
@pytest.mark.parametrize(
    "release",
    [
        VectorSumRelease(LightOffset(2), 7, 2.25, 5, 0.5),
        VectorSumRelease(PapersLayout(2), 3, 1.75, 9, 0.25),
        VectorSumRelease(LightOffset(2), 1, 2.25, 5, 0.5),
    ],
    ids=str,
)
def test_viewed_counts_have_the_law_of_sampled_sums(release: VectorSumRelease, truth: int) -> None:
    pair, trials = worst(release.layout), 40_000
    rng = np.random.default_rng(5)
    quick = release.sample_view(pair, truth, trials, rng)
    real = Release.sample_view(release, pair, truth, trials, rng)
    chances = [ks_2samp(quick[:, label], real[:, label]).pvalue for label in range(quick.shape[1])]
    assert min(chances) > 1e-6  # false alarm below 5e-6 over the labels
    spread = np.cov(quick.T) - np.cov(real.T)
    assert np.abs(spread).max() < 0.1 * np.diag(np.cov(real.T)).max()  # 10 standard deviations


def test_a_local_view_is_the_users_own_report() -> None:
    release = LocalRelease(LightOffset(2), 50, 2.0)
    pair = worst(release.layout)
    seen = release.sample_view(pair, 1, 20_000, np.random.default_rng(6))
    # Five standard deviations over eight coordinates: false alarm below 1e-5.
    assert seen.mean(axis=0) == pytest.approx(pair[1], abs=5 * 2 / math.sqrt(20_000))
    scaled = ((seen - pair[1]) ** 2).sum(axis=0) / 4
    assert np.all(chi2.cdf(scaled, 20_000) > 1e-6)
    assert np.all(chi2.sf(scaled, 20_000) > 1e-6)


def test_a_central_view_holds_every_node_above_the_user() -> None:
    plan = certified("central", horizon=160, strategy="tree")
    assert isinstance(plan.release(0), CentralRelease)
    seen = plan.mechanism.sample_view(worst(plan.layout), 1, 1, 50, np.random.default_rng(7))
    assert seen.shape == (50, plan.schedule.batches)


def test_shuffled_rows_are_a_uniform_permutation() -> None:
    release = AmplifiedGaussianRelease(LightOffset(2), 5, 1.0)
    rows = np.tile(np.arange(5.0), (50_000, 1))
    moved = release.shuffle_rows(rows, np.random.default_rng(8))
    assert np.array_equal(np.sort(moved, axis=1), rows)
    counts = np.array([np.bincount(column.astype(int), minlength=5) for column in moved.T])
    # Each of 25 counts has a standard deviation of 89: false alarm below 1e-6.
    assert np.abs(counts - 10_000).max() < 5.5 * 89
    assert np.array_equal(rows[0], np.arange(5.0))


def test_permuted_reports_hide_the_likelihood_ratio_that_they_should() -> None:
    release = AmplifiedGaussianRelease(LightOffset(2), 6, 1.3)
    seen = release.sample_view(worst(release.layout), 0, 200_000, np.random.default_rng(9))
    # Under the first side a likelihood ratio has mean 1, in each column by itself.
    ratios = np.exp(seen)
    width = 5 * ratios.std(axis=0) / math.sqrt(len(seen))
    assert np.all(np.abs(ratios.mean(axis=0) - 1) < width)  # false alarm below 2e-6
