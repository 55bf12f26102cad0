"""A recommendation: the plan with what to expect of it, or the reason why there is none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from croupier.documents import plan_document
from croupier.plan import Plan
from croupier.simulation.planner.candidates import Candidate, report_bytes
from croupier.simulation.planner.expectations import Expectation
from croupier.simulation.planner.need import Need


@dataclass(frozen=True)
class Alternative:
    """A way that was considered: its numbers as far as it got, and what ruled it out, if so."""

    label: str
    overhead: float | None = None
    report_bytes: int | None = None
    expected: Expectation | None = None
    ruled_out: str = ""

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        regret = self.expected.mean if self.expected else None
        return {**asdict(self), "expected": regret}


@dataclass(frozen=True)
class WhatIf:
    """An estimate of regret, and of its share of uniform play, if one thing were different."""

    change: str
    regret: float
    share: float


@dataclass(frozen=True)
class Needed:
    """What it would take, one thing at a time; None where nothing of the kind is enough."""

    users: int | None = None
    epsilon: float | None = None
    report_bytes: int | None = None


@dataclass(frozen=True)
class Recommendation:
    """``choice`` and ``plan`` are None where the answer is no; ``needed`` is None where it is yes.

    ``non_private`` is the regret of the same policy without noise, an estimate.
    """

    need: Need
    reason: str
    choice: Candidate | None = None
    plan: Plan | None = None
    expected: Expectation | None = None
    non_private: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    what_if: tuple[WhatIf, ...] = ()
    needed: Needed | None = None

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "kind": "recommendation",
            "need": asdict(self.need),
            "reason": self.reason,
            "choice": self.choice and self.choice.document(),
            "problem": self.need.problem.name,
            "regret": self.expected and asdict(self.expected),
            "non_private": self._non_private(),
            **self._sizes(),
            "alternatives": [one.document() for one in self.alternatives],
            "what_if": [{**asdict(one), "estimate": True} for one in self.what_if],
            "needed": self.needed and asdict(self.needed),
            "plan": self.plan and plan_document(self.plan),
        }

    def _non_private(self) -> dict[str, Any] | None:
        if self.non_private is None or self.expected is None:
            return None
        times = self.expected.mean / self.non_private
        return {"regret": self.non_private, "times": times, "estimate": True}

    def _sizes(self) -> dict[str, Any]:
        """What the plan costs to run."""
        if self.plan is None:
            return {"report_bytes": None, "downloads": None, "batches": None}
        first, largest = report_bytes(self.plan)
        return {
            "report_bytes": {"first": first, "largest": largest},
            "downloads": self.plan.schedule.batches,
            "batches": list(self.plan.schedule.sizes()),
        }
