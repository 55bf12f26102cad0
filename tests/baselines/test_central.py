from __future__ import annotations

import itertools
import math
from typing import Any, cast

import numpy as np
import pytest
from scipy.stats import kstest

from croupier.analyzer import Analyzer
from croupier.baselines.central import Central, CentralRelease, TreeSum
from croupier.client import Client
from croupier.contribution import Layout
from croupier.errors import GuaranteeError, RefusedError
from croupier.plan import Plan
from croupier.protocols.base import Floats
from croupier.theory.schedules import FixedBatches


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


def mechanism(steps: int, sigma: float = 2.0) -> Central:
    layout = Layout(2)
    return Central(layout, FixedBatches(1, steps), (CentralRelease(layout, 1, sigma),))


def test_a_prefix_has_the_noise_of_its_nodes_each_drawn_once_and_kept() -> None:
    draws = Powers()
    running = tree(draws, sigma=3.0)
    for step in range(1, 41):
        prefix, _ = running.add(step - 1, np.zeros(2))
        # One draw a step; the node of step s carries draw s - 1 for as long as it is used.
        assert len(draws.scales) == step
        assert prefix.tolist() == [sum(2.0 ** (s - 1) for s in chain(step))] * 2
    assert set(draws.scales) == {3.0}


def test_a_prefix_has_as_many_noise_terms_as_its_step_has_set_bits() -> None:
    running = tree(Powers())
    for step in range(1, 41):
        prefix, variance = running.add(step - 1, np.zeros(1))
        assert int(prefix[0]).bit_count() == step.bit_count() == len(running.nodes)
        assert variance == step.bit_count()


def test_a_completed_node_gets_fresh_noise_and_its_children_go() -> None:
    running = tree(Powers())
    prefixes = [int(running.add(step, np.zeros(1))[0][0]) for step in range(4)]
    # Step 2 and step 4 share no draw with what they swallow.
    assert prefixes == [0b0001, 0b0010, 0b0110, 0b1000]
    assert list(running.nodes) == [2]


def test_sums_are_exact_when_noise_is_tiny() -> None:
    running = tree(np.random.default_rng(0), sigma=1e-12)
    rows = np.random.default_rng(1).normal(size=(37, 3))
    for step, row in enumerate(rows):
        prefix, _ = running.add(step, row)
        assert prefix == pytest.approx(rows[: step + 1].sum(axis=0), abs=1e-9)


def test_prefix_noise_has_the_variance_it_states() -> None:
    running = tree(np.random.default_rng(2), sigma=1.5)
    for step in range(7):
        prefix, variance = running.add(step, np.zeros((5000, 2)))
        # Seven tests of false-alarm rate 1e-7 each.
        assert kstest(prefix.ravel() / math.sqrt(variance), "norm").pvalue > 1e-7
    assert variance == pytest.approx(3 * 1.5**2)


def test_trials_and_coordinates_get_their_own_noise() -> None:
    prefix, _ = tree(np.random.default_rng(3)).add(0, np.zeros((4, 3)))
    assert len(set(prefix.ravel())) == 12


def test_a_leaf_is_the_exact_sum_of_a_batch() -> None:
    made = plan()
    rows = np.random.default_rng(4).normal(size=(2, 20, made.layout.size))
    leaf = made.release(0).sample_sum(rows, np.random.default_rng(5))
    assert np.array_equal(leaf, rows.sum(axis=1))
    assert made.users(0) == 20
    assert made.schedule.batches == 1000


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
    assert mu == pytest.approx(math.sqrt(4.5) * math.sqrt(levels) / 2.0)


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
    assert mu == pytest.approx(math.sqrt(4.5) * worst_placement(steps, participations) / 2.0)


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
