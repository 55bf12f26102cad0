"""Kernels choose what the numpy path chooses, round by round, and never at import."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.baselines.garcelon import GarcelonRelease
from croupier.layouts import LightOffset
from croupier.model import ReleasedSums
from croupier.plan import Plan
from croupier.policies.bayesian import root
from croupier.policies.pick import TIE, pick
from croupier.policies.posterior import LinearPrior
from croupier.policies.ucb import invert_above
from croupier.protocols.concurrent_tree import ConcurrentTree
from croupier.protocols.noiseless import Noiseless, NoiselessRelease
from croupier.protocols.planned_tree import NodeSums
from croupier.protocols.vector_sum import VectorSum
from croupier.schedules import FixedBatches, GrowingBatches
from croupier.simulation import engine, registry
from croupier.simulation.disjoint import Disjoint
from croupier.simulation.kernels import compilation, linear_algebra, posterior_update, scoring
from croupier.simulation.kernels.arrays import Prior, Shape, empty_state, posterior_room
from croupier.simulation.kernels.batches_ahead import BatchSizes
from croupier.simulation.kernels.sampler import sampler
from croupier.simulation.kernels.support import supports
from croupier.simulation.kernels.trial import Trial
from croupier.simulation.problem import BLOCK, Problem, Users, World
from croupier.simulation.synthetic import Contextual, DrawnWorld, Pooled, ReleasedProblem, Sphere

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Twins(Contextual):
    """Every arm twice, and every third arm of a round not available."""

    name: ClassVar[str] = "twins"

    def features(self, rng: np.random.Generator, count: int) -> Floats:
        arms = super().features(rng, count)
        arms[:, 1::2] = arms[:, : self.arms // 2 * 2 : 2]
        return arms

    def world(self, seed: int, trials: range) -> World:
        return TwinWorld(self, seed, trials)


class TwinWorld(DrawnWorld):
    def draw(self, index: int) -> Users:
        users = super().draw(index)
        rounds, arms = np.arange(BLOCK)[:, None], np.arange(self._problem.arms)
        available = np.broadcast_to((rounds + arms) % 3 > 0, users.means.shape)
        return Users(users.features, users.means, users.uniforms, available)


@dataclass(frozen=True)
class SomeOffered(Twins):
    """One arm set for everybody, of which some arms are never available."""

    name: ClassVar[str] = "some-offered"
    common_arms: ClassVar[bool] = True

    def world(self, seed: int, trials: range) -> World:
        return OfferedWorld(self, seed, trials)


class OfferedWorld(DrawnWorld):
    def pool(self) -> None:
        return None

    def draw(self, index: int) -> Users:
        users = super().draw(index)
        available = np.broadcast_to(np.arange(self._problem.arms) % 4 > 0, users.means.shape)
        return Users(users.features, users.means, users.uniforms, available)


def plan(protocol: str = "linucb", **changes: Any) -> Plan:
    asked: dict[str, Any] = {"dim": 5, "batch_size": 20, "horizon": 1000, "outside": True}
    budget = {"calibration": "released", "epsilon": 1.0, "delta": 0.1}
    return Plan.calibrate(protocol, **{**asked, **budget, **changes})


class Watched(engine.Run):
    """The oracle, with the arms that it plays."""

    def __init__(self, used: Plan, problem: Problem, seed: int) -> None:
        one = range(1)
        noise = engine._noise(seed, one)
        super().__init__(used, problem.world(seed, one), 1, noise, oracle=True)
        self.arms: list[NDArray[np.intp]] = []

    def _chosen(self, features: Floats, rounds: int, available: Any = None) -> NDArray[np.intp]:
        arms = super()._chosen(features, rounds, available)
        self.arms.append(np.broadcast_to(arms, (1, rounds))[0])
        return arms


def assert_same_choices(used: Plan, problem: Problem, seed: int) -> NDArray[np.int64]:
    assert supports(used)
    fitted = engine.fitting_plan(used, problem)
    oracle = Watched(fitted, problem, seed)
    curves = oracle.play(50)
    trial = Trial(fitted, problem.world(seed, range(1)), engine._noise(seed, range(1)))
    arms = np.full(used.schedule.rounds, -1, dtype=np.int64)
    regret = trial.play(curves.rounds, arms)
    np.testing.assert_array_equal(arms, np.concatenate(oracle.arms))
    np.testing.assert_allclose(regret, curves.regret[0], rtol=1e-9, atol=1e-9)
    assert trial.repairs == curves.repairs
    assert [trial.publications] == curves.publications.tolist()
    return arms


POLICIES = ["ucb", "sampling", "randucb", "thompson"]
CERTIFIED: dict[str, Any] = {"calibration": "certified", "batch_size": None}
CONSTANT = (4, float(np.sqrt(0.5)))
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("linucb", {"batch_size": 1}),
    ("linucb", {"batch_size": 1, "calibration": "theorem", "dim": 7}),
    ("linucb", {"batch_size": 17, "dim": 3}),
    ("linucb", {"batch_size": 30, "dim": 22}),
    ("linucb", {"batch_size": 1, "publication": "determinant"}),
    ("linucb", {"batch_size": 7, "calibration": "certified", "policy": "thompson", "drift": 0.01}),
    ("noiseless", {**CERTIFIED, "policy": "randucb"}),
    ("noiseless", {**CERTIFIED, "policy": "sampling"}),
    ("noiseless", {**CERTIFIED, "policy": "thompson"}),
    ("noiseless", {"calibration": "certified", "policy": "sampling", "publication": "rare"}),
    ("vector-sum", {"epsilon": 20.0}),
    ("vector-sum", {**CERTIFIED, "epsilon": 4.0, "dim": 12}),
    ("vector-sum", {**CERTIFIED, "epsilon": 4.0, "dim": 2}),
    ("vector-sum", {**CERTIFIED, "policy": "randucb"}),
    ("vector-sum", {**CERTIFIED, "policy": "thompson", "epsilon": 3.0}),
    ("vector-sum", {**CERTIFIED, "policy": "sampling", "drift": 0.003}),
    ("vector-sum", {"calibration": "certified", "policy": "ucb", "epsilon": 9.0}),
    ("vector-sum", {"calibration": "certified", "epsilon": 9.0, "publication": "rare"}),
    ("vector-sum", {**CERTIFIED, "policy": "thompson", "publication": "determinant"}),
    ("amplified-gaussian", {"epsilon": 5.0}),
    ("amplified-gaussian", {**CERTIFIED, "epsilon": 5.0, "honest_fraction": 1.0}),
    ("local", {"batch_size": 1, "epsilon": 0.1}),
    ("local", {"batch_size": 1, "calibration": "certified", "batches": "fixed", "epsilon": 9.0}),
    ("local", {**CERTIFIED, "policy": "randucb"}),
    ("central", {"batch_size": 1}),
    ("central", {"batch_size": 3, "calibration": "certified", "batches": "fixed"}),
    ("central", {"batch_size": 5, "calibration": "certified", "batches": "fixed", "drift": 0.01}),
    ("central", {**CERTIFIED, "strategy": "tree", "policy": "thompson"}),
    ("central", {**CERTIFIED, "strategy": "tree", "policy": "ucb"}),
    ("central", {**CERTIFIED, "strategy": "toeplitz", "policy": "randucb"}),
    ("central", {**CERTIFIED, "strategy": "fresh"}),
    ("central", {**CERTIFIED, "strategy": "fresh", "policy": "ucb"}),
    ("garcelon", {"calibration": "certified", "policy": "sampling", "epsilon": 5.0}),
    ("garcelon", {**CERTIFIED, "policy": "randucb"}),
    ("garcelon", {"calibration": "certified", "epsilon": 2.0, "publication": "every"}),
    ("concurrent-tree", {"calibration": "certified", "policy": "sampling", "batches": "fixed"}),
    ("concurrent-tree", {"calibration": "certified", "horizon": 1190, "batches": "fixed"}),
    ("concurrent-tree", {"calibration": "certified", "batches": "doubling", "horizon": 3000}),
    ("concurrent-tree", {**CERTIFIED, "policy": "thompson", "drift": 0.003, "levels": 2}),
    ("concurrent-tree", {"calibration": "certified", "policy": "ucb", "batches": "fixed"}),
]


@pytest.mark.parametrize(("protocol", "changes"), SETTINGS, ids=str)
@pytest.mark.parametrize(
    "kind",
    [Sphere, ReleasedProblem, Contextual, Pooled, Twins, SomeOffered],
    ids=lambda kind: kind.name,
)
def test_kernels_choose_the_oracles_arm_in_every_round(
    kind: type[Problem], protocol: str, changes: dict[str, Any]
) -> None:
    used = plan(protocol, **changes)
    arms = assert_same_choices(used, kind(used.layout.dim, 13), seed=1)
    assert len(set(arms.tolist())) > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_kernels_choose_the_oracles_arm_in_10000_rounds_of_random_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = (Sphere, ReleasedProblem, Contextual, Pooled, Twins, SomeOffered)
    kind = kinds[seed % len(kinds)]
    protocol, changes = SETTINGS[int(rng.integers(len(SETTINGS)))]
    used = plan(protocol, **{**changes, "dim": int(rng.integers(2, 13)), "horizon": 10_000})
    assert_same_choices(used, kind(used.layout.dim, int(rng.integers(2, 40))), seed)


BLOCKED = [
    *({**CERTIFIED, "policy": policy, "protocol": "vector-sum"} for policy in POLICIES[1:]),
    {**CERTIFIED, "protocol": "vector-sum", "drift": 0.003},
    {**CERTIFIED, "protocol": "vector-sum", "policy": "thompson", "publication": "rare"},
    {**CERTIFIED, "protocol": "vector-sum", "publication": "determinant"},
    {**CERTIFIED, "protocol": "noiseless"},
    {**CERTIFIED, "protocol": "local"},
    {**CERTIFIED, "protocol": "amplified-gaussian", "constant_feature": None},
    {**CERTIFIED, "protocol": "central", "strategy": "toeplitz"},
    {**CERTIFIED, "protocol": "central", "strategy": "tree"},
    {**CERTIFIED, "protocol": "concurrent-tree", "levels": 2, "constant_feature": None},
    {**CERTIFIED, "protocol": "linucb", "batch_size": 1, "batches": "fixed", "policy": "thompson"},
]


@pytest.mark.parametrize("changes", BLOCKED, ids=str)
def test_plans_with_blocks_are_played_alike(changes: dict[str, Any]) -> None:
    told = {"dim": 16, "blocks": 4, "constant_feature": (3, CONSTANT[1]), "epsilon": 20.0}
    used = plan(**{**told, **changes})
    arms = assert_same_choices(used, Disjoint(16, 4), seed=3)
    assert len(set(arms.tolist())) == 4


DECLARED = [
    ("noiseless", {**CERTIFIED, "policy": "sampling"}),
    ("vector-sum", {**CERTIFIED, "epsilon": 4.0}),
    ("vector-sum", {**CERTIFIED, "policy": "randucb", "drift": 0.003}),
    ("vector-sum", {**CERTIFIED, "policy": "thompson", "publication": "rare"}),
    ("vector-sum", {"calibration": "certified", "policy": "ucb", "epsilon": 9.0}),
    ("local", CERTIFIED),
    ("central", CERTIFIED),
    ("central", {**CERTIFIED, "strategy": "toeplitz"}),
    ("garcelon", {**CERTIFIED, "publication": "every"}),
    ("amplified-gaussian", CERTIFIED),
    ("concurrent-tree", {**CERTIFIED, "policy": "thompson", "levels": 2}),
]


@pytest.mark.parametrize(("protocol", "changes"), DECLARED, ids=str)
@pytest.mark.parametrize("kind", [Sphere, Contextual], ids=lambda kind: kind.name)
def test_plans_that_declare_the_constant_are_played_alike(
    kind: type[Problem], protocol: str, changes: dict[str, Any]
) -> None:
    used = plan(protocol, constant_feature=CONSTANT, **changes)
    assert used.layout.scored == (5 if changes.get("policy") == "ucb" else 4)
    arms = assert_same_choices(used, kind(5, 9), seed=3)
    assert len(set(arms.tolist())) > 1


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", [Sphere, Contextual, Twins, SomeOffered])
def test_runs_of_all_trials_at_once_choose_what_the_policy_samples(
    kind: type[Problem], policy: str
) -> None:
    used = plan("noiseless", calibration="certified", policy=policy, batches="fixed")
    world = kind(5, 11).world(0, range(4))
    run = engine.Run(used, world, 4, np.random.default_rng(0))
    run.play(5)
    users = world.users(256, 300)
    given = {} if users.available is None else {"mask": users.available}
    for model in (run._first, run._model):
        wanted = used.policy.sample(model, users.features, 44, np.random.default_rng(1), **given)
        found = sampler(used.policy)(model, users.features, 44, np.random.default_rng(1), **given)
        np.testing.assert_array_equal(found, np.broadcast_to(wanted, found.shape))


def test_arms_that_are_not_available_are_never_played() -> None:
    for policy in POLICIES:
        used = plan("noiseless", calibration="certified", policy=policy, batches="fixed")
        arms = assert_same_choices(used, SomeOffered(5, 12), seed=2)
        assert (arms % 4 > 0).all()


def test_close_scores_are_ties_for_policy_and_kernel() -> None:
    scores = np.array([0.1, 1.0 - 0.5 * TIE, 1.0, 1.0 - 3 * TIE, *np.zeros(20)])
    assert pick(scores, scores, None).arm == 1
    assert scoring.first_best(scores) == 1
    late = np.roll(scores, 17)
    assert pick(late, late, None).arm == scoring.first_best(late) == 18
    assert scoring.first_best(np.array([-3.0, -2.0])) == 1


@pytest.mark.parametrize("dim", [1, 4, 5, 6, 10, 13, 20, 31])
def test_quadratic_forms_are_those_of_the_matrix(dim: int) -> None:
    rng = np.random.default_rng(dim)
    x, theta, square = rng.random((dim, 29)), rng.random(dim), rng.random((dim, dim))
    matrix, half = square @ square.T, np.zeros((dim, dim))
    linear_algebra.halve(matrix, half)
    scores, spare = np.empty(29), np.empty(29)
    scoring.score_optimist(x, theta, half, 0.7, scores, spare)
    wanted = theta @ x + 0.7 * np.sqrt(np.einsum("dk,de,ek->k", x, matrix, x))
    np.testing.assert_allclose(scores, wanted, rtol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 5, 12, 18])
def test_inverses_and_repairs_are_those_of_the_policy(dim: int) -> None:
    rng = np.random.default_rng(dim)
    for shift in (0.0, 0.5, 3.0):
        square = rng.standard_normal((dim, dim))
        gram = square + square.T + shift * dim * np.eye(dim)
        wanted, repairs = invert_above(gram, 0.4)
        found, values, axes = (np.zeros((dim, dim)) for _ in range(3))
        raised = linear_algebra.invert_above(gram, 0.4, found, values, axes, np.zeros(dim))
        assert raised == repairs
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dim", [2, 5, 17])
@pytest.mark.parametrize("noise", [0.0, 3.0])
@pytest.mark.parametrize("drift", [0.0, 0.02])
def test_posteriors_are_those_of_the_policy(dim: int, noise: float, drift: float) -> None:
    rng, layout = np.random.default_rng(dim), LightOffset(dim)
    prior, p = LinearPrior.of(layout, drift), layout.summed
    shape = Shape(dim, p, layout.size, 1, 1)
    state, room = empty_state(shape, every=True), posterior_room(1, prior.state.precision[None])
    known = prior.state
    for batch in range(70):
        rows = rng.standard_normal((10, p)) / 3
        square = noise * rng.standard_normal((p, p))
        gram = rows.T @ rows + (square + square.T) / 2
        vector = rng.standard_normal(p)
        known = prior.learn(known, ReleasedSums(vector, gram, 10, batch + 1, noise**2))
        model = prior.model("sampling", known, 1.0)
        state.gram[:], state.vector[:] = gram, vector
        given = Prior(prior.units, prior.matrix_noise, prior.drift, dim, dim, 1)
        posterior_update.update_posterior(0, 10.0, noise**2, False, given, state, room)
        np.testing.assert_allclose(state.matrix, model.matrix, rtol=1e-8, atol=1e-10)
        posterior_update.root_model(state)
        np.testing.assert_allclose(state.matrix, root(model.matrix), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state.theta, model.theta, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(room.precision, known.precision, rtol=1e-8, atol=1e-10)


class Loud(NoiselessRelease):
    """A subclass that changes the law and not the shortcuts."""

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        return super().sample_sum(contributions, rng) + 1.0


class LoudNoiseless(Noiseless):
    release_type = Loud


def test_a_release_whose_shortcut_does_not_speak_for_it_is_not_played_by_kernels() -> None:
    from dataclasses import replace

    used = plan("noiseless")
    loud = LoudNoiseless(used.layout, used.schedule, (Loud(used.layout, 20),))
    assert supports(used)
    assert not supports(replace(used, mechanism=loud))


def test_codes_of_several_bits_are_played_by_all_trials_at_once() -> None:
    from dataclasses import replace

    used = plan("garcelon", calibration="certified", batches="fixed")
    made = used.mechanism.releases[0]
    assert isinstance(made, GarcelonRelease)
    assert made.bits == 1
    assert supports(used)
    longer = replace(used.mechanism, releases=(replace(made, bits=2),))
    assert not supports(replace(used, mechanism=longer))


@pytest.mark.parametrize("publication", ["rare", "determinant"])
@pytest.mark.parametrize("policy", POLICIES)
def test_models_are_published_when_the_rule_says(publication: str, policy: str) -> None:
    used = plan(
        "noiseless", calibration="certified", policy=policy, publication=publication,
        batches="fixed",
    )  # fmt: skip
    curves = engine.run(used, Pooled(5, 9), 0, range(1))
    oracle = engine.run(used, Pooled(5, 9), 0, range(1), oracle=True)
    assert 1 < curves.publications[0] < used.schedule.batches
    assert curves.publications.tolist() == oracle.publications.tolist()


@pytest.mark.parametrize("schedule", [FixedBatches(7, 100), GrowingBatches(3, 400)], ids=str)
def test_batches_end_where_the_schedule_says(schedule: Any) -> None:
    batches = BatchSizes(schedule)
    spans = [span for span in schedule.spans() if span.complete]
    assert batches.count == len(spans)
    assert batches.stops(0, batches.count).tolist() == [span.stop for span in spans]
    sizes = [span.stop - span.start for span in spans]
    assert batches.sizes(2, batches.count - 2).tolist() == sizes[2:]


AHEAD = [
    (protocol, {"calibration": calibration})
    for protocol in ("local", "vector-sum", "central", "linucb")
    for calibration in ("certified", "released")
]
AHEAD += [("central", {"calibration": "certified", "strategy": name}) for name in ("tree", "fresh")]


@pytest.mark.parametrize(("protocol", "changes"), AHEAD, ids=str)
def test_noise_drawn_ahead_is_that_of_the_running_sum(
    protocol: str, changes: dict[str, Any]
) -> None:
    used = plan(protocol, batches="fixed", batch_size=2, horizon=200, **changes)
    mechanism = used.mechanism
    first, second = (mechanism.running_sum(np.random.default_rng(4)) for _ in range(2))
    rng, index = np.random.default_rng(5), 0
    for count in (1, 37, 4, 58):
        fresh = mechanism.release(0).noise_ahead(count, rng)
        assert fresh is not None
        ahead = second.ahead(fresh)
        assert ahead is not None
        for row, noise, variance, start in zip(fresh, *ahead, strict=True):
            part = first.part(index, row)
            assert part is not None
            np.testing.assert_allclose(part.sums, noise, rtol=1e-9, atol=1e-9)
            assert variance == pytest.approx(part.variance, rel=1e-12, abs=1e-12)
            index += 1
            assert (part.start, part.stop) == (start, index)


def test_noise_drawn_ahead_is_that_of_the_nodes_of_a_prefix() -> None:
    used = plan(
        "concurrent-tree", calibration="certified", batches="fixed", batch_size=2, horizon=200,
        levels=3,
    )  # fmt: skip
    mechanism, size, rng = used.mechanism, used.layout.size, np.random.default_rng(5)
    assert isinstance(mechanism, ConcurrentTree)
    nodes, first, second = (
        NodeSums(mechanism.tree),
        mechanism.running_sum(),
        mechanism.running_sum(),
    )
    index = 0
    for count in (1, 37, 4, 58):
        fresh = rng.standard_normal((count, 3 * size))
        ahead = second.ahead(fresh)
        assert ahead is not None
        for row, noise, variance, start in zip(fresh, *ahead, strict=True):
            held = len(mechanism.release(index).nodes)
            part = first.part(index, nodes.add(index, row[: held * size]))
            assert part is not None
            np.testing.assert_allclose(part.sums, noise, rtol=1e-9, atol=1e-9)
            assert variance == pytest.approx(part.variance, rel=1e-12)
            index += 1
            assert (part.start, part.stop) == (start, index)
    assert index == mechanism.tree.batches
    assert mechanism.completed(range(100)).tolist() == [
        len(mechanism.covers(index)) for index in range(100)
    ]


@pytest.mark.parametrize("protocol", ["concurrent-tree", "vector-sum"])
@pytest.mark.parametrize("batches", ["fixed", "doubling"])
def test_runs_of_batches_have_the_release_of_each(protocol: str, batches: str) -> None:
    used = plan(protocol, calibration="certified", batches=batches, horizon=1190)
    count = used.schedule.batches
    for places in (range(count), range(2, count), range(1, 2)):
        listed = [one for one, many in used.mechanism.runs(places) for _ in range(many)]
        assert listed == [used.mechanism.release(index) for index in places]


def test_a_batch_taken_in_parts_has_the_law_of_the_whole() -> None:
    used = plan("vector-sum", epsilon=5.0, dim=3)
    release, rng = used.mechanism.release(0), np.random.default_rng(6)
    rows = used.layout.encode(rng.random((4000, 20, 3)) / 2, rng.random((4000, 20)))
    data = np.broadcast_to(rows[0], rows.shape)
    whole = release.sample_sum(data, rng)
    collector = used.mechanism.collector(rng)
    for part in np.split(data, [1, 12], axis=1):
        collector.take(0, part)
    parts = collector.close(0)
    spread = whole.std(axis=0)
    # Means of 4000 draws differ by 5 standard errors once in 1.7 million; here are 9 of them.
    assert (np.abs(parts.mean(axis=0) - whole.mean(axis=0)) < 5 * spread * np.sqrt(2 / 4000)).all()
    # Ratios of two sample deviations are within 1 +- 0.08 but for 1 in 3 million.
    assert np.abs(parts.std(axis=0) / spread - 1).max() < 0.08


def test_memory_of_a_batch_does_not_grow_with_its_users() -> None:
    used = plan("vector-sum", batch_size=2000, horizon=2000)
    collector = used.mechanism.collector(np.random.default_rng(0))
    for _ in range(3):
        collector.take(0, np.zeros((1, 500, used.layout.size)))
    assert not collector._whole
    assert isinstance(used.mechanism, VectorSum)


def test_pooled_arm_sets_come_in_turn() -> None:
    for pool in (300, 2 * BLOCK):
        world = Pooled(3, 4, pool).world(1, range(2))
        sets = world.pool()
        assert sets is not None
        for start in (0, BLOCK, 3 * BLOCK):
            users = world.users(start, start + 5)
            places = (start + np.arange(5)) % pool
            np.testing.assert_array_equal(users.features, sets[0][:, places])
            np.testing.assert_array_equal(users.means, sets[1][:, places])
            np.testing.assert_array_equal(users.uniforms, world.luck(start, start + 5))
    assert registry.find("pooled") is Pooled


def test_kernels_are_stamped_with_all_their_files() -> None:
    names = {part[0] for part in compilation.stamp() if isinstance(part, tuple)}
    assert {"arrays.py", "linear_algebra.py", "posterior_update.py", "trial_loop.py"} <= names
    kept: Any = scoring.first_best
    assert kept._cache._cache_file._source_stamp == compilation.STAMP


def test_importing_croupier_and_its_simulator_imports_no_compiler() -> None:
    code = "import sys, croupier, croupier.simulation.sweep; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
