"""The regret to expect: means of simulated trials with honest intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from croupier.schedules import Schedule
from croupier.simulation.planner.sampled_users import Course, SimulatedRegret, play, played_rounds
from croupier.simulation.problem import Problem
from croupier.simulation.sweep import Progress

Floats = NDArray[np.float64]

CONFIDENCE = 0.99
SHORTCUT = 0.05
"""How far sampled users may be from the whole batch in the mean; part of every interval."""

STANDARD_ERRORS = 2.0
"""Two courses whose difference is less than so many of its errors are tied."""

ACCURACY = 0.25
"""The half-width that is worked for, as a share of the mean."""

CHANGES = 10
"""Courses as long as the first one that are only estimated, roughly."""


@dataclass(frozen=True)
class Effort:
    """Trials of a rough estimate, of a comparison, and the least and most for what is reported."""

    estimated: int
    compared: int
    least: int
    most: int


COMMON = Effort(estimated=32, compared=64, least=128, most=512)
"""One arm set for all: cheap to play, but a few runs in a hundred get stuck for long."""

INDIVIDUAL = Effort(estimated=6, compared=12, least=32, most=128)


@dataclass(frozen=True)
class Expectation:
    """Mean regret, and its share of the regret of uniform play, with 99 % intervals."""

    mean: float
    low: float
    high: float
    uniform: float
    share: float
    share_low: float
    share_high: float
    trials: int

    @property
    def accurate(self) -> bool:
        """Whether the interval is as narrow as was worked for."""
        return self.high - self.mean <= ACCURACY * self.mean


def expected(played: SimulatedRegret) -> Expectation:
    """The mean of trials; its interval counts their spread and what the shortcut may miss."""
    mean, uniform = float(played.regret.mean()), float(played.uniform.mean())
    share = mean / uniform
    # Instances on which all arms are alike have little regret of either kind: the share is
    # known better than the regret.
    difference = (played.regret - share * played.uniform) / uniform
    return Expectation(
        mean,
        *_interval(mean, played.regret),
        uniform,
        share,
        *_interval(share, difference),
        len(played.regret),
    )


def _interval(mean: float, spread: Floats) -> tuple[float, float]:
    """Around a mean of trials that vary like ``spread``."""
    trials = len(spread)
    error = float(spread.std(ddof=1)) / math.sqrt(trials)
    half = float(stdtrit(trials - 1, (1 + CONFIDENCE) / 2)) * error + SHORTCUT * mean
    return max(0.0, mean - half), mean + half


def indistinguishable(one: SimulatedRegret, other: SimulatedRegret) -> bool:
    """Whether the mean regrets of two courses on the same users may as well be the same."""
    difference = one.regret - other.regret
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    shortcut = SHORTCUT * min(one.regret.mean(), other.regret.mean())
    return bool(abs(difference.mean()) <= max(STANDARD_ERRORS * error, shortcut))


def joined(first: SimulatedRegret, second: SimulatedRegret) -> SimulatedRegret:
    """The trials of both."""
    return SimulatedRegret(
        np.concatenate([first.regret, second.regret]),
        np.concatenate([first.uniform, second.uniform]),
    )


class Rehearsal:
    """Simulations on one problem and seed, with one progress report for all of them."""

    def __init__(
        self, problem: Problem, seed: int, first: Schedule, choices: int, progress: Progress | None
    ) -> None:
        self._problem, self._seed, self._progress = problem, seed, progress
        self._effort = COMMON if problem.common_arms else INDIVIDUAL
        work = self._effort
        trials = work.least + choices * work.compared + CHANGES * work.estimated
        self._done, self._total = 0, played_rounds(first, problem) * trials

    def estimate(self, course: Course) -> Expectation:
        """A glance, to set one course against another on the same users."""
        return expected(self._play(course, 0, self._effort.estimated))

    def compare(self, course: Course) -> SimulatedRegret:
        """A look that is good enough to choose by; every course meets the same users."""
        return self._play(course, 0, self._effort.compared)

    def examine(self, course: Course) -> Expectation:
        """A close look, on users whom no comparison met: trials until the interval is narrow.

        Their number follows from what they show, never from the clock.
        """
        work = self._effort
        played = self._play(course, work.compared, work.least)
        while not expected(played).accurate and len(played.regret) < work.most:
            start = work.compared + len(played.regret)
            played = joined(played, self._play(course, start, work.least))
        return expected(played)

    def _play(self, course: Course, start: int, trials: int) -> SimulatedRegret:
        return play(course, self._problem, self._seed, range(start, start + trials), self._report)

    def _report(self, rounds: int) -> None:
        self._done = min(self._done + rounds, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def finish(self) -> None:
        """Nothing is left to play."""
        self._report(self._total)
