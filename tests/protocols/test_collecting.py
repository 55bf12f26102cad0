from __future__ import annotations

import numpy as np

from croupier.coins import SeededCoins
from croupier.layouts import PapersLayout
from croupier.protocols.base import ShuffleRelease
from croupier.protocols.collecting import Collector, Devices
from croupier.protocols.concurrent_tree import ConcurrentTree, NodeCollector
from croupier.protocols.tree_release import ConcurrentTreeRelease
from croupier.protocols.vector_release import VectorSumRelease
from croupier.protocols.vector_sum import VectorSum
from croupier.schedules import FixedBatches

LAYOUT = PapersLayout(1)
BITS = VectorSum(LAYOUT, FixedBatches(3, 30), (VectorSumRelease(LAYOUT, 3, 2.5, 4, 0.5),))
QUIET = ConcurrentTree(
    LAYOUT,
    FixedBatches(2, 14),
    (ConcurrentTreeRelease(LAYOUT, 2, (2, 6), (4.0, 8.0), (0, 0)),),
)


def on_the_grid(users: int, seed: int) -> np.ndarray:
    """Contributions that quarter steps hit exactly."""
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(-4, 5, users) / 4, rng.integers(0, 5, users) / 4], axis=1)


def test_by_default_a_batch_is_released_alone_by_its_own_shortcut() -> None:
    rows = on_the_grid(3, 0)
    found = BITS.collector(np.random.default_rng(1)).add(0, rows)
    wanted = BITS.release(0).sample_sum(rows, np.random.default_rng(1))
    assert type(BITS.collector(np.random.default_rng(1))) is Collector
    assert np.array_equal(found, wanted)
    assert BITS.covers(7) == (range(7, 8),)
    assert BITS.closing(7) is None


def test_by_default_devices_run_one_batch_alone() -> None:
    rows = on_the_grid(3, 0)
    found = Devices(BITS, SeededCoins(2)).add(0, rows)
    assert np.array_equal(found, ShuffleRelease.run(BITS.release(0), rows, SeededCoins(2)))


def test_both_paths_give_the_exact_sums_of_complete_nodes_where_there_is_no_noise() -> None:
    assert (QUIET.tree.batches, QUIET.tree.fan_out) == (7, 3)
    data = [on_the_grid(2, seed) for seed in range(7)]
    paths = Devices(QUIET, SeededCoins(3)), QUIET.collector(np.random.default_rng(4))
    assert isinstance(paths[1], NodeCollector)
    for index in range(7):
        wanted = [sum(data[batch].sum(axis=0) for batch in node) for node in QUIET.covers(index)]
        for path in paths:
            assert np.array_equal(path.add(index, data[index]), np.concatenate(wanted))


def test_many_trials_are_collected_at_once() -> None:
    data = np.stack([on_the_grid(2, seed) for seed in range(6)]).reshape(3, 2, 2, 2)
    collector = QUIET.collector(np.random.default_rng(4))
    released = [collector.add(index, data[index]) for index in range(3)]
    assert [part.shape for part in released] == [(2, 2), (2, 2), (2, 4)]
    assert np.array_equal(released[2][:, 2:], data.sum(axis=(0, 2)))
