from __future__ import annotations

import itertools
import math
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import kstest

from croupier.analyzer import Analyzer
from croupier.baselines import server_noise
from croupier.baselines.central import Central, CentralRelease
from croupier.baselines.server_noise import FreshSum, ServerNoise, ToeplitzSum, TreeSum
from croupier.client import Client
from croupier.errors import GuaranteeError, RefusedError
from croupier.layouts import LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.privacy.gdp import sigma_of
from croupier.protocols.base import Floats, Terms
from croupier.protocols.running_sums import PrefixSums
from croupier.schedules import FixedBatches, GrowingBatches
from croupier.simulation import engine
from croupier.simulation.synthetic import Sphere

STRATEGIES = ("toeplitz", "tree", "fresh")
SWAP = math.sqrt(9 / 8)
"""The sensitivity of the layout."""


class Powers:
    """Draw number k gives 2^k everywhere, so a sum tells which draws are in it."""

    def __init__(self) -> None:
        self.scales: list[float] = []

    def normal(self, mean: float, scale: float, shape: tuple[int, ...]) -> Floats:
        self.scales.append(scale)
        return np.full(shape, 2.0 ** (len(self.scales) - 1))


def tree(draws: object, sigma: float = 1.0) -> TreeSum:
    return TreeSum(sigma, cast("np.random.Generator", draws))


def chain(step: int) -> list[int]:
    """Steps whose nodes make up the prefix: take off the lowest set bit again and again."""
    return [step, *chain(step & (step - 1))] if step else []


def plan(**changes: Any) -> Plan:
    asked: dict[str, Any] = {
        "dim": 5,
        "batch_size": 20,
        "horizon": 20_000,
        "calibration": "theorem",
        "epsilon": 1.0,
        "delta": 0.1,
    }
    return Plan.calibrate("central", **{**asked, **changes})


def mechanism(steps: int, sigma: float = 2.0, strategy: str = "tree") -> Central:
    layout = LightOffset(2)
    release = CentralRelease(layout, 1, sigma, strategy)
    return Central(layout, FixedBatches(1, steps), (release,))


def calibrated(
    steps: int, budget: Budget, participations: int = 1, strategy: str | None = None
) -> Central:
    terms = Terms("certified", participations, strategy=strategy)
    return Central.calibrate(budget, LightOffset(3), FixedBatches(1, steps), terms)


def root(steps: int) -> Floats:
    """The square root of the matrix of prefix sums, from binomials."""
    rows, columns = np.indices((steps, steps))
    values = [math.comb(2 * lag, lag) / 4**lag for lag in range(steps)]
    return np.where(rows >= columns, np.array(values)[np.abs(rows - columns)], 0.0)


class UnitDraws:
    """Draw number k is 1 in coordinate k and 0 elsewhere, so a sum shows how draws enter it."""

    def __init__(self) -> None:
        self._drawn = 0

    def normal(self, mean: float, scale: float, shape: tuple[int, ...]) -> Floats:
        self._drawn += 1
        return np.asarray(scale * (np.arange(*shape) == self._drawn - 1))

    def standard_normal(self, shape: tuple[int, int]) -> Floats:
        return np.eye(*shape)


def noise_matrix(made: Central) -> Floats:
    """Prefix noise ``(steps, draws)`` of one coordinate as a linear map of all draws."""
    steps = made.schedule.batches
    running = PrefixSums(made.running_sum(cast("np.random.Generator", UnitDraws())), steps)
    return np.array([running.add(step, np.zeros(steps))[0] for step in range(steps)])


def test_a_prefix_has_the_noise_of_its_nodes_each_drawn_once_and_kept() -> None:
    draws = Powers()
    running = tree(draws, sigma=3.0)
    for step in range(1, 41):
        prefix = running.part(step - 1, np.zeros(2)).sums
        # One draw a step; the node of step s carries draw s - 1 for as long as it is used.
        assert len(draws.scales) == step
        assert prefix.tolist() == [sum(2.0 ** (s - 1) for s in chain(step))] * 2
    assert set(draws.scales) == {3.0}


def test_a_prefix_has_as_many_noise_terms_as_its_step_has_set_bits() -> None:
    running = tree(Powers())
    for step in range(1, 41):
        part = running.part(step - 1, np.zeros(1))
        assert int(part.sums[0]).bit_count() == step.bit_count() == len(running.nodes)
        assert part.variance == step.bit_count()


def test_a_completed_node_gets_fresh_noise_and_its_children_go() -> None:
    running = tree(Powers())
    prefixes = [int(running.part(step, np.zeros(1)).sums[0]) for step in range(4)]
    # Step 2 and step 4 share no draw with what they swallow.
    assert prefixes == [0b0001, 0b0010, 0b0110, 0b1000]
    assert list(running.nodes) == [2]


def test_sums_are_exact_when_noise_is_tiny() -> None:
    running = tree(np.random.default_rng(0), sigma=1e-12)
    rows = np.random.default_rng(1).normal(size=(37, 3))
    for step, row in enumerate(rows):
        prefix = running.part(step, row).sums
        assert prefix == pytest.approx(rows[: step + 1].sum(axis=0), abs=1e-9)


def test_prefix_noise_has_the_variance_it_states() -> None:
    running = tree(np.random.default_rng(2), sigma=1.5)
    for step in range(7):
        part = running.part(step, np.zeros((5000, 2)))
        # Seven tests of false-alarm rate 1e-7 each.
        assert kstest(part.sums.ravel() / math.sqrt(part.variance), "norm").pvalue > 1e-7
    assert part.variance == pytest.approx(3 * 1.5**2)


def test_trials_and_coordinates_get_their_own_noise() -> None:
    prefix = tree(np.random.default_rng(3)).part(0, np.zeros((4, 3))).sums
    assert len(set(prefix.ravel())) == 12


def test_a_leaf_is_the_exact_sum_of_a_batch() -> None:
    made = plan()
    rows = np.random.default_rng(4).normal(size=(2, 20, made.layout.size))
    leaf = made.release(0).sample_sum(rows, np.random.default_rng(5))
    assert np.array_equal(leaf, rows.sum(axis=1))
    assert made.users(0) == 20
    assert made.schedule.batches == 1000


@pytest.mark.parametrize("columns_at_once", [1, 3, 100])
def test_rooted_noise_is_the_root_times_fresh_noise(
    columns_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_noise, "DRAWN_AT_ONCE", 11 * columns_at_once)
    running = ToeplitzSum(2.0, 11, np.random.default_rng(6))
    prefixes = np.array([running.part(step, np.zeros((2, 3))).sums for step in range(11)])
    rng = np.random.default_rng(6)
    widths = [len(part) for part in np.array_split(np.arange(6), math.ceil(6 / columns_at_once))]
    fresh = np.hstack([rng.standard_normal((11, width)) for width in widths])
    assert prefixes.reshape(11, 6) == pytest.approx(2.0 * root(11) @ fresh, abs=1e-12)


def test_rooted_noise_has_the_covariance_of_the_factorisation() -> None:
    draws, sigma = 100_000, 1.5
    running = ToeplitzSum(sigma, 6, np.random.default_rng(7))
    prefixes = np.array([running.part(step, np.zeros(draws)).sums for step in range(6)])
    stated = sigma**2 * root(6) @ root(6).T
    spread = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / draws)
    # 21 entries, each beyond 6 standard errors with probability 2e-9: false alarms 4e-8.
    assert np.all(np.abs(prefixes @ prefixes.T / draws - stated) < 6 * spread)


def test_rooted_noise_states_its_variance_exactly() -> None:
    running = ToeplitzSum(1.5, 30, np.random.default_rng(8))
    stated = [running.part(step, np.zeros(2)).variance for step in range(30)]
    assert stated == pytest.approx(np.diag(1.5**2 * root(30) @ root(30).T), rel=1e-13)
    assert stated == sorted(stated)
    assert stated[-1] == mechanism(30, 1.5, "toeplitz").largest_noise_variance(30)


def test_rooted_sums_are_exact_when_noise_is_tiny() -> None:
    running = ToeplitzSum(1e-12, 37, np.random.default_rng(0))
    rows = np.random.default_rng(1).normal(size=(37, 4, 3))
    for step, row in enumerate(rows):
        prefix = running.part(step, row).sums
        assert prefix == pytest.approx(rows[: step + 1].sum(axis=0), abs=1e-9)


@pytest.mark.parametrize("index", [-1, 4])
def test_rooted_noise_ends_with_the_horizon(index: int) -> None:
    with pytest.raises(ValueError, match=f"index must be below the 4 steps planned, got {index}"):
        ToeplitzSum(1.0, 4, np.random.default_rng(0)).part(index, np.zeros(2))


@pytest.mark.parametrize("strategy", ["toeplitz", "tree"])
def test_correlated_noise_makes_every_prefix_one_sum_from_the_start(strategy: str) -> None:
    running = mechanism(9, strategy=strategy).running_sum(np.random.default_rng(9))
    assert isinstance(running, ServerNoise)
    for step in range(9):
        part = running.part(step, np.ones(2))
        assert (part.start, part.stop) == (0, step + 1)
        assert list(running.starts(step + 1)) == [0]


def test_fresh_noise_makes_every_batch_a_sum_of_its_own() -> None:
    running, draws = FreshSum(1.5, np.random.default_rng(10)), []
    for step in range(7):
        part = running.part(step, np.full((5000, 2), float(step)))
        assert (part.start, part.stop, part.variance) == (step, step + 1, 1.5**2)
        assert list(running.starts(step + 1)) == [step + 1]
        draws.append((part.sums - step).ravel() / 1.5)
    # One test of false-alarm rate 1e-7, and 21 correlations of deviation 0.01 beyond 6 of them.
    assert kstest(np.concatenate(draws), "norm").pvalue > 1e-7
    assert np.abs(np.corrcoef(draws) - np.eye(7)).max() < 0.06


def test_a_model_of_the_past_is_not_changed_by_later_steps() -> None:
    running = ToeplitzSum(1.0, 3, np.random.default_rng(0))
    first = running.part(0, np.ones(2)).sums
    kept = first.copy()
    running.part(1, np.ones(2))
    assert np.array_equal(first, kept)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("steps", [1, 2, 5, 8, 11])
@pytest.mark.parametrize("participations", [1, 2, 4])
def test_mu_is_that_of_the_likelihood_of_all_published_prefixes(
    strategy: str, steps: int, participations: int
) -> None:
    made = mechanism(steps, strategy=strategy)
    noise, prefixes = noise_matrix(made), np.tril(np.ones((steps, steps)))
    inverse = np.linalg.inv(noise @ noise.T)
    placements = itertools.combinations(range(steps), min(participations, steps))
    shifts = [prefixes[:, list(chosen)].sum(axis=1) for chosen in placements]
    # N(m, S) against N(m + shift, S) is mu-GDP with mu^2 = shift' S^-1 shift and no less.
    largest = max(math.sqrt(shift @ inverse @ shift) for shift in shifts)
    mu = made.joint_guarantee(participations).mu
    assert mu == pytest.approx(SWAP * largest, rel=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("participations", [1, 7, 500])
@pytest.mark.parametrize(("epsilon", "delta"), [(1e-3, 1e-9), (0.2, 0.1), (1.0, 1e-6), (50.0, 0.9)])
def test_certified_noise_meets_the_budget_and_is_the_least(
    strategy: str, participations: int, epsilon: float, delta: float
) -> None:
    budget = Budget(epsilon, delta)
    made = calibrated(300, budget, participations, strategy)
    assert made.joint_guarantee(participations).meets(budget)
    less = CentralRelease(made.layout, 1, 0.999 * made.sigma, strategy)
    weaker = Central(made.layout, made.schedule, (less,))
    assert not weaker.joint_guarantee(participations).meets(budget)
    assert not made.joint_guarantee(participations + 1).meets(budget) or participations >= 300


def test_certified_noise_is_rooted_unless_the_tree_is_asked_for() -> None:
    budget = Budget(1.0, 1e-6)
    assert calibrated(9, budget).releases == calibrated(9, budget, strategy="toeplitz").releases
    assert isinstance(calibrated(9, budget).running_sum(np.random.default_rng()), ToeplitzSum)
    asked = calibrated(9, budget, strategy="tree")
    assert isinstance(asked.running_sum(np.random.default_rng()), TreeSum)
    assert asked.joint_guarantee().method == "exact Gaussian binary tree (MATH 3)"
    assert "square-root" in calibrated(9, budget).joint_guarantee().method


@pytest.mark.parametrize("participations", [1, 3, 100])
def test_batches_that_grow_are_released_fresh_at_the_noise_of_one_gaussian(
    participations: int,
) -> None:
    budget, sizes = Budget(1.0, 1e-6), GrowingBatches(20, 5000)
    made = Central.calibrate(budget, LightOffset(3), sizes, Terms("certified", participations))
    assert isinstance(made.running_sum(np.random.default_rng()), FreshSum)
    present = min(participations, sizes.batches)
    assert made.sigma == pytest.approx(sigma_of(SWAP * math.sqrt(present), 1.0, 1e-6), rel=1e-9)
    assert made.joint_guarantee().method == "exact Gaussian, one release a batch"
    for name, kind in (("toeplitz", ToeplitzSum), ("tree", TreeSum)):
        asked = Central.calibrate(
            budget, LightOffset(3), sizes, Terms("certified", strategy=name)
        ).running_sum(np.random.default_rng())
        assert isinstance(asked, kind)


def test_certified_noise_of_a_long_horizon_is_that_of_the_notes() -> None:
    # MATH 6.1 and 6.4 in units of sensitivity over mu: 4.2 against 14.5.
    for strategy, expected in (("toeplitz", 4.2), ("tree", 14.5)):
        made = calibrated(20_000, Budget(1.0, 1e-6), strategy=strategy)
        mu = made.joint_guarantee().mu
        assert mu is not None
        noise = math.sqrt(made.largest_noise_variance(20_000))
        assert noise * mu / made.layout.sensitivity == pytest.approx(expected, abs=0.051)


@pytest.mark.parametrize(
    ("calibration", "strategy", "offered"),
    [
        ("certified", "ladder", "toeplitz, tree, fresh for certified noise"),
        ("theorem", "toeplitz", "tree for theorem noise"),
        ("released", "toeplitz", "tree for released noise"),
    ],
)
def test_a_strategy_that_is_not_offered_is_refused(
    calibration: str, strategy: str, offered: str
) -> None:
    terms = Terms(calibration, strategy=strategy)
    with pytest.raises(ValueError, match=f"strategy must be one of {offered}, got {strategy!r}"):
        Central.calibrate(Budget(0.5, 0.1), PapersLayout(3), FixedBatches(2, 20), terms)


def test_a_release_of_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(
        ValueError, match="strategy must be one of toeplitz, tree, fresh, got 'ladder'"
    ):
        CentralRelease(LightOffset(2), 1, 1.0, "ladder")


@pytest.mark.parametrize("calibration", ["theorem", "released"])
def test_the_papers_constants_always_use_the_tree(calibration: str) -> None:
    made = plan(calibration=calibration)
    assert made.release(0).parameters["strategy"] == "tree"
    named = Terms(calibration, strategy="tree")
    again = Central.calibrate(made.budget, made.layout, made.schedule, named)
    assert again.releases == made.mechanism.releases


def test_a_certified_plan_runs_from_end_to_end() -> None:
    made = plan(calibration="certified", batch_size=2, horizon=60, epsilon=3.0)
    assert made.met
    assert isinstance(made.layout, LightOffset)
    assert Plan.from_json(made.to_json()) == made
    curves = engine.run(made, Sphere(5, 10), 0, range(3), points=20)
    assert curves.regret.shape == (3, 20)
    assert np.all(np.diff(curves.regret, axis=1) >= 0)
    again = engine.run(made, Sphere(5, 10), 0, range(3), points=20)
    assert np.array_equal(curves.regret, again.regret)


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 7, 8, 1000])
def test_the_largest_prefix_variance_is_that_of_the_worst_step(batches: int) -> None:
    worst = max(step.bit_count() for step in range(1, batches + 1))
    assert mechanism(batches).largest_noise_variance(batches) == worst * 4.0


def test_the_tree_needs_the_servers_randomness() -> None:
    with pytest.raises(ValueError, match="rng must be given"):
        plan().mechanism.running_sum()


def test_theorem_sigma_is_that_of_shariff_and_sheffet() -> None:
    depth = 1 + math.ceil(math.log2(1000))
    sigma = 4 * math.sqrt(depth) * 2 * math.log(40) / 0.5
    assert plan(epsilon=0.5).release(0).parameters["sigma"] == pytest.approx(sigma)
    twice = plan(epsilon=0.5, max_participations=2)
    assert twice.release(0).parameters["sigma"] == pytest.approx(2 * sigma)


def test_released_sigma_is_that_of_the_script() -> None:
    made = plan(calibration="released", batch_size=1)
    sigma = math.sqrt(math.log(20_000)) * math.log(25)
    assert made.release(0).parameters["sigma"] == pytest.approx(sigma)
    scale = made.mechanism.released_scale(made.budget).scale
    assert scale == pytest.approx(sigma * math.sqrt(math.log(20_000)) * math.sqrt(5))


def test_theorem_refuses_epsilon_above_one_with_both_numbers() -> None:
    with pytest.raises(GuaranteeError, match=r"Shariff and Sheffet 2018 needs .*, but 1.5 > 1"):
        plan(epsilon=1.5)
    assert plan(epsilon=1.5, outside=True).release(0).parameters["sigma"] > 0


@pytest.mark.parametrize("steps", [1, 2, 3, 8, 1000, 20_000])
def test_mu_is_sensitivity_times_root_levels_over_sigma(steps: int) -> None:
    levels = math.floor(math.log2(steps)) + 1
    mu = mechanism(steps).joint_guarantee(1).mu
    assert mu == pytest.approx(SWAP * math.sqrt(levels) / 2.0)


def worst_placement(steps: int, participations: int) -> float:
    """Largest norm of a user's effect on the nodes, over every choice of rounds."""
    rounds = np.arange(1, steps + 1)
    nodes = [(step - (step & -step) < rounds) & (rounds <= step) for step in range(1, steps + 1)]
    columns = np.array(nodes, dtype=float)
    chosen = itertools.combinations(range(steps), min(participations, steps))
    return max(float(np.linalg.norm(columns[:, list(pick)].sum(axis=1))) for pick in chosen)


@pytest.mark.parametrize("steps", [1, 2, 3, 5, 8, 11, 13])
@pytest.mark.parametrize("participations", [1, 2, 3, 4])
def test_a_returning_user_is_placed_where_it_hurts_most(steps: int, participations: int) -> None:
    mu = mechanism(steps).joint_guarantee(participations).mu
    assert mu == pytest.approx(SWAP * worst_placement(steps, participations) / 2.0)


def test_only_what_is_published_is_private() -> None:
    made = plan()
    guarantees = made.guarantees()
    assert not guarantees["shuffle"].proved
    assert not guarantees["local"].proved
    assert guarantees["shuffle"].reason == (
        "the server sees raw data; only what it publishes is private"
    )
    assert guarantees["joint"].proved
    assert made.met


@pytest.mark.parametrize("role", [Client, Analyzer])
def test_it_cannot_be_deployed(role: type) -> None:
    with pytest.raises(RefusedError, match="central is a baseline for simulations"):
        role(plan())
    assert not plan().deployable
