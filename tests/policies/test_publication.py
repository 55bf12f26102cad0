"""Publication rules: what they promise of widths, and how often they replace a model (MATH 6.2)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import eigh

from croupier.cli import words
from croupier.errors import DocumentError, UnknownNameError
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.policies.publication import EVERY, Publication, volume, widening
from croupier.policies.ucb import Ucb
from croupier.theory.publications import most_publications

Floats = NDArray[np.float64]


def model_of(gram: Floats) -> Model:
    """A model whose V is ``gram (..., dim, dim)``."""
    return Model("ucb", np.zeros(gram.shape[:-1]), np.asarray(np.linalg.inv(gram), np.float64), 1.0)


def policy(noise_bound: float, dim: int) -> Ucb:
    """The theorem's policy: lambda = 2S."""
    return Ucb(2 * noise_bound, False, 1.0, 1.0, 0.1, 10, 1.0, noise_bound, dim)


def within(noise: Floats, bound: float) -> Floats:
    """Symmetric matrices scaled so that none has a norm above the bound."""
    symmetric = (noise + np.swapaxes(noise, -1, -2)) / 2
    norms = np.abs(np.linalg.eigvalsh(symmetric)).max(axis=-1)
    return np.asarray(symmetric * (bound / max(norms.max(), 1e-300)))


def random_walk(rng: np.random.Generator, steps: int, dim: int) -> Floats:
    """Gram matrices ``(steps, dim, dim)`` of unit features that keep to one direction for long."""
    lengths = rng.integers(1, steps + 1)
    directions = np.repeat(rng.standard_normal((steps, dim)), lengths, axis=0)[:steps]
    features = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return np.asarray(np.cumsum(features[:, :, None] * features[:, None, :], axis=0))


def fresh_models(rng: np.random.Generator, steps: int, dim: int, bound: float) -> Iterator[Model]:
    """The models of one run on the noise event, by the policy that runs."""
    most = bound * (1 - 1e-9)
    noise = within(rng.standard_normal((steps, dim, dim)), most)
    if rng.random() < 0.5:
        # Noise at its bound, up or down in all directions: what moves V most.
        noise = most * rng.choice([-1.0, 1.0], steps)[:, None, None] * np.eye(dim)
    sums = random_walk(rng, steps, dim) + noise
    for step, matrix in enumerate(sums, start=1):
        model = policy(bound, dim).model(ReleasedSums(np.zeros(dim), matrix, step, step, 1.0))
        assert model.repairs == 0
        yield model


def run(rule: Publication, rng: np.random.Generator, steps: int, dim: int, bound: float) -> int:
    """How often the rule publishes in one run."""
    published, count = policy(bound, dim).first_model, 0
    for fresh in fresh_models(rng, steps, dim, bound):
        if rule.due(published, fresh):
            published, count = fresh, count + 1
    return count


@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(1, 6),
    noise=st.floats(0.01, 100.0),
    growth=st.floats(3.001, 50.0),
)
def test_no_width_is_ever_wider_than_the_growth_allows(
    seed: int, dim: int, noise: float, growth: float
) -> None:
    rng, rule = np.random.default_rng(seed), Publication("rare", growth)
    regularizer = rng.uniform(0.1, 20.0)
    used = Ucb(regularizer, False, 1.0, 1.0, 0.1, 10, 1.0, 0.0, dim)
    published = used.first_model
    # Noise may exceed every bound here: inequality (i) holds for any positive definite pair.
    for step, gram in enumerate(random_walk(rng, 30, dim), start=1):
        matrix = gram + within(rng.standard_normal((dim, dim)), noise)
        fresh = used.model(ReleasedSums(np.zeros(dim), matrix, step, step, 1.0))
        published = fresh if rule.due(published, fresh) else published
        worst = eigh(published.matrix, fresh.matrix, eigvals_only=False)[1].T
        tried = np.concatenate([worst, rng.standard_normal((20, dim))])
        wide, sharp = (
            np.sqrt(np.einsum("kd,de,ke->k", tried, model.matrix, tried))
            for model in (published, fresh)
        )
        assert (wide <= math.sqrt(growth) * sharp * (1 + 1e-9)).all()


CASES = [(dim, bound) for dim in (1, 2, 5) for bound in (0.5, 5.0)]


@pytest.mark.parametrize("growth", [3.05, 4.0, 12.0])
def test_no_run_on_the_noise_event_publishes_more_often_than_the_bound(growth: float) -> None:
    rng, steps = np.random.default_rng(7), 200
    for number in range(204):
        dim, bound = CASES[number % len(CASES)]
        count = run(Publication("rare", growth), rng, steps, dim, bound)
        assert count <= most_publications(dim, steps, bound, growth)


def test_a_rule_that_publishes_too_early_would_be_noticed() -> None:
    # The same runs with growth 3.05, held against the bound of 40.
    rng, steps, excess = np.random.default_rng(7), 200, 0
    for number in range(204):
        dim, bound = CASES[number % len(CASES)]
        count = run(Publication("rare", 3.05), rng, steps, dim, bound)
        excess += count > most_publications(dim, steps, bound, 40.0)
    assert excess > 10


def test_without_noise_in_one_dimension_publications_are_powers_of_the_growth() -> None:
    published, counts = model_of(np.ones((1, 1))), []
    for step in range(1, 400):
        fresh = model_of(np.array([[1.0 + step]]))
        if Publication("rare", 4.1).due(published, fresh):
            published = fresh
            counts.append(1 + step)
    assert counts == [5, 21, 87, 357]


def test_widening_is_the_largest_generalised_eigenvalue_trial_by_trial() -> None:
    rng = np.random.default_rng(3)
    before, after = (
        half @ np.swapaxes(half, -1, -2) + np.eye(4) for half in rng.normal(size=(2, 6, 1, 4, 4))
    )
    found = widening(model_of(before), model_of(after))
    assert found.shape == (6, 1)
    for trial in range(6):
        values = eigh(after[trial, 0], before[trial, 0], eigvals_only=True)
        assert found[trial, 0] == pytest.approx(values[-1])


def test_the_determinant_rule_counts_volume_and_rare_counts_widths() -> None:
    before = model_of(np.eye(3))
    balanced, lopsided = model_of(1.2 * np.eye(3)), model_of(np.diag([5.0, 0.5, 0.5]))
    assert volume(before, balanced) == pytest.approx(1.2**3)
    assert Publication("determinant").due(before, balanced)
    assert not Publication("rare").due(before, balanced)
    # Noise may shrink V: the determinant has barely moved while a width is off by sqrt 5.
    assert not Publication("determinant").due(before, lopsided)
    assert Publication("rare").due(before, lopsided)


def test_a_volume_beyond_floating_point_is_due() -> None:
    before, after = model_of(np.eye(200)), model_of(1e4 * np.eye(200))
    assert Publication("determinant", 10.0).due(before, after)


def test_every_batch_is_due_in_every_trial() -> None:
    model = model_of(np.broadcast_to(np.eye(2), (5, 1, 2, 2)))
    assert EVERY.due(model, model).shape == (5, 1)
    assert EVERY.due(model, model).all()


def test_a_rule_says_the_growth_that_it_uses() -> None:
    assert Publication().growth is None
    assert Publication("rare").growth == 4.0
    assert Publication("determinant").growth == 1.5
    assert Publication("rare", 5) == Publication("rare", 5.0)


@pytest.mark.parametrize(
    ("name", "growth", "message"),
    [
        ("every", 4.0, "growth must be None for publication 'every', got 4.0"),
        ("rare", 3.0, "growth must be above 3 for publication 'rare', got 3.0"),
        ("rare", math.inf, "growth must be a finite number, got inf"),
        ("determinant", 1.0, "growth must be above 1 for publication 'determinant', got 1.0"),
    ],
)
def test_a_growth_that_fits_no_rule_is_refused(name: str, growth: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Publication(name, growth)


def test_an_unknown_rule_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="known: determinant, every, rare"):
        Publication("often")


def plan(protocol: str = "vector-sum", **changes: Any) -> Plan:
    asked: dict[str, Any] = {"dim": 3, "batch_size": 20, "horizon": 5000, "batches": "fixed"}
    budget = {"epsilon": 5.0, "delta": 0.1, "policy": "ucb", "publication": "rare"}
    asked["honest_fraction"] = 1.0
    return Plan.calibrate(protocol, **{**asked, **budget, **changes})


def most(made: Plan) -> int | None:
    found: int | None = json.loads(made.to_json())["most_publications"]
    return found


def test_a_plan_says_how_many_models_there_can_be() -> None:
    made = plan()
    bound = most_publications(3, 5000, made.policy.parameters["noise_bound"], 4.0)
    assert most(made) == math.floor(bound) == 25
    assert "a model when it knows 4 times more (rare), at most 25 of them" in words.plan_words(made)
    every = plan(publication="every")
    assert most(every) == 250
    assert "a model after every batch" in words.plan_words(every)


def test_the_regulariser_that_runs_decides_where_noise_is_small() -> None:
    quiet = plan("noiseless")
    assert quiet.policy.parameters["regularizer"] == 1.0
    assert most(quiet) == math.floor(3 * math.log1p(5000 / 3) / math.log(4))


def test_there_are_never_more_models_than_batches() -> None:
    assert most(plan(growth=3.0001)) == 250


@pytest.mark.parametrize(
    "changes",
    [{"policy": "sampling"}, {"regularizer": "growing"}, {"publication": "determinant"}],
    ids=str,
)
def test_no_number_is_given_where_none_is_proved(changes: dict[str, Any]) -> None:
    assert most(plan(**changes)) is None
    assert "how many is not proved" in words.plan_words(plan(**changes))


def test_a_regulariser_below_twice_the_noise_has_no_bound() -> None:
    made = plan()
    assert isinstance(made.policy, Ucb)
    weak = replace(made.policy, regularizer=1.9 * made.policy.noise_bound)
    assert made.publication.most(weak, made.layout, made.schedule) is None


def test_the_rule_is_part_of_the_plan_and_read_back() -> None:
    made = plan()
    document = json.loads(made.to_json())
    assert document["publication"] == {"name": "rare", "growth": 4.0}
    assert Plan.from_json(made.to_json()) == made
    assert len({plan(growth=growth).id for growth in (None, 4.0, 5.0)}) == 2
    document["publication"]["growth"] = 5.0
    with pytest.raises(DocumentError, match="plan id is"):
        Plan.from_json(json.dumps(document))
