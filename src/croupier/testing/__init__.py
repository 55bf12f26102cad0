"""Checks of the promises that a protocol or a problem makes, shipped for third parties.

``check_protocol`` and ``check_problem`` raise one ``ProtocolError`` that lists every broken
promise, or return a ``CheckReport`` of what was checked.
"""

from __future__ import annotations

from croupier.arguments import whole
from croupier.protocols.base import Protocol
from croupier.simulation.problem import Problem
from croupier.testing.laws import LAWS, LEAST_TRIALS
from croupier.testing.problems import PROBLEM_PROMISES
from croupier.testing.promises import PROMISES
from croupier.testing.report import CheckReport, Finding, judge, kept, weigh
from croupier.testing.subject import Subject

__all__ = ["FALSE_ALARM", "CheckReport", "Finding", "check_problem", "check_protocol"]

FALSE_ALARM = 1e-6
"""How often ``check_protocol`` may blame a faultless protocol, over all its tests together."""


def check_protocol(protocol: Protocol, *, seed: int = 0, trials: int = 2000) -> CheckReport:
    """Check every promise of the seam on one protocol, best with a batch of about 8 users.

    A noise std that is 20 % wrong is found with 2000 trials. Laws are tested per coordinate and
    share a false-alarm rate of 1e-6 (Bonferroni; tests of means and variances are asymptotic, so
    noise must show in most of the trials). Raises ``ProtocolError`` with all broken promises.
    """
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be a Protocol, got {protocol!r}")
    subject = Subject(protocol, seed, whole("trials", trials, LEAST_TRIALS))
    plain = [judge(promise, check, subject) for promise, check in PROMISES.items()]
    rate = FALSE_ALARM / len(LAWS)
    laws = [weigh(promise, law, subject, rate) for promise, law in LAWS.items()]
    return kept(CheckReport(f"protocol {type(protocol).__name__}", (*plain, *laws)))


def check_problem(problem: Problem, seed: int = 0) -> CheckReport:
    """Check that a problem's users are bounded and a pure function of (seed, trial, round)."""
    findings = [
        judge(promise, check, (problem, seed)) for promise, check in PROBLEM_PROMISES.items()
    ]
    return kept(CheckReport(f"problem {type(problem).__name__}", tuple(findings)))
