from __future__ import annotations

import math

import pytest

from croupier.errors import UnknownNameError
from croupier.schedules import (
    MOST_BATCHES,
    DoublingBatches,
    GrowingBatches,
    growing_first,
    schedule,
)


def test_growing_batches_follow_the_power_three_halves() -> None:
    sizes = GrowingBatches(100).sizes()
    assert len(sizes) == MOST_BATCHES
    assert sizes[:4] == (100, 283, 520, 800)
    assert sizes[63] == 100 * 64**1.5


def test_doubling_batches_double_up_to_a_hundred_million_users() -> None:
    sizes = DoublingBatches(100).sizes()
    assert sizes[:4] == (100, 200, 400, 800)
    assert sum(sizes[:-1]) < 10**8 <= sum(sizes)


@pytest.mark.parametrize("kind", [GrowingBatches, DoublingBatches])
@pytest.mark.parametrize("horizon", [50, 51, 999, 20000, 600_000])
def test_the_last_batch_is_cut_so_that_everybody_is_released(
    kind: type[GrowingBatches], horizon: int
) -> None:
    made = kind(50, horizon)
    spans = list(made.spans())
    assert spans[-1].stop == made.rounds == horizon == sum(made.sizes())
    assert all(span.complete for span in spans)
    assert made.unreleased == 0
    assert [span.stop - span.start for span in spans[:-1]] == [
        made.uncut(index) for index in range(made.batches - 1)
    ]


def test_there_is_no_batch_after_the_last() -> None:
    made = GrowingBatches(50, 1000)
    with pytest.raises(ValueError, match=f"index must be below {made.batches}"):
        made.size(made.batches)


def test_more_users_than_the_list_holds_are_refused() -> None:
    with pytest.raises(ValueError, match="horizon must be at most"):
        GrowingBatches(1, 10**6).sizes()
    with pytest.raises(ValueError, match="batch_size must be at most the horizon 10, got 11"):
        GrowingBatches(11, 10)


def test_the_first_batch_is_sized_to_the_noise() -> None:
    spread = 1.5 * 8.31**2
    wanted = math.ceil(25 / 2 * (1 + math.sqrt(1 + 16 * spread / 5)))
    assert growing_first(5, 8.31, None) == wanted == 241
    assert growing_first(5, 8.31, 1000) == 100
    assert growing_first(2, 0.0, None) == 20


def test_schedules_are_found_by_name() -> None:
    assert schedule("growing", 5, None) == GrowingBatches(5)
    assert schedule("doubling", 5, 100) == DoublingBatches(5, 100)
    with pytest.raises(UnknownNameError, match="shrinking"):
        schedule("shrinking", 5, 100)
    with pytest.raises(ValueError, match="horizon must be given for fixed batches"):
        schedule("fixed", 5, None)
