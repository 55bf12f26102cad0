"""Random schedules of uploads, replays, lies, crashes, lost messages, clock jumps and races."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from croupier.service.shuffler.rows import BatchState

from .attacks.rolled_back_device import Answered
from .faulty_deployment import PLAN, USERS, Fault, Moment, Simulation
from .faulty_shared_deployment import TREE, SharedSimulation

Places = Callable[[str], str]
Event = tuple[str, tuple[Any, ...]]

PROCESS = st.integers(0, 1)
CHOSEN = st.integers(0, 200)
GROUP = st.lists(st.integers(0, USERS - 1), min_size=1, max_size=4)


def event(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Event]:
    return st.tuples(st.just(name), st.tuples(*arguments))


EVENTS = st.one_of(
    event("send", PROCESS, GROUP),
    event("send", PROCESS, GROUP),
    event("send", PROCESS, GROUP),
    event("replay", PROCESS, CHOSEN),
    event("forge", PROCESS, CHOSEN, st.booleans()),
    event("seal", PROCESS),
    event("release", PROCESS),
    event("race", PROCESS),
    event("overtaken", PROCESS),
    event("deliver", PROCESS),
    event("finish", PROCESS),
    event("scrub", PROCESS),
    event("work", PROCESS, st.booleans()),
    event("work", PROCESS, st.booleans()),
    event("jump", st.sampled_from([-90_000.0, -30.0, 30.0, 61.0, 90_000.0])),
    event("look"),
    event("keep_backup"),
    event("restore_backup", CHOSEN),
    event("restore_disk", CHOSEN),
    event("keep_backup_of_the_analyzer"),
    event("restore_backup_of_the_analyzer", CHOSEN),
)
"""In the order in which things usually happen."""

FAULTS = st.one_of(
    st.just(Fault()),
    st.builds(Fault, st.sampled_from(Moment), st.integers(0, 2)),
)

DEVICE_EVENTS = st.one_of(
    EVENTS,
    event("lie", PROCESS, st.integers(0, 3)),
    *[event("device", PROCESS, st.sampled_from(Answered))] * 4,
    event("pass_by", PROCESS),
    event("device_goes_back", CHOSEN, st.just(False)),
    event("device_goes_back", CHOSEN, st.booleans()),
)
"""Liars whose reports are well formed, and a device whose files go back."""

SCHEDULES = st.lists(st.tuples(DEVICE_EVENTS, FAULTS), min_size=20, max_size=60)


SHARED_EVENTS = st.one_of(
    EVENTS,
    event("spoil", PROCESS, st.integers(0, USERS - 1)),
    event("outrun", PROCESS, GROUP),
)
"""Reports that do not open, and processes that are overtaken by another attempt."""

SHARED_SCHEDULES = st.lists(st.tuples(SHARED_EVENTS, FAULTS), min_size=20, max_size=60)


def run(
    schedule: list[tuple[Event, Fault]],
    places: Places,
    kind: str,
    deployment: type[Simulation] = Simulation,
) -> Simulation:
    simulation = deployment(places(kind), places(kind))
    try:
        for (name, arguments), fault in schedule:
            simulation.run(_event(name, arguments), fault)
        simulation.complete()
        simulation.check()
    finally:
        simulation.stop()
    return simulation


def _event(name: str, arguments: tuple[Any, ...]) -> Callable[[Simulation], object]:
    return lambda simulation: getattr(simulation, name)(*arguments)


def many(examples: int) -> settings:
    return settings(max_examples=examples, suppress_health_check=list(HealthCheck))


@many(200)
@given(schedule=SCHEDULES)
def test_no_schedule_loses_or_repeats_a_report_on_sqlite(
    places: Places, schedule: list[tuple[Event, Fault]]
) -> None:
    run(schedule, places, "sqlite")


@many(40)
@given(schedule=SCHEDULES)
def test_no_schedule_loses_or_repeats_a_report_on_postgresql(
    places: Places, schedule: list[tuple[Event, Fault]]
) -> None:
    run(schedule, places, "postgresql")


@many(12)
@given(schedule=SHARED_SCHEDULES)
def test_no_schedule_loses_or_repeats_a_share_of_a_tree_on_sqlite(
    places: Places, schedule: list[tuple[Event, Fault]]
) -> None:
    run(schedule, places, "sqlite", SharedSimulation)


@many(3)
@given(schedule=SHARED_SCHEDULES)
def test_no_schedule_loses_or_repeats_a_share_of_a_tree_on_postgresql(
    places: Places, schedule: list[tuple[Event, Fault]]
) -> None:
    run(schedule, places, "postgresql", SharedSimulation)


@pytest.mark.slow
@many(600)
@given(schedule=SHARED_SCHEDULES)
def test_no_schedule_of_hundreds_loses_or_repeats_a_share_of_a_tree_on_sqlite(
    places: Places, schedule: list[tuple[Event, Fault]]
) -> None:
    run(schedule, places, "sqlite", SharedSimulation)


@pytest.mark.slow
@many(200)
@given(schedule=SHARED_SCHEDULES)
def test_no_schedule_of_hundreds_loses_or_repeats_a_share_of_a_tree_on_postgresql(
    places: Places, schedule: list[tuple[Event, Fault]]
) -> None:
    run(schedule, places, "postgresql", SharedSimulation)


@pytest.mark.slow
@many(4000)
@given(schedule=SCHEDULES)
def test_no_schedule_of_thousands_loses_or_repeats_a_report_on_sqlite(
    places: Places, schedule: list[tuple[Event, Fault]]
) -> None:
    run(schedule, places, "sqlite")


@pytest.mark.slow
@many(1500)
@given(schedule=SCHEDULES)
def test_no_schedule_of_thousands_loses_or_repeats_a_report_on_postgresql(
    places: Places, schedule: list[tuple[Event, Fault]]
) -> None:
    run(schedule, places, "postgresql")


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("spared", range(3))
def test_every_step_survives_every_fault(
    kind: str, places: Places, moment: Moment, spared: int
) -> None:
    """Each step of a life fails once and is then taken again."""
    simulation = Simulation(places(kind), places(kind))
    try:
        for batch in range(3):
            users = range(3 * batch, 3 * batch + 3)
            for name, arguments in _life(list(users)):
                simulation.run(_event(name, arguments), Fault(moment, spared))
                simulation.run(_event(name, arguments), Fault())
            simulation.run(_event("deliver", (0,)), Fault())
        assert simulation.processes[0].current(PLAN.id).state in {
            BatchState.ACKNOWLEDGED,
            BatchState.SCRUBBED,
        }
        simulation.complete()
        simulation.check()
    finally:
        simulation.stop()


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("spared", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_every_step_of_a_tree_of_shares_survives_every_fault(
    kind: str, places: Places, moment: Moment, spared: int
) -> None:
    """A bad device has the second batch begun again; each step fails once and is taken again."""
    simulation = SharedSimulation(places(kind), places(kind))
    try:
        for batch in range(4):
            users = list(range(3 * batch, 3 * batch + 3))
            bad = [("send", (0, users[:2])), ("spoil", (0, 20)), *_life([])[1:]]
            for name, arguments in [*(bad if batch == 1 else []), *_life(users)]:
                simulation.run(_event(name, arguments), Fault(moment, spared))
                simulation.run(_event(name, arguments), Fault())
            simulation.run(_event("deliver", (0,)), Fault())
            simulation.run(_event("scrub", (0,)), Fault())
        assert simulation.processes[0].dropped(TREE.id) == 1
        simulation.complete()
        simulation.check()
    finally:
        simulation.stop()


def _life(users: list[int]) -> list[Event]:
    return [
        ("send", (0, users)),
        ("seal", (0,)),
        ("race", (1,)),
        ("deliver", (0,)),
        ("scrub", (1,)),
    ]
