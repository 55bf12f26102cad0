"""Randomised unary codes: their law bit by bit, what a report is worth, and the calibrations."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, ks_2samp

from croupier.analyzer import Analyzer
from croupier.baselines.garcelon import Garcelon, GarcelonRelease, amplifiable, reach
from croupier.client import Client
from croupier.errors import GuaranteeError, RefusedError
from croupier.layouts import Layout, LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.privacy.shuffled_reports.local import most_local_epsilon
from croupier.protocols.base import Terms
from croupier.schedules import FixedBatches
from croupier.simulation.audit import audit
from croupier.simulation.sweep import simulate
from croupier.simulation.synthetic import Sphere
from croupier.theory.promises import Promise, shuffled

Floats = NDArray[np.float64]


BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3, "honest_fraction": 1.0}


def plan(**changes: Any) -> Plan:
    asked: dict[str, Any] = {"dim": 3, "batch_size": 100, "horizon": 2000, "batches": "fixed"}
    return Plan.calibrate("garcelon", **{**asked, **BUDGET, **changes})


def users_of(layout: Layout, count: int, seed: int = 0) -> Floats:
    """Contributions ``(count, size)`` of users on the sphere."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((count, layout.scored))
    features *= layout.norm / np.linalg.norm(features, axis=1, keepdims=True)
    return layout.encode(features, rng.random(count))


def send_bits(release: GarcelonRelease, contributions: Floats, rng: np.random.Generator) -> Any:
    """Reports ``(users, size, bits)`` as the words say: round, write in unary, keep or replace."""
    levels = release.bits * (contributions - release.layout.low) / release.width
    floor = np.floor(levels)
    ones = floor + (rng.random(levels.shape) < levels - floor)
    code = np.arange(release.bits) < ones[..., None]
    coins = rng.random(code.shape) < 0.5
    return np.where(rng.random(code.shape) < release.replaced, coins, code)


def counts_of(release: GarcelonRelease, sums: Floats) -> NDArray[np.int64]:
    """The counts that were turned into sums."""
    shares = (sums - release.users * release.layout.low) / release.width
    flips = release.users * release.bits * release.replaced / 2
    return np.rint(shares * release.bits * release.kept + flips).astype(np.int64)


def exact_law(release: GarcelonRelease, contributions: Floats, label: int) -> Floats:
    """Probabilities of the counts of one coordinate: all bits are independent."""
    law = np.ones(1)
    for row in contributions:
        for chance in release.chances(row)[0][label]:
            law = np.convolve(law, [1 - chance, chance])
    return law


@pytest.mark.parametrize("bits", [1, 2, 5])
def test_the_shortcut_and_the_bits_both_have_the_exact_law(bits: int) -> None:
    release = GarcelonRelease(LightOffset(2), 3, bits, 0.8)
    rows = users_of(release.layout, 3)
    rng = np.random.default_rng(4)
    runs = 4000
    quick = counts_of(release, release.sample_sum(np.broadcast_to(rows, (runs, *rows.shape)), rng))
    real = np.array([send_bits(release, rows, rng).sum(axis=(0, 2)) for _ in range(runs)])
    for label in range(release.layout.size):
        law = exact_law(release, rows, label)
        common = law * runs >= 5
        for counts in (quick, real):
            seen = np.bincount(counts[:, label], minlength=law.size)
            observed = np.append(seen[common], seen[~common].sum())
            expected = np.append(law[common], law[~common].sum()) * runs
            kept = expected > 0
            # 2 * 5 * 3 tests share a false-alarm rate of 3e-5.
            assert chisquare(observed[kept], expected[kept]).pvalue > 1e-6


def test_the_shortcut_has_the_law_of_the_bits_in_a_larger_batch() -> None:
    release = GarcelonRelease(LightOffset(3), 40, 3, 0.4)
    rows = users_of(release.layout, 40)
    rng = np.random.default_rng(5)
    quick = release.sample_sum(np.broadcast_to(rows, (3000, *rows.shape)), rng)
    counts = np.array([send_bits(release, rows, rng).sum(axis=(0, 2)) for _ in range(3000)])
    real = release.debias(counts)
    for label in range(release.layout.size):
        # Nine tests, false alarms 1e-5 in all; ties make them rarer.
        assert ks_2samp(quick[:, label], real[:, label]).pvalue > 1e-6
    apart = np.corrcoef(quick.T) - np.corrcoef(real.T)
    # Standard deviation 0.026 a pair; 36 pairs beyond 6 of them once in 10 million runs.
    assert np.abs(apart).max() < 6 * math.sqrt(2 / 3000)


@pytest.mark.parametrize("bits", [1, 2, 7])
@pytest.mark.parametrize(
    "layout", [LightOffset(3), LightOffset(3, constant=(1, 0.4)), PapersLayout(3)], ids=str
)
def test_de_biasing_is_exact_in_the_mean(bits: int, layout: Layout) -> None:
    release = GarcelonRelease(layout, 6, bits, 0.3)
    rows = users_of(release.layout, 6)
    mean = sum(release.chances(row)[0].sum(axis=1) for row in rows)
    np.testing.assert_allclose(release.debias(mean), rows.sum(axis=0), atol=1e-12)


def test_real_bits_are_unbiased() -> None:
    release = GarcelonRelease(LightOffset(2), 10, 2, 0.5)
    rows, rng = users_of(release.layout, 10), np.random.default_rng(6)
    many = np.broadcast_to(rows, (20_000, *rows.shape))
    mean = release.debias(send_bits(release, many, rng).sum(axis=(1, 3))).mean(axis=0)
    # Five coordinates beyond 5 standard errors once in 300,000 runs.
    assert np.abs(mean - rows.sum(axis=0)).max() < 5 * release.noise_std / math.sqrt(20_000)


def test_de_biasing_is_that_of_the_notes() -> None:
    release = GarcelonRelease(PapersLayout(2), 30, 4, 0.7)
    p, counts = release.replaced, np.arange(5)
    noted = counts / (4 * (1 - p)) - 30 * p / (2 * (1 - p))
    # Coordinates in [-1, 1] are shifted to (x + 1)/2.
    np.testing.assert_allclose(release.debias(counts), 2 * noted - 30)


def test_the_replaced_share_is_that_of_the_notes() -> None:
    made = plan(calibration="theorem", dim=4, epsilon=1e-3, batch_size=500).release(0)
    assert isinstance(made, GarcelonRelease)
    local = made.bits * 4 * 7 / 2 * made.bit_epsilon
    expected = 2 / (math.exp(2 * local / (made.bits * 4 * 7)) + 1)
    assert made.replaced == pytest.approx(expected, rel=1e-12)
    assert made.kept == pytest.approx(1 - made.replaced, rel=1e-9)
    assert local == pytest.approx(amplifiable(Budget(1e-3, 1e-3), 500), rel=1e-9)


@pytest.mark.parametrize("bits", [1, 2, 6])
@pytest.mark.parametrize("bit_epsilon", [0.01, 0.5, 6.0])
def test_the_stated_noise_is_the_worst_of_the_exact_variance(bits: int, bit_epsilon: float) -> None:
    release = GarcelonRelease(LightOffset(2), 9, bits, bit_epsilon)
    scale = (release.width / (bits * release.kept)) ** 2

    def variance(shifted: float) -> float:
        row = release.layout.low + shifted * release.width
        ones, zeros = release.chances(row)
        return float(9 * scale * (ones * zeros).sum(axis=1).max())

    between, on = (level / bits for level in (0.5, 0.0))
    assert variance(between) == pytest.approx(release.noise_std**2)
    assert variance(on) == pytest.approx(release.privacy_noise_std**2)


def law_of_report(release: GarcelonRelease, row: Floats, label: int) -> Floats:
    """Probabilities of all ``2**bits`` codes that may be sent, by the words and by enumeration."""
    level = release.bits * float(release.codes(row)[label])
    floor = math.floor(level)
    flip = release.replaced / 2
    law = np.zeros(2**release.bits)
    for ones, chance in ((floor, 1 - level + floor), (floor + 1, level - floor)):
        code = np.arange(release.bits) < ones
        for number, sent in enumerate(itertools.product((False, True), repeat=release.bits)):
            flips = int((np.array(sent) != code).sum())
            law[number] += chance * flip**flips * (1 - flip) ** (release.bits - flips)
    return law


def loss(release: GarcelonRelease, first: Floats, second: Floats) -> float:
    """The exact largest log-likelihood ratio of a report; coordinates are independent."""
    return sum(
        float(np.log(law_of_report(release, first, j) / law_of_report(release, second, j)).max())
        for j in range(release.layout.size)
    )


def legal_users(layout: Layout) -> Floats:
    """A grid of features of any norm up to the largest, with rewards 0 and 1."""
    if layout.scored == 1:
        features = layout.norm * np.linspace(-1, 1, 9)[:, None]
    else:
        angles = np.linspace(0, 2 * math.pi, 16, endpoint=False)
        circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        features = layout.norm * np.concatenate([circle, 0.6 * circle, np.zeros((1, 2))])
    return np.concatenate([layout.encode(features, np.full(len(features), y)) for y in (0.0, 1.0)])


REPORTS = [
    (LightOffset(1), 1, 0.3),
    (LightOffset(1), 3, 2.0),
    (LightOffset(2), 1, 0.1),
    (LightOffset(2), 1, 3.0),
    (LightOffset(2), 2, 0.4),
    (PapersLayout(2), 2, 0.4),
    (PapersLayout(2, feature_norm=math.sqrt(2)), 1, 0.2),
]


@pytest.mark.parametrize(("layout", "bits", "bit_epsilon"), REPORTS, ids=str)
def test_no_two_users_are_easier_to_tell_apart_than_promised(
    layout: Layout, bits: int, bit_epsilon: float
) -> None:
    release = GarcelonRelease(layout, 10, bits, bit_epsilon)
    rows = legal_users(layout)
    worst = max(loss(release, first, second) for first in rows for second in rows)
    assert 0.4 * release.local_epsilon < worst <= release.local_epsilon * (1 + 1e-9)
    # The check has power: a report of a third of the noise breaks the promise.
    louder = replace(release, bit_epsilon=3 * bit_epsilon)
    found = max(loss(louder, first, second) for first in rows for second in rows)
    assert found > release.local_epsilon


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_two_codes_may_differ_in_all_their_bits(bits: int) -> None:
    release = GarcelonRelease(PapersLayout(1), 10, bits, 0.3)
    low, high = release.layout.low, release.layout.high
    assert loss(release, low, high) == pytest.approx(2 * bits * 0.3)


def test_contributions_move_fewer_bits_than_there_are() -> None:
    layout = PapersLayout(5)
    assert reach(layout) == pytest.approx(math.sqrt(4.5 * 20) / 2)
    rows = users_of(layout, 400, seed=8)
    release = GarcelonRelease(layout, 10, 1, 0.1)
    codes = release.codes(rows)
    apart = np.abs(codes[:, None] - codes[None]).sum(axis=-1)
    assert 2.5 < apart.max() <= reach(layout)


def test_chances_are_those_of_the_enumerated_report() -> None:
    release = GarcelonRelease(LightOffset(2), 10, 3, 0.7)
    row = users_of(release.layout, 1)[0]
    ones, zeros = release.chances(row)
    np.testing.assert_allclose(ones + zeros, 1.0)
    sent = np.array(list(itertools.product((0, 1), repeat=3)))
    for label in range(release.layout.size):
        product = np.where(sent, ones[label], zeros[label]).prod(axis=1)
        np.testing.assert_allclose(law_of_report(release, row, label), product)


def test_theorem_is_refused_outside_its_range_with_both_numbers() -> None:
    most = 1 / (27 * 2000**0.25)
    with pytest.raises(GuaranteeError, match=r"needs epsilon <= 1/\(27 T\^\(1/4\)\), but 1 > 0.00"):
        plan(calibration="theorem")
    with pytest.raises(GuaranteeError, match=f"{most:.6g}"):
        plan(calibration="theorem", epsilon=1.001 * most)
    assert plan(calibration="theorem", epsilon=most).met
    assert plan(calibration="theorem", outside=True).release(0).noise_std > 0


def test_users_who_return_get_a_share_of_the_theorems_budget() -> None:
    once, twice = (
        plan(calibration="theorem", epsilon=1e-3, max_participations=count) for count in (1, 2)
    )
    assert twice.met
    assert twice.release(0).noise_std > once.release(0).noise_std
    with pytest.raises(GuaranteeError, match="thm:composition needs epsilon < 1"):
        plan(calibration="theorem", max_participations=2)


@pytest.mark.parametrize(("epsilon", "users"), [(0.5, 1000), (1e-3, 10**5), (2.0, 10**6)])
def test_the_amplified_epsilon_is_the_largest_that_the_lemma_allows(
    epsilon: float, users: int
) -> None:
    local = amplifiable(Budget(epsilon, 1e-5), users)
    assert shuffled(Promise(local, 0.0), users, 1e-5).epsilon <= epsilon * (1 + 1e-12)
    most = math.log(users / (16 * math.log(2e5)))
    if local < most * (1 - 1e-9):
        assert shuffled(Promise(1.001 * local, 0.0), users, 1e-5).epsilon > epsilon


def test_a_batch_too_small_for_the_lemma_is_not_amplified() -> None:
    assert amplifiable(Budget(0.5, 1e-5), 100) == 0.5


@pytest.mark.parametrize("participations", [1, 3])
@pytest.mark.parametrize(
    ("epsilon", "delta", "users"),
    [(1.0, 1e-5, 1000), (0.2, 0.1, 20), (5.0, 1e-6, 300), (30.0, 1e-9, 10)],
)
def test_certified_noise_meets_the_budget_and_is_the_least(
    participations: int, epsilon: float, delta: float, users: int
) -> None:
    budget, layout, sizes = Budget(epsilon, delta), LightOffset(3), FixedBatches(users, 10 * users)
    made = Garcelon.calibrate(budget, layout, sizes, Terms("certified", participations))
    assert made.guarantee(participations).meets(budget)
    first = made.releases[0]
    assert isinstance(first, GarcelonRelease)
    louder = replace(made, releases=(replace(first, bit_epsilon=1.001 * first.bit_epsilon),))
    assert not louder.guarantee(participations).meets(budget)
    local = most_local_epsilon(budget, users=users, batches=participations)
    assert made.local_guarantee().epsilon(0.0) == pytest.approx(local, rel=1e-6)


def test_users_who_are_not_honest_hide_nobody() -> None:
    honest, doubted = plan(), plan(honest_fraction=0.5)
    assert doubted.met
    assert doubted.release(0).noise_std > honest.release(0).noise_std
    half = plan(batch_size=50)
    assert doubted.release(0).parameters == half.release(0).parameters


def test_the_batch_that_tells_most_decides_for_a_user_who_returns() -> None:
    made = plan(batches="growing", batch_size=50, max_participations=2)
    assert made.met
    assert len({json.dumps(one.parameters) for one in made.mechanism.releases}) == 1
    assert made.promise_for(1).epsilon(1e-3) < made.promise_for(2).epsilon(1e-3) <= 1 + 1e-9


def test_every_batch_of_a_growing_schedule_is_certified_for_its_own_size() -> None:
    made = plan(batches="growing", batch_size=50)
    locals_ = [one.parameters["bit_epsilon"] for one in made.mechanism.releases[:-1]]
    assert made.met
    assert locals_ == sorted(locals_)
    assert locals_[0] < locals_[-1]


def test_one_bit_is_best_unless_a_report_may_tell_almost_everything() -> None:
    assert plan().release(0).parameters["bits"] == 1
    assert plan(dim=10, batch_size=1000, horizon=10**4).release(0).parameters["bits"] == 1
    loud = plan(dim=1, epsilon=60.0).release(0)
    assert isinstance(loud, GarcelonRelease)
    assert loud.bits > 1
    others = [
        replace(
            loud, bits=bits, bit_epsilon=loud.local_epsilon / (loud.layout.size * bits)
        ).noise_std
        for bits in range(1, 65)
    ]
    assert loud.noise_std <= min(others) * (1 + 1e-9)


def test_a_plan_is_read_back_and_says_that_models_wait_for_the_determinant() -> None:
    for made in (plan(), plan(calibration="theorem", epsilon=1e-3)):
        again = Plan.from_json(made.to_json())
        assert again == made
        assert again.guarantees() == made.guarantees()
        document = json.loads(made.to_json())
        assert document["publication"] == {"name": "determinant", "growth": 1.5}
        assert document["most_publications"] is None
    assert plan(publication="every").publication.name == "every"


def test_released_constants_are_not_offered() -> None:
    with pytest.raises(GuaranteeError, match="it offers: certified, theorem"):
        plan(calibration="released")


@pytest.mark.parametrize(
    ("bits", "bit_epsilon", "message"),
    [
        (0, 1.0, "bits must be a whole number of at least 1, got 0"),
        (1, 0.0, "bit_epsilon must be above 0, got 0.0"),
        (1, math.inf, "bit_epsilon must be a finite number, got inf"),
    ],
)
def test_a_report_without_bits_or_noise_is_refused(
    bits: int, bit_epsilon: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GarcelonRelease(LightOffset(2), 10, bits, bit_epsilon)


@pytest.mark.parametrize("role", [Client, Analyzer])
def test_it_cannot_be_deployed(role: type) -> None:
    with pytest.raises(RefusedError, match="garcelon is a baseline for simulations"):
        role(plan())


@pytest.mark.parametrize("policy", ["ucb", "sampling"])
def test_it_learns_with_fewer_models_than_batches(policy: str) -> None:
    made = plan(epsilon=20.0, delta=0.1, horizon=4000, policy=policy)
    outcome = simulate(made, Sphere(3, 10), trials=10, seed=2)
    assert 0 < outcome.publications.mean() < made.schedule.batches
    assert np.isfinite(outcome.regret).all()
    # Regret of later rounds is below that of as many first ones, in the mean over trials.
    half = outcome.mean[outcome.rounds.size // 2]
    assert outcome.mean[-1] - half < half


def audited(made: Plan, kind: type[GarcelonRelease] = GarcelonRelease, **changes: Any) -> Any:
    first = made.release(0)
    run = kind(made.layout, first.users, **{**first.parameters, **changes})
    return audit(made, trials=20_000, mechanism=replace(made.mechanism, releases=(run,)))


class DoesNotShuffle(GarcelonRelease):
    def shuffle_rows(self, rows: Floats, rng: np.random.Generator) -> Floats:
        return rows


@pytest.mark.parametrize("changes", [{}, {"max_participations": 2}, {"dim": 1, "epsilon": 8.0}])
def test_an_honest_plan_passes_the_audit(changes: dict[str, Any]) -> None:
    # Flagged in 0.1 % of the seeds at most.
    report = audited(plan(batch_size=20, horizon=200, **changes))
    assert report.guarantee.proved
    assert not report.flagged


def test_faults_are_found_by_the_audit() -> None:
    made = plan(batch_size=20, horizon=200, epsilon=0.5, delta=1e-3)
    assert audited(made, bit_epsilon=6 * made.release(0).parameters["bit_epsilon"]).flagged
    assert audited(plan(batch_size=200, epsilon=0.3), DoesNotShuffle).flagged
