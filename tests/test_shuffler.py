from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from croupier.coins import SeededCoins
from croupier.errors import RefusedError
from croupier.shuffler import (
    Messages,
    OpenChannels,
    Report,
    Shapes,
    Shuffler,
    gather,
    shapes_of,
    shuffle,
)

RARE = 1e-6
COINS = SeededCoins(7)


@dataclass(frozen=True)
class Sizes:
    """Batches of 3, then of 2."""

    id: str = "plan"

    def users(self, index: int) -> int:
        return 3 if index == 0 else 2

    def shapes(self, index: int) -> Shapes:
        return shapes_of(report(0).messages)

    def closing(self, index: int) -> frozenset[str] | None:
        return None


def report(value: int, batch: int = 0, plan_id: str = "plan") -> Report:
    messages = {"a": np.array([[value], [value]]), "b": np.array([[value, -value]])}
    return Report(plan_id, batch, messages)


def test_gather_keeps_every_row_of_every_channel() -> None:
    gathered = gather([report(1).messages, report(2).messages])
    assert gathered["a"].tolist() == [[1], [1], [2], [2]]
    assert gathered["b"].tolist() == [[1, -1], [2, -2]]


def test_shuffle_only_moves_rows() -> None:
    messages = {"a": np.arange(20).reshape(10, 2), "b": np.arange(5).reshape(5, 1)}
    shuffled = shuffle(messages, SeededCoins(0))
    assert list(shuffled) == ["a", "b"]
    for channel, rows in messages.items():
        assert sorted(shuffled[channel].tolist()) == rows.tolist()


def test_shuffle_leaves_its_input_alone() -> None:
    messages = {"a": np.arange(10).reshape(10, 1)}
    shuffle(messages, SeededCoins(0))
    assert messages["a"].ravel().tolist() == list(range(10))


def test_channel_order_does_not_tell_the_order_of_arrival() -> None:
    rows = np.zeros((2, 1))
    assert list(shuffle({"b": rows, "a": rows}, SeededCoins(0))) == ["a", "b"]


def test_channels_get_independent_permutations() -> None:
    messages = {"a": np.arange(3).reshape(3, 1), "b": np.arange(3).reshape(3, 1)}
    coins, counts = SeededCoins(1), np.zeros((3, 3), dtype=int)
    for _ in range(9000):
        shuffled = shuffle(messages, coins)
        first = [int(np.flatnonzero(shuffled[name][:, 0] == 0)[0]) for name in ("a", "b")]
        counts[first[0], first[1]] += 1
    # Both positions uniform and independent of each other; false alarms 1e-6.
    assert chisquare(counts.ravel()).pvalue > RARE


def test_a_batch_is_never_released_short() -> None:
    shuffler = Shuffler(Sizes())
    assert shuffler.collect(report(1)) is None
    assert shuffler.collect(report(2)) is None
    assert shuffler.waiting == 2
    batch = shuffler.collect(report(3))
    assert batch is not None
    assert (batch.plan_id, batch.index) == ("plan", 0)
    assert sorted(batch.messages["a"].ravel().tolist()) == [1, 1, 2, 2, 3, 3]
    assert sorted(batch.messages["b"].tolist()) == [[1, -1], [2, -2], [3, -3]]


def test_a_batch_is_never_released_twice() -> None:
    shuffler = Shuffler(Sizes())
    released = [shuffler.collect(report(value)) for value in (1, 2, 3)]
    assert released[2] is not None
    with pytest.raises(RefusedError, match="report is for batch 0, batch 1 is open"):
        shuffler.collect(report(4, batch=0))
    assert shuffler.waiting == 0


def test_a_released_batch_is_forgotten() -> None:
    shuffler = Shuffler(Sizes())
    for value in (1, 2, 3):
        shuffler.collect(report(value))
    assert shuffler.waiting == 0
    assert shuffler.collect(report(8, batch=1)) is None
    batch = shuffler.collect(report(9, batch=1))
    assert batch is not None
    assert batch.index == 1
    assert sorted(batch.messages["a"].ravel().tolist()) == [8, 8, 9, 9]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (report(1, plan_id="other"), "report is for plan other, this is plan"),
        (report(1, batch=1), "report is for batch 1, batch 0 is open"),
        (report(1, batch=-1), "report is for batch -1, batch 0 is open"),
    ],
)
def test_a_report_for_something_else_is_refused_and_not_kept(wrong: Report, text: str) -> None:
    shuffler = Shuffler(Sizes())
    with pytest.raises(RefusedError, match=text):
        shuffler.collect(wrong)
    assert shuffler.waiting == 0


@pytest.mark.parametrize(
    "messages",
    [
        {"a": np.array([[1], [1]])},
        {"a": np.array([[1]]), "b": np.array([[1, -1]])},
        {"a": np.array([[1]] * 1000), "b": np.array([[1, -1]])},
        {"a": np.array([[1.5], [1.0]]), "b": np.array([[1, -1]])},
        {"a": np.array([[1], [1]]), "b": np.array([[1, -1]]), "c": np.array([[1]])},
    ],
)
def test_a_report_that_looks_unlike_the_others_is_refused_and_stops_nobody(
    messages: Messages,
) -> None:
    shuffler = Shuffler(Sizes())
    shuffler.collect(report(1))
    with pytest.raises(RefusedError, match="the plan says"):
        shuffler.collect(Report("plan", 0, messages))
    assert shuffler.waiting == 1
    shuffler.collect(report(2))
    assert shuffler.collect(report(3)) is not None


def test_a_deployed_shuffler_draws_its_own_randomness() -> None:
    with pytest.raises(TypeError):
        Shuffler(Sizes(), SeededCoins(0))  # type: ignore[call-arg]
    orders = set()
    for _ in range(40):
        shuffler = Shuffler(Sizes())
        batch = [shuffler.collect(report(value)) for value in (1, 2, 3)][2]
        assert batch is not None
        orders.add(tuple(batch.messages["b"][:, 0].tolist()))
    # All 40 in one order: 6^-39.
    assert len(orders) > 1


@dataclass(frozen=True)
class Overlapping(Sizes):
    """Batches of 2; channel b stays open over two of them."""

    def users(self, index: int) -> int:
        return 2

    def closing(self, index: int) -> frozenset[str] | None:
        return frozenset("ab") if index % 2 else frozenset("a")


def test_a_channel_that_stays_open_is_released_with_its_last_batch_and_once() -> None:
    shuffler = Shuffler(Overlapping())
    released = []
    for value in range(1, 9):
        batch = shuffler.collect(report(value, batch=(value - 1) // 2))
        if batch is not None:
            released.append(batch.messages)
    assert [list(messages) for messages in released] == [["a"], ["a", "b"]] * 2
    leaves = [sorted(messages["a"].ravel().tolist()) for messages in released]
    assert leaves == [[1, 1, 2, 2], [3, 3, 4, 4], [5, 5, 6, 6], [7, 7, 8, 8]]
    nodes = [sorted(released[index]["b"][:, 0].tolist()) for index in (1, 3)]
    assert nodes == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_an_open_channel_is_permuted_over_all_of_its_batches() -> None:
    places = np.zeros((4, 4), dtype=int)
    for _ in range(600):
        shuffler = Shuffler(Overlapping())
        shuffler._coins = COINS
        sent = [shuffler.collect(report(value, batch=value // 2)) for value in range(4)]
        assert sent[3] is not None
        places[np.arange(4), sent[3].messages["b"][:, 0]] += 1
    # Every user is equally likely at every place; row and column sums are fixed. Rate 1e-6.
    statistic = float(np.sum((places - 150) ** 2 / 150)) * 3 / 4
    assert chi2.sf(statistic, 9) > RARE


def test_what_an_open_channel_held_is_forgotten_once_released() -> None:
    kept = OpenChannels()
    assert kept.add({"a": np.ones((1, 1)), "b": np.ones((2, 1))}, frozenset("a")).keys() == {"a"}
    assert len(kept.add({"b": np.ones((3, 1))}, frozenset("b"))["b"]) == 5
    assert kept.add({"c": np.ones((1, 1))}, frozenset("b")) == {}
    assert kept.add({}, None).keys() == {"c"}
