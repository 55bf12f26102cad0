from __future__ import annotations

import math

import pytest

from croupier.errors import UnknownNameError
from croupier.plan import Plan
from croupier.privacy.gdp import mu_of
from croupier.schedules import (
    MOST_BATCHES,
    CappedBatches,
    DoublingBatches,
    GrowingBatches,
    drift_most,
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
    """B_1 k/r^2 users are as many as noise allows: g = K/8 + sqrt((K/8)^2 + K (s a)^2)."""
    reach, length = math.sqrt(0.5), math.sqrt(0.59)
    heard = 20 / 8 + math.sqrt((20 / 8) ** 2 + 20 * 8.31**2 * 0.59)
    assert growing_first(4, reach, 8.31, length, None) == math.ceil(heard * 4 / 0.5) == 250
    # g^2 = g K/4 + K (s a)^2.
    assert heard**2 == pytest.approx(heard * 20 / 4 + 20 * 8.31**2 * 0.59)
    assert growing_first(4, reach, 8.31, length, 1000) == 100
    assert growing_first(4, reach, 8.31, length, 5) == 1


def test_without_noise_the_first_batch_has_as_many_users_as_features_need() -> None:
    """g = k + 1."""
    assert growing_first(1, 1.0, 0.0, 1.0, None) == 20
    assert growing_first(5, 1.0, 0.0, 1.0, None) == 30
    assert growing_first(4, math.sqrt(0.5), 0.0, 0.8, None) == pytest.approx(40, abs=1)


def test_a_plan_sizes_its_first_batch_by_what_its_layout_scores() -> None:
    """s = 1.05 Delta/mu; the constant takes from r and counts as no feature."""
    std = 1.05 * math.sqrt(9 / 8) / mu_of(1.0, 1e-5)
    for dim, declared in ((4, None), (5, (4, math.sqrt(0.5)))):
        made = Plan.calibrate(
            "vector-sum", dim=dim, horizon=10**5, epsilon=1.0, delta=1e-5, constant_feature=declared
        )
        square = 1.0 if declared is None else 0.5
        length = math.sqrt(square * (1 + 0.424**2))
        heard = 20 / 8 + math.sqrt((20 / 8) ** 2 + 20 * (std * length) ** 2)
        assert made.schedule.first == math.ceil(heard * 4 / square)


def test_schedules_are_found_by_name() -> None:
    assert schedule("growing", 5, None) == GrowingBatches(5)
    assert schedule("doubling", 5, 100) == DoublingBatches(5, 100)
    with pytest.raises(UnknownNameError, match="shrinking"):
        schedule("shrinking", 5, 100)
    with pytest.raises(ValueError, match="horizon must be given for fixed batches"):
        schedule("fixed", 5, None)


@pytest.mark.parametrize("horizon", [50, 49 + 141, 999, 20_000])
def test_capped_batches_grow_like_others_up_to_the_cap(horizon: int) -> None:
    made, free = CappedBatches(50, horizon, 300), GrowingBatches(50)
    spans = list(made.spans())
    for span in spans:
        assert made.size(span.index) == min(300, free.uncut(span.index))
    whole = [span for span in spans if span.complete]
    assert made.batches == len(whole)
    assert made.unreleased == horizon - whole[-1].stop
    for start in range(len(spans)):
        assert made.users(start, len(spans)) == sum(map(made.size, range(start, len(spans))))


def test_batches_stop_growing_where_drift_takes_more_than_they_teach() -> None:
    """2 (s a k/(2 r^2 sqrt q))^(2/3), whatever the first batch."""
    reach, length = math.sqrt(0.5), math.sqrt(0.59)
    wanted = 2 * (8.31 * length * 4 / (2 * 0.5 * 1e-3)) ** (2 / 3)
    assert drift_most(4, reach, 8.31, length, 1e-3) == math.ceil(wanted) == 1735
    made = Plan.calibrate("vector-sum", dim=4, horizon=10**5, epsilon=1.0, delta=1e-5, drift=1e-3)
    std = 1.05 * math.sqrt(9 / 8) / mu_of(1.0, 1e-5)
    most = drift_most(4, 1.0, std, made.layout.length, 1e-3)
    assert made.schedule == CappedBatches(made.schedule.first, 10**5, most)
    assert made.policy.options == {"drift": 1e-3}
    assert Plan.from_json(made.to_json()) == made


def test_a_cap_is_that_of_capped_batches() -> None:
    assert schedule("capped", 5, 100, 20) == CappedBatches(5, 100, 20)
    for name, horizon, most, message in (
        ("capped", None, 20, "horizon must be given for capped batches"),
        ("capped", 100, None, "most must be given for capped batches"),
        ("capped", 100, 4, "most must be a whole number of at least 5, got 4"),
        ("growing", 100, 20, "most is that of capped batches, not of growing ones, got 20"),
    ):
        with pytest.raises(ValueError, match=message):
            schedule(name, 5, horizon, most)
