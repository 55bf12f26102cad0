"""Chooses: rule out by bytes and by what is known, simulate what is left, take the least regret."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

from croupier.errors import GuaranteeError
from croupier.plan import Plan
from croupier.plan_defaults import DEFAULT_OVERHEAD
from croupier.protocols import registry
from croupier.schedules import MOST_USERS
from croupier.simulation.planner.candidates import (
    OVERHEADS,
    TREE,
    Candidate,
    choices,
    report_bytes,
    tree_is_worth_a_try,
)
from croupier.simulation.planner.expectations import (
    Expectation,
    Rehearsal,
    expected,
    indistinguishable,
)
from croupier.simulation.planner.need import Need
from croupier.simulation.planner.recommendation import Alternative, Needed, Recommendation, WhatIf
from croupier.simulation.planner.sampled_users import SimulatedRegret
from croupier.simulation.planner.shortfall import WORTHWHILE, needed, worthwhile
from croupier.simulation.sweep import Progress

REAL_BYTES = 8
"""Of a coordinate that is sent as a real number."""


class _TooLargeError(Exception):
    """No certified report fits; ``least`` has the bytes of the smallest."""

    def __init__(self, least: int) -> None:
        super().__init__(f"its smallest certified reports take {least} bytes")
        self.least = least


@dataclass(frozen=True)
class Tried:
    """A choice with its certified plan and a first look at its regret."""

    choice: Candidate
    plan: Plan
    played: SimulatedRegret

    @property
    def mean(self) -> float:
        """The regret at first sight."""
        return float(self.played.regret.mean())

    @property
    def report_bytes(self) -> int:
        """Of the largest report."""
        return report_bytes(self.plan)[1]

    @property
    def alternative(self) -> Alternative:
        """For the list of what was considered."""
        seen = expected(self.played)
        return Alternative(self.choice.label, self.choice.overhead, self.report_bytes, seen)


def recommend(need: Need, progress: Progress | None = None) -> Recommendation:
    """The certified plan of least simulated regret, if it is clearly better than uniform play.

    The same need, its seed included, gives the same answer.
    """
    listed = list(choices(need))
    rehearsal = Rehearsal(need.problem, need.seed, listed[0].schedule, len(listed), progress)
    tried, ruled_out = _tried(listed, rehearsal)
    if tried:
        answer = _answer(need, _best(tried), rehearsal)
    else:
        answer = _nothing_certified(need, ruled_out, rehearsal)
    rehearsal.finish()
    considered = (*(one.alternative for one in tried), *ruled_out, *_known_to_be_worse(need))
    return replace(answer, alternatives=considered)


def _tried(listed: list[Candidate], rehearsal: Rehearsal) -> tuple[list[Tried], list[Alternative]]:
    """Choices that could be certified, and those that could not."""
    tried, ruled_out = [], []
    for candidate in listed:
        try:
            sized, plan = _certified(candidate)
        except _TooLargeError as error:
            ruled_out.append(
                Alternative(candidate.label, report_bytes=error.least, ruled_out=str(error))
            )
        except GuaranteeError as error:
            ruled_out.append(Alternative(candidate.label, ruled_out=str(error)))
        else:
            tried.append(Tried(sized, plan, rehearsal.compare(sized.course(plan))))
    return tried, ruled_out


def _certified(candidate: Candidate) -> tuple[Candidate, Plan]:
    """The plan with the least overhead whose reports are small enough."""
    most = candidate.need.max_report_bytes
    for sized in _small_enough(candidate, most):
        plan = sized.plan()
        if not plan.met:
            raise GuaranteeError(f"calibrated for {candidate.need.budget}, which it does not meet")
        if most is None or report_bytes(plan)[1] <= most:
            return sized, plan
    raise _TooLargeError(replace(candidate, overhead=OVERHEADS[-1]).largest_report())


def _small_enough(candidate: Candidate, most: int | None) -> list[Candidate]:
    """The choice at every overhead that is likely to fit; more noise makes smaller reports."""
    if most is None:
        return [candidate]
    sized = [replace(candidate, overhead=overhead) for overhead in OVERHEADS]
    return sized[bisect_left(sized, -most, key=lambda one: -one.largest_report()) :]


def _best(tried: list[Tried]) -> Tried:
    """The least regret; of those that the simulation cannot tell from it, the fewest bytes.

    Then the one listed first: rare bad runs, which decide the mean, show in longer looks only.
    """
    leader = min(tried, key=lambda one: one.mean)
    tied = [one for one in tried if indistinguishable(one.played, leader.played)]
    return min(tied, key=lambda one: one.report_bytes)


def _answer(need: Need, best: Tried, rehearsal: Rehearsal) -> Recommendation:
    """Yes where the best is clearly better than uniform play."""
    found = rehearsal.examine(best.choice.course(best.plan))
    # A tree takes long to calibrate and hardly changes what users, epsilon or bytes are worth.
    simple = replace(best.choice, levels=None)
    if not worthwhile(found):
        wanted = needed(simple, rehearsal)
        return Recommendation(need, _hopeless(found), expected=found, needed=wanted)
    glance = rehearsal.estimate(simple.course())
    silent = rehearsal.estimate(simple.without_noise())
    return Recommendation(
        need,
        "the least simulated regret of all that was considered",
        best.choice,
        best.plan,
        found,
        silent.mean / glance.mean * found.mean,
        what_if=tuple(_what_if(simple, found, glance, rehearsal)),
    )


def _hopeless(found: Expectation) -> str:
    shares = (found.share, found.share_low, found.share_high)
    mean, low, high = (f"{100 * share:.0f} %" for share in shares)
    return (
        f"Not enough users to learn anything: simulated regret is {mean} of uniform play "
        f"({low} to {high}); the upper end would have to be at most {100 * WORTHWHILE:.0f} %"
    )


def _nothing_certified(
    need: Need, ruled_out: list[Alternative], rehearsal: Rehearsal
) -> Recommendation:
    """No, and what the least reports take, or how many users would do."""
    sizes = [one.report_bytes for one in ruled_out if one.report_bytes is not None]
    if not sizes:
        reason = f"Nothing can be certified: {ruled_out[0].ruled_out}"
        return Recommendation(need, reason, needed=needed(next(choices(need)), rehearsal))
    reason = (
        f"No certified report fits max_report_bytes {need.max_report_bytes}: "
        f"the smallest takes {min(sizes)} bytes"
    )
    return Recommendation(need, reason, needed=Needed(report_bytes=min(sizes)))


def _what_if(
    candidate: Candidate, found: Expectation, glance: Expectation, rehearsal: Rehearsal
) -> Iterator[WhatIf]:
    """Estimates: what a change does at a glance, applied to what is expected."""
    for change, other in _changes(candidate):
        there = rehearsal.estimate(other.course())
        regret = there.mean / glance.mean * found.mean
        yield WhatIf(change, regret, there.share / glance.share * found.share)


def _changes(candidate: Candidate) -> Iterator[tuple[str, Candidate]]:
    """The same kind of plan with more users, more epsilon or, where they are short, more bytes."""
    need = candidate.need
    for times in (2, 10):
        if times * need.users <= MOST_USERS:
            yield f"{times} times the users", candidate.changed(users=times * need.users)
    yield "twice the epsilon", candidate.changed(epsilon=2 * need.epsilon)
    if candidate.overhead > DEFAULT_OVERHEAD:
        free = replace(candidate, overhead=DEFAULT_OVERHEAD)
        yield f"reports of {free.largest_report()} bytes", free


def _known_to_be_worse(need: Need) -> Iterator[Alternative]:
    """What MATH 5 and 6.5 rule out without a simulation."""
    yield Alternative(
        "amplified-gaussian",
        report_bytes=REAL_BYTES * next(choices(need)).layout.size,
        ruled_out="64 bits a coordinate, and several times the noise of vector-sum",
    )
    if TREE in registry.names() and not tree_is_worth_a_try(need):
        why = "a report per level; fewer bad runs, but about 12 % more regret in the mean"
        yield Alternative(TREE, ruled_out=why)
