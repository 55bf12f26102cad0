from __future__ import annotations

from dataclasses import replace

import pytest

from croupier.simulation.compare import ALL_ENTRIES, AMPLIFIED, LOCAL, Arena, enter, line_up

ARENA = Arena(dim=5, horizon=20000, batch_size=20, epsilon=1.0, delta=0.1, calibration="theorem")


def test_every_algorithm_of_the_paper_is_lined_up() -> None:
    protocols = {job.plan.protocol for job in line_up(ALL_ENTRIES, ARENA)}
    assert protocols == {"linucb", "central", "vector-sum", "amplified-gaussian", "local"}


def test_sequential_entries_update_after_every_round() -> None:
    assert enter(LOCAL, ARENA).plan.schedule.first == 1
    assert enter(AMPLIFIED, ARENA).plan.schedule.first == 20


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_all_panels_of_figure_1_lie_outside_the_theorem_of_amplification(epsilon: float) -> None:
    job = enter(AMPLIFIED, replace(ARENA, epsilon=epsilon))
    assert "lem:shuffle_amp" in job.refused
    assert job.plan.terms.outside


def test_a_covered_algorithm_is_not_marked() -> None:
    assert enter(LOCAL, ARENA).refused == ""
