"""Features that are zero outside one block: nothing is sent of two blocks together."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.coins import SeededCoins
from croupier.contribution import checked_constant, contribution
from croupier.errors import DocumentError
from croupier.fixed_point import UNIT
from croupier.layouts import Blocks, LightOffset, light_offset
from croupier.model import Model
from croupier.plan import Plan
from croupier.policies.posterior import BlockPrior
from croupier.shuffler import Shuffler
from croupier.wire import decode_report, encode_report

from .users import Floats, ball

PLAIN = Blocks(9, blocks=3)
DECLARED = Blocks(12, constant=(3, 0.5), blocks=3)
LAYOUTS = [PLAIN, DECLARED, Blocks(2), Blocks(8, feature_norm=9.0, constant=(0, -8.0), blocks=4)]
EVERY = pytest.mark.parametrize("layout", LAYOUTS, ids=str)


def users(layout: Blocks, count: int, seed: int = 1) -> tuple[Floats, Floats]:
    """Features ``(count, dim)`` of an app in one block after the other, and rewards."""
    rng = np.random.default_rng(seed)
    entries = layout.norm * layout.feature_norm * ball(rng, count, layout.free)
    if layout.constant is not None:
        entries = np.insert(entries, layout.constant[0], layout.constant[1], axis=1)
    features = np.zeros((count, layout.blocks, layout.width))
    features[np.arange(count), np.arange(count) % layout.blocks] = entries
    return features.reshape(count, layout.dim), rng.random(count)


@EVERY
def test_a_contribution_is_that_of_a_light_offset_in_its_block(layout: Blocks) -> None:
    features, rewards = users(layout, 24)
    one = LightOffset(layout.width, layout.feature_norm, constant=layout.constant)
    encoded = layout.encode(layout.score_features(features), rewards)
    own = features.reshape(24, layout.blocks, layout.width)[
        np.arange(24), np.arange(24) % layout.blocks
    ]
    alone = one.encode(one.score_features(own), rewards)
    for index, row in enumerate(encoded):
        where = [
            at
            for at, name in enumerate(layout.labels)
            if name.startswith(f"b{index % layout.blocks}.")
        ]
        # A light offset does not send the entry of the offset, which is last.
        np.testing.assert_allclose(row[where][:-1], alone[index], atol=1e-15)
        assert row[where][-1] > 0
        assert not np.delete(row, where).any()


@EVERY
def test_decode_gives_the_moments_of_every_block_and_its_users(layout: Blocks) -> None:
    features, rewards = users(layout, 40)
    scored = layout.score_features(features)
    h = (scored * layout.entry_factors / layout.length).reshape(40, layout.blocks, -1)
    found = layout.decode(layout.encode(scored, rewards).sum(axis=0), 40)
    np.testing.assert_allclose(found.vector, np.einsum("nbi,n->bi", h, rewards - 0.5), atol=1e-13)
    np.testing.assert_allclose(found.matrix, np.einsum("nbi,nbj->bij", h, h), atol=1e-13)
    counts = found.matrix[:, -1, -1] / layout.units[-1] ** 2
    np.testing.assert_allclose(counts, np.bincount(np.arange(40) % layout.blocks), rtol=1e-12)


@EVERY
def test_a_device_sends_what_a_simulation_adds_up(layout: Blocks) -> None:
    features, rewards = users(layout, 30)
    encoded = layout.encode(layout.score_features(features), rewards)
    sent = np.array([contribution(layout, *user) for user in zip(features, rewards, strict=True)])
    np.testing.assert_allclose(sent, encoded, atol=4e-6)
    assert np.array_equal(sent == 0, encoded == 0) or (np.abs(encoded[sent == 0]) < 4e-6).all()
    assert (sent >= layout.low).all()
    assert (sent <= layout.high).all()


@EVERY
def test_every_range_is_attained(layout: Blocks) -> None:
    axes, k = np.eye(layout.free), layout.free
    first, second = np.triu_indices(k, 1)
    corners = [math.sqrt(0.5) * (axes[first] + sign * axes[second]) for sign in (1, -1)]
    entries = layout.norm * np.vstack([axes, -axes, np.zeros((1, k)), *corners])
    scored = np.vstack([layout.placed(entries, block) for block in range(layout.blocks)])
    encoded = np.vstack([layout.encode(scored, np.full(len(scored), end)) for end in (0.0, 1.0)])
    np.testing.assert_allclose(encoded.min(axis=0), layout.low, atol=UNIT + 1e-14)
    np.testing.assert_allclose(encoded.max(axis=0), layout.high, atol=UNIT + 1e-14)


def test_labels_name_the_block_and_are_far_fewer_than_of_the_full_matrix() -> None:
    assert Blocks(2).labels == (
        "b0.u0", "b0.u1", "b1.u0", "b1.u1",
        "b0.v0.0", "b0.v0.1", "b0.v1.1", "b1.v0.0", "b1.v0.1", "b1.v1.1",
    )  # fmt: skip
    digits = Blocks(60, constant=(5, 0.7), blocks=10)
    assert len(set(digits.labels)) == digits.size == 270
    assert LightOffset(60).size > 1890


def between(layout: Blocks) -> float:
    """The largest distance found of two users in any blocks."""

    def loss(point: Floats, *blocks: int) -> float:
        halves = point.reshape(2, -1)
        lengths = np.linalg.norm(halves[:, :-1], axis=1, keepdims=True)
        entries = layout.norm * halves[:, :-1] / np.maximum(lengths, 1.0)
        placed = [layout.placed(row, block) for row, block in zip(entries, blocks, strict=True)]
        first, second = layout.encode(np.array(placed), (1 + np.sin(halves[:, -1])) / 2)
        return -float(np.linalg.norm(first - second))

    rng, least = np.random.default_rng(2), 0.0
    for index in range(24):
        blocks = (0, index % 2)
        starts = 2 * rng.standard_normal((60, 2 * (layout.free + 1)))
        losses = [loss(start, *blocks) for start in starts]
        best = starts[int(np.argmin(losses))]
        least = min(least, float(minimize(loss, best, blocks, method="Nelder-Mead").fun))
    return -least


@pytest.mark.parametrize("layout", [Blocks(4), Blocks(6, constant=(1, 0.6))], ids=str)
def test_no_pair_of_users_is_further_apart_and_one_comes_close(layout: Blocks) -> None:
    most = between(layout)
    assert layout.sensitivity == pytest.approx(math.sqrt(9 / 8), rel=1e-15)
    assert layout.sensitivity - 1e-4 <= most <= layout.sensitivity * (1 + 1e-12)


def test_users_in_different_blocks_are_within_one() -> None:
    rng = np.random.default_rng(3)
    entries = DECLARED.norm * ball(rng, 2000, DECLARED.free)
    rewards = rng.integers(2, size=2000).astype(float)
    first, second = (
        DECLARED.encode(DECLARED.placed(rows, block), rewards[part])
        for block, rows, part in (
            (0, entries[:1000], slice(1000)),
            (2, entries[1000:], slice(1000, None)),
        )
    )
    most = np.linalg.norm(first - second, axis=1).max()
    assert 0.99 <= most <= 1 + 1e-12


def test_a_heavier_matrix_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = PLAIN.sensitivity
    monkeypatch.setattr(light_offset, "WEIGHT", 1.0)
    assert between(Blocks(4)) > bound + 0.2


def test_whatever_a_device_is_given_it_sends_of_one_block_alone() -> None:
    # Only a faulty app comes here with two blocks: what privacy rests on does not look at that.
    row = np.array([0.1, 0.2, 0.0, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0])
    alone = np.where(np.arange(9) // 3 == 1, row, 0.0)
    assert np.array_equal(contribution(PLAIN, row, 1.0), contribution(PLAIN, alone, 1.0))


@pytest.mark.parametrize(
    ("row", "found"),
    [([0.1, 0, 0, 0.2, 0, 0, 0, 0, 0], 2), ([0.0] * 9, 0), ([0.1] * 9, 3)],
)
def test_features_in_more_or_fewer_blocks_are_refused(row: list[float], found: int) -> None:
    wanted = rf"feature must be zero outside one of 3 blocks of 3 entries .*, got {found} blocks"
    with pytest.raises(ValueError, match=wanted):
        checked_constant(PLAIN, np.array(row), "feature")


def test_a_constant_is_that_of_the_own_block() -> None:
    row = np.zeros((2, 12))
    row[:, [4, 7]] = [[0.3, 0.5], [0.3, 0.4]]
    assert checked_constant(DECLARED, row[:1]) is not None
    with pytest.raises(
        ValueError, match=r"features must have the constant 0.5 at index 3, got 0.4"
    ):
        checked_constant(DECLARED, row)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 10}, r"dim must be a multiple of 3 blocks, got 10"),
        ({"blocks": 1}, r"blocks must be a whole number of at least 2, got 1"),
        ({"blocks": 2.0}, r"blocks must be a whole number of at least 2, got 2.0"),
        ({"constant": (4, 0.5)}, r"constant index must be below dim 4, got 4"),
        ({"constant": (1, 1.5)}, r"constant value must be between 0 and the norm 1.0, got 1.5"),
        ({"feature_norm": 0.0}, r"feature_norm must be .* got 0.0"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Blocks(**{"dim": 12, "blocks": 3, **changes})


# Plans


def plan(**changes: Any) -> Plan:
    asked: dict[str, Any] = {"dim": 12, "horizon": 20_000, "epsilon": 1.0, "delta": 1e-6}
    told = {**asked, "blocks": 3, "constant_feature": (3, 0.5), **changes}
    return Plan.calibrate(told.pop("protocol", "vector-sum"), **told)


def test_a_plan_comes_back_from_its_document_with_blocks_and_prior() -> None:
    made = plan(drift=1e-4)
    read = Plan.from_json(made.to_json())
    assert read.id == made.id
    assert read.layout == made.layout == DECLARED
    assert read.policy == made.policy
    assert isinstance(made.policy.parameters["prior"], dict)
    assert isinstance(read.policy.prior, BlockPrior)  # type: ignore[attr-defined]
    assert made.layout.content["blocks"] == 3
    assert made.met


def test_a_document_with_blocks_where_none_belong_is_refused() -> None:
    text = plan(blocks=None, constant_feature=None).to_json()
    with pytest.raises(DocumentError, match="blocks"):
        Plan.from_json(text.replace('"dim": 12,', '"dim": 12, "blocks": 3,', 1))


@pytest.mark.parametrize("changes", [{"policy": "ucb"}, {"protocol": "linucb", "policy": "ucb"}])
def test_the_papers_layout_has_no_blocks(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"blocks must be left out for the paper's layout, got 3"):
        plan(**changes)


def test_a_device_plays_and_reports_in_a_block_and_refuses_two() -> None:
    made = plan()
    client = Client(made)
    features = np.kron(np.eye(3), [0.1, 0.2, 0.3, 0.5])
    arm = int(client.choose(features).arm)
    report = client.report(features[arm], 1.0)
    assert set(report.messages) == set(made.layout.labels)
    with pytest.raises(ValueError, match=r"features must be zero outside one of 3 blocks"):
        client.choose(features + 0.01)
    with pytest.raises(ValueError, match=r"feature must be zero outside one of 3 blocks"):
        Client(made).report(features[0] + features[1], 1.0)


def contexts(rng: np.random.Generator) -> Floats:
    """Arms ``(3, 12)`` of a user, the same context in every block."""
    free = rng.standard_normal(3)
    return np.kron(np.eye(3), np.append(math.sqrt(0.75) * free / np.linalg.norm(free), 0.5))


@pytest.mark.parametrize("protocol", ["noiseless", "vector-sum"])
def test_devices_shuffler_and_analyzer_learn_which_arm_is_best(protocol: str) -> None:
    made = plan(protocol=protocol, epsilon=20.0, batch_size=60, batches="fixed", horizon=240)
    shuffler, analyzer, rng = Shuffler(made), Analyzer(made), np.random.default_rng(4)
    shapes = made.shapes(0)
    for number in range(made.schedule.rounds):
        client = Client._seeded(made, SeededCoins(number))
        client.update(Model.from_json(analyzer.model.to_json()), analyzer.batch)
        offered = contexts(rng)
        arm = int(client.choose(offered).arm)
        report = client.report(offered[arm], float(rng.random() < (0.1, 0.9, 0.4)[arm]))
        read = decode_report(shapes, encode_report(shapes, report.messages))
        batch = shuffler.collect(replace(report, messages=read))
        if batch is not None:
            analyzer.receive(batch)
    model, p = analyzer.model, made.layout.free + 1
    assert (model.version, model.users) == (4, 240)
    # The last of a block is its arm's offset, which is all that arms differ in here.
    assert int(model.theta[p - 1 :: p].argmax()) == 1
    assert model.theta[p - 1] < 0
    last = Client._seeded(made, SeededCoins(999))
    last.update(model)
    assert int(last.choose(contexts(rng)).arm) == 1


def test_the_first_batch_hears_every_block_as_much_as_one_alone() -> None:
    told = {"horizon": 200_000, "protocol": "central"}
    one = plan(**told, dim=4, blocks=None)
    assert plan(**told).schedule.first == pytest.approx(3 * one.schedule.first, abs=3)
    assert plan(horizon=1000).schedule.first == 100
