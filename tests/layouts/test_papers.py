from __future__ import annotations

import math

import numpy as np
import pytest

from croupier.layouts import PapersLayout

from .users import ball

PAPERS = [PapersLayout(3), PapersLayout(1), PapersLayout(3, feature_norm=math.sqrt(2))]
EVERY = pytest.mark.parametrize("layout", PAPERS, ids=str)


@EVERY
def test_a_contribution_is_the_feature_times_the_reward_and_its_triangle(
    layout: PapersLayout,
) -> None:
    rng = np.random.default_rng(1)
    features, rewards = layout.norm * ball(rng, 50, layout.dim), rng.random(50)
    rows, columns = np.triu_indices(layout.dim)
    wanted = np.hstack([features * rewards[:, None], features[:, rows] * features[:, columns]])
    np.testing.assert_array_equal(layout.encode(features, rewards), wanted)
    np.testing.assert_array_equal(layout.stretch, np.ones(layout.size))
    assert layout.whole_stretch == (2**30,) * layout.size


@EVERY
def test_decode_gives_back_the_vector_and_matrix(layout: PapersLayout) -> None:
    rng = np.random.default_rng(2)
    features, rewards = layout.norm * ball(rng, 40, layout.dim), rng.random(40)
    encoded = layout.encode(features, rewards)
    each = layout.decode(encoded, 1)
    np.testing.assert_array_equal(each.vector, features * rewards[:, None])
    np.testing.assert_array_equal(each.matrix, features[:, :, None] * features[:, None, :])
    every = layout.decode(encoded.sum(axis=0), 40)
    np.testing.assert_allclose(every.vector, features.T @ rewards, atol=1e-12)
    np.testing.assert_allclose(every.matrix, features.T @ features, atol=1e-12)


def test_labels_name_every_coordinate_once() -> None:
    assert PapersLayout(2).labels == ("u0", "u1", "v0.0", "v0.1", "v1.1")
    assert len(set(PapersLayout(7).labels)) == PapersLayout(7).size == 35


def test_every_range_is_minus_one_to_one() -> None:
    layout = PapersLayout(3)
    assert layout.low.tolist() == [-1.0] * layout.size
    assert layout.high.tolist() == [1.0] * layout.size


def test_features_stay_as_they_are_with_a_constant_or_without() -> None:
    features = np.arange(8.0).reshape(2, 4)
    for layout in (PapersLayout(4), PapersLayout(4, feature_norm=2.0, constant=(2, 0.5))):
        assert layout.score_features(features) is features
        assert (layout.scored, layout.summed, layout.size) == (4, 4, 14)


def test_only_noise_beside_the_diagonal_counts_twice() -> None:
    assert PapersLayout(1).matrix_noise_factor == 1.0
    assert PapersLayout(2).matrix_noise_factor == math.sqrt(2)


def test_contributions_that_do_not_fit_a_report_are_refused() -> None:
    assert PapersLayout(2, feature_norm=64.0).norm == 64.0
    with pytest.raises(ValueError, match=r"feature_norm must keep .* at most 4096, got 70.0"):
        PapersLayout(2, feature_norm=70.0)
