from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.errors import UnknownNameError
from croupier.schedules import FixedBatches, schedule

SIZES = st.integers(1, 500).flatmap(
    lambda horizon: st.tuples(st.integers(1, horizon), st.just(horizon))
)


@given(SIZES)
def test_spans_cover_the_horizon_exactly(sizes: tuple[int, int]) -> None:
    batch_size, horizon = sizes
    spans = list(FixedBatches(batch_size, horizon).spans())
    covered = [step for span in spans for step in range(span.start, span.stop)]
    assert covered == list(range(horizon))
    assert [span.index for span in spans] == list(range(len(spans)))


@given(SIZES)
def test_only_a_leftover_stays_incomplete(sizes: tuple[int, int]) -> None:
    batch_size, horizon = sizes
    plan = FixedBatches(batch_size, horizon)
    spans = list(plan.spans())
    incomplete = [span for span in spans if not span.complete]
    assert sum(span.stop - span.start for span in incomplete) == horizon % batch_size
    assert incomplete == spans[len(spans) - len(incomplete) :]
    assert plan.batches == len(spans) - len(incomplete) == horizon // batch_size
    assert super(FixedBatches, plan).batches == plan.batches


def test_every_batch_has_the_same_size() -> None:
    plan = FixedBatches(20, 100)
    assert (plan.first, plan.size(0), plan.size(3), plan.sizes()) == (20, 20, 20, (20,))
    assert plan.rounds == 100


def test_a_batch_longer_than_the_horizon_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match="at most the horizon 10, got 11"):
        FixedBatches(11, 10)


@pytest.mark.parametrize(("batch_size", "horizon"), [(0, 10), (-1, 10), (5, 0), (True, 10)])
def test_empty_batches_and_horizons_are_refused(batch_size: int, horizon: int) -> None:
    with pytest.raises(ValueError, match="whole number of at least 1"):
        FixedBatches(batch_size, horizon)


def test_schedules_are_found_by_name() -> None:
    assert schedule("fixed", 20, 100) == FixedBatches(20, 100)
    with pytest.raises(UnknownNameError, match=r"unknown batch schedule 'weekly'.*fixed"):
        schedule("weekly", 20, 100)
