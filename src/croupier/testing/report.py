"""Findings of a check, and how a promise or a law is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from croupier.errors import ProtocolError

Floats = NDArray[np.float64]
Complaints = Iterator[str]
S = TypeVar("S")


@dataclass(frozen=True)
class Finding:
    """One promise, whether it was kept, and the statistic that says so.

    The statistic of a law is its smallest p-value; elsewhere it is the number of failed cases.
    """

    promise: str
    kept: bool
    statistic: float
    detail: str = ""

    def __str__(self) -> str:
        """A sentence."""
        return f"{self.promise} ({self.detail or f'{self.statistic:.3g}'})"


@dataclass(frozen=True)
class CheckReport:
    """What was checked of the thing called ``subject``."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The promises that do not hold."""
        return tuple(finding for finding in self.findings if not finding.kept)

    def __str__(self) -> str:
        """One line a promise."""
        marks = (f"- {'kept' if one.kept else 'BROKEN'}: {one}" for one in self.findings)
        return "\n".join([f"{self.subject}:", *marks])


def kept(report: CheckReport) -> CheckReport:
    """The report, or one error that lists every broken promise."""
    if report.broken:
        listed = "".join(f"\n- {finding}" for finding in report.broken)
        raise ProtocolError(f"{report.subject} breaks promises:{listed}")
    return report


def judge(promise: str, check: Callable[[S], Complaints], subject: S) -> Finding:
    """A promise is kept if its check has no complaint; one that cannot be checked is broken."""
    try:
        complaints = list(check(subject))
    except Exception as error:
        complaints = [f"the check ended in {error!r}"]
    return Finding(promise, not complaints, len(complaints), "; ".join(complaints[:3]))


def weigh(promise: str, law: Callable[[S], Floats], subject: S, rate: float) -> Finding:
    """A law is broken if a p-value is below its share of the false-alarm ``rate``."""
    try:
        chances = law(subject)
    except Exception as error:
        return Finding(promise, False, math.nan, f"the check ended in {error!r}")
    least = float(np.min(chances))
    return Finding(promise, least >= rate / chances.size, least, f"smallest p-value {least:.3g}")
