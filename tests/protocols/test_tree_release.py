from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from croupier.coins import SeededCoins
from croupier.layouts import LightOffset, PapersLayout
from croupier.protocols.tree_release import ConcurrentTreeRelease, channel, node_view
from croupier.protocols.vector_release import VectorSumRelease
from croupier.shuffler import gather, shuffle

LAYOUT = LightOffset(2)
RELEASE = ConcurrentTreeRelease(LAYOUT, 4, (4, 12), (3.5, 5.25), (9, 6))


def test_lists_of_a_document_are_as_good_as_tuples() -> None:
    own: dict[str, Any] = {name: list(value) for name, value in RELEASE.parameters.items()}
    again = ConcurrentTreeRelease(LAYOUT, 4, **own)
    assert again == RELEASE
    assert hash(again) == hash(RELEASE)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"grids": (3.5,)}, "must be as many"),
        ({"node_users": (), "grids": (), "noise_bits": ()}, "must be as many"),
        ({"grids": (3.5, 0.3)}, "grid must be a multiple"),
        ({"noise_bits": (9, -1)}, "noise_bits must be a whole number"),
    ],
)
def test_parameters_that_no_device_can_draw_are_refused(
    changed: dict[str, Any], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        replace(RELEASE, **changed)


def test_a_report_has_every_level_in_channels_of_its_own() -> None:
    sent = RELEASE.randomize(np.zeros(LAYOUT.size), SeededCoins(0))
    assert list(sent) == [f"{level}/{label}" for level in (0, 1) for label in LAYOUT.labels]
    assert sum(len(rows) for rows in sent.values()) == RELEASE.report_bits
    assert RELEASE.report_bits == sum(node.report_bits for node in RELEASE.nodes)
    lower = RELEASE.of_levels(1)
    assert list(lower.randomize(np.zeros(LAYOUT.size), SeededCoins(0))) == list(sent)[: LAYOUT.size]


def test_levels_draw_fresh_coins_and_fresh_rounding() -> None:
    same = ConcurrentTreeRelease(LAYOUT, 4, (4, 4), (3.5, 3.5), (0, 0))
    row = LAYOUT.low + 0.5 / 3.5
    coins, agreed = SeededCoins(1), 0
    for _ in range(200):
        sent = same.randomize(row, coins)
        agreed += all(
            np.array_equal(sent[channel(0, label)], sent[channel(1, label)])
            for label in LAYOUT.labels
        )
    # Eight fair roundings agree with chance 1/256; 1 of 200 is expected, 15 have chance 1e-14.
    assert agreed < 15


def test_stated_noise_is_the_most_and_the_least_of_the_levels() -> None:
    stds = [node.noise_std for node in RELEASE.nodes]
    assert RELEASE.noise_std == max(stds)
    assert RELEASE.privacy_noise_std == min(node.privacy_noise_std for node in RELEASE.nodes)


def test_analyze_reads_the_levels_that_are_there_for_the_users_that_are_there() -> None:
    quiet = ConcurrentTreeRelease(PapersLayout(1), 2, (2, 6), (4.0, 8.0), (0, 0))
    rows = np.array([[0.25, 0.5], [-0.75, 1.0], [1.0, 0.75], [-1.0, 0.0], [0.5, 0.25], [0, 0.5]])
    coins = SeededCoins(2)
    reports = [quiet.randomize(row, coins) for row in rows]
    whole = {name: part for name, part in gather(reports).items() if name.startswith("1/")}
    assert np.array_equal(quiet.analyze(shuffle(whole, coins)), rows.sum(axis=0))
    both = quiet.analyze(shuffle(gather(reports[:2]), coins))
    assert np.array_equal(both, np.tile(rows[:2].sum(axis=0), 2))


def test_sampled_parts_add_up_to_the_exact_sums_without_noise() -> None:
    quiet = ConcurrentTreeRelease(PapersLayout(1), 2, (2, 6), (4.0, 8.0), (0, 0))
    rows = np.array([[[0.25, 0.5], [-0.75, 1.0]], [[1.0, 0.75], [-1.0, 0.0]]])
    drawn = quiet.sample_sum(rows, np.random.default_rng(0))
    assert np.array_equal(drawn, np.tile(rows.sum(axis=1), 2))


@pytest.mark.parametrize("reports", [1, 3])
def test_a_viewed_node_has_the_law_of_its_users(reports: int) -> None:
    node = VectorSumRelease(LAYOUT, 7, 2.25, 5, 0.5)
    row = LAYOUT.encode(np.array([0.6, -0.8]), np.asarray(1.0))
    batch = np.zeros((7, LAYOUT.size))
    batch[:reports] = row
    trials, rng = 40_000, np.random.default_rng(3)
    seen = node_view(node, reports, row, trials, rng)
    real = node.sample_sum(np.broadcast_to(batch, (trials, *batch.shape)), rng)
    apart = (seen.mean(axis=0) - real.mean(axis=0)) / real.std(axis=0) * np.sqrt(trials / 2)
    # 5.5 standard deviations for 8 means and 36 variances and covariances: 2e-6.
    assert np.abs(apart).max() < 5.5
    covered = np.cov(seen.T) - np.cov(real.T)
    scale = np.sqrt(np.outer(real.var(axis=0), real.var(axis=0)))
    assert np.abs(covered / scale).max() < 5.5 * np.sqrt(2 * 2 / trials)


def test_counts_settle_to_what_the_bits_are_analysed_to() -> None:
    """Tallies add up over reports and batches; levels may have counts of different users."""
    coins, rows = SeededCoins(3), np.random.default_rng(3).uniform(-1, 1, (12, LAYOUT.size))
    reports = [RELEASE.randomize(row, coins) for row in rows]
    tallies = [RELEASE.tally(report) for report in reports]
    assert len(tallies[0]) == len(RELEASE.counted) == 2 * LAYOUT.size
    assert RELEASE.counted == tuple(reports[0])
    whole = gather(reports)
    np.testing.assert_array_equal(RELEASE.tally(whole), np.sum(tallies, axis=0))
    np.testing.assert_array_equal(
        RELEASE.settle(np.sum(tallies, axis=0), 12), RELEASE.analyze(shuffle(whole, coins))
    )
    lowest = {name: part for name, part in gather(reports[:4]).items() if name.startswith("0/")}
    leaf = RELEASE.tally(lowest)
    np.testing.assert_array_equal(leaf, np.sum(tallies[:4], axis=0)[: LAYOUT.size])
    np.testing.assert_array_equal(RELEASE.settle(leaf, 4), RELEASE.analyze(lowest))
    closed = np.concatenate([leaf, np.sum(tallies, axis=0)[LAYOUT.size :]])
    users = np.repeat([4, 12], LAYOUT.size)
    np.testing.assert_array_equal(
        RELEASE.settle(closed, users), RELEASE.analyze({**whole, **lowest})
    )
