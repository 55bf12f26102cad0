"""The paper's algorithms side by side: one plan each, on the same users."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from croupier.errors import GuaranteeError
from croupier.plan import Plan
from croupier.simulation import problems
from croupier.simulation.sweep import Job


@dataclass(frozen=True)
class Entry:
    """An algorithm of the paper; ``sequential`` ones update after every round."""

    label: str
    protocol: str
    sequential: bool = False


LINUCB = Entry("LinUCB", "linucb", sequential=True)
CENTRAL = Entry("LinUCB-JDP", "central", sequential=True)
AMPLIFIED = Entry("LinUCB-SDP-Amp", "amplified-gaussian")
VECTOR = Entry("LinUCB-SDP-Vec", "vector-sum")
LOCAL = Entry("LinUCB-LDP", "local", sequential=True)

FIGURE_ENTRIES = (LINUCB, CENTRAL, VECTOR, AMPLIFIED, LOCAL)
"""The five algorithms of the paper's figures."""

ALL_ENTRIES = (
    LINUCB,
    Entry("Batched-LinUCB", "linucb"),
    CENTRAL,
    Entry("Batched-Central-LinUCB", "central"),
    VECTOR,
    AMPLIFIED,
    LOCAL,
    Entry("Batched-Local-LinUCB", "local"),
)
"""Every algorithm of the paper."""


@dataclass(frozen=True)
class Arena:
    """What all algorithms of a comparison share."""

    dim: int
    horizon: int
    batch_size: int
    epsilon: float
    delta: float
    calibration: str
    arms: int = 100
    problem: str = "sphere"
    policy: str = "ucb"
    max_participations: int = 1


def line_up(entries: Iterable[Entry], arena: Arena) -> list[Job]:
    """A job per entry; one that its theorem does not cover runs its formula and says so."""
    return [enter(entry, arena) for entry in entries]


def enter(entry: Entry, arena: Arena) -> Job:
    """The job of one algorithm."""
    try:
        plan, refused = _plan(entry, arena), ""
    except GuaranteeError as error:
        plan, refused = _plan(entry, arena, outside=True), str(error)
    kind = problems.find(arena.problem)
    return Job(entry.label, plan, kind.for_plan(plan, arena.arms), refused)


def _plan(entry: Entry, arena: Arena, **more: Any) -> Plan:
    return Plan.calibrate(
        entry.protocol,
        dim=arena.dim,
        batch_size=1 if entry.sequential else arena.batch_size,
        horizon=arena.horizon,
        calibration=arena.calibration,
        epsilon=arena.epsilon,
        delta=arena.delta,
        policy=arena.policy,
        max_participations=arena.max_participations,
        **more,
    )
