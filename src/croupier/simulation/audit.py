"""Runs a mechanism on its worst pair of users many times and measures what it gives away.

Audits mu, not epsilon: at a delta of 1e-5 an audit of epsilon is blind (MATH 7.5). The pair is
chosen first, the test is trained next, and what is reported comes from fresh runs only.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import whole
from croupier.layouts import Layout
from croupier.plan import Plan
from croupier.privacy import audit_statistics
from croupier.privacy.audit_statistics import Errors, Point
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import USUAL_DELTA, Guarantee
from croupier.protocols.base import Mechanism
from croupier.simulation.real_devices import DeviceCheck, check_devices
from croupier.simulation.report_check import ReportCheck, check_reports

Floats = NDArray[np.float64]

TRIALS = 400_000
LEAST_TRIALS = 1000
CHUNK = 10_000
TRAINING_SHARE = 4
TRAINED_AT_MOST, TRAINED_PER_FEATURE = 20_000, 5000
"""More training runs than these do not make a better test."""

MOST_NUMBERS = 2 * 10**7
"""Of a training sample, which is held in memory."""

SEARCH, TRAINING, TEST = range(3)
"""Streams of randomness, so that no sample is used for two purposes."""

STARTS, CLIMBS = 25, 2000
SEARCH_TRIALS = 4
REACH = (0.1, 0.002)
"""First and last size of a turn of the search."""

FLAT = 1e-9
"""Relative differences that are rounding: there is nothing to search for."""


@dataclass(frozen=True, eq=False)
class AuditReport:
    """What was claimed, what was measured in ``trials`` runs of either side, and the verdict.

    ``middle`` and ``sharp`` are the errors of one test at two thresholds: halfway between the
    sides, and where the budget's epsilon makes the claim tightest. Their bounds hold together
    with probability 99.9 %. They and the pair are None where nothing is claimed and nothing run.
    """

    guarantee: Guarantee
    budget: Budget | None
    batches: int
    trials: int
    seed: int
    pair: Floats | None
    middle: Errors | None
    sharp: Errors | None
    devices: DeviceCheck | None
    reports: ReportCheck | None
    seconds: float

    @property
    def delta(self) -> float:
        """The delta that the certified numbers are for."""
        return self.budget.delta if self.budget else USUAL_DELTA

    @property
    def mu_certified(self) -> float | None:
        """The Gaussian-DP parameter that is promised, None where there is none."""
        return self.guarantee.mu_at(self.delta)

    @property
    def mu_estimate(self) -> float | None:
        """What the test achieved."""
        return None if self.middle is None else self.middle.rates.mu

    @property
    def mu_lower(self) -> float | None:
        """What the mechanism gives away at least, with 99.9 % confidence."""
        return None if self.middle is None else max(0.0, self.middle.bounds().mu)

    @property
    def delta_lower(self) -> float | None:
        """The least delta at the budget's epsilon, with 99.9 % confidence."""
        if self.budget is None or not self._points:
            return None
        return max(point.delta(self.budget.epsilon) for point in self._points)

    @property
    def promise_refuted(self) -> bool:
        """Whether the guarantee cannot be true."""
        return any(audit_statistics.refutes(point, self.guarantee) for point in self._points)

    @property
    def budget_refuted(self) -> bool:
        """Whether the budget cannot be met, whatever is proved."""
        least = self.delta_lower
        return least is not None and self.budget is not None and least > self.budget.delta

    @property
    def flagged(self) -> bool:
        """Whether more was measured than was claimed."""
        refuted = self.promise_refuted or self.budget_refuted
        return refuted or self.devices_differ or self.reports_differ

    @property
    def devices_differ(self) -> bool:
        """Whether real devices do not follow the law that was measured."""
        return self.devices is not None and not self.devices.agrees

    @property
    def reports_differ(self) -> bool:
        """Whether single reports of real devices do not follow the plan's exact law."""
        return self.reports is not None and not self.reports.agrees

    @property
    def _points(self) -> list[Point]:
        return [found.bounds() for found in (self.middle, self.sharp) if found is not None]


def audit(
    plan: Plan,
    *,
    trials: int = TRIALS,
    seed: int = 0,
    batches: int | None = None,
    mechanism: Mechanism | None = None,
    guarantee: Guarantee | None = None,
    device_seconds: float = 0.0,
) -> AuditReport:
    """Measure a plan with a user in ``batches`` batches, as many as it allows unless given.

    ``mechanism`` is what really runs and ``guarantee`` what is claimed, the plan's unless given.
    For ``device_seconds`` real devices are run too, to see that they follow the measured law, and
    for as long again to hold single reports against the exact law of the plan's own parameters.
    """
    started = time.perf_counter()
    present = plan.participations if batches is None else batches
    if whole("batches", present, 1) > plan.schedule.batches:
        raise ValueError(f"batches must be at most {plan.schedule.batches}, got {present}")
    whole("trials", trials, LEAST_TRIALS)
    claimed = plan.promise_for(present) if guarantee is None else guarantee
    budget = plan.budget if present <= plan.participations else None
    runs = Runs(plan.mechanism if mechanism is None else mechanism, present, trials, seed)
    pair, middle, sharp, devices, reports = None, None, None, None, None
    if claimed.proved or budget is not None:
        pair = runs.search()
        middle, sharp = runs.measure(pair, budget.epsilon if budget else 1.0)
        devices = runs.devices(pair, device_seconds)
        reports = runs.reports(plan.mechanism, pair, device_seconds)
    seconds = time.perf_counter() - started
    return AuditReport(
        claimed, budget, present, trials, seed, pair, middle, sharp, devices, reports, seconds
    )


@dataclass(frozen=True)
class Runs:
    """A mechanism run over and over with one user's data one way or the other."""

    mechanism: Mechanism
    batches: int
    trials: int
    seed: int

    @property
    def layout(self) -> Layout:
        """The coordinates."""
        return self.mechanism.layout

    def search(self) -> Floats:
        """Features ``(2, scored)`` of the pair that moves the mean of the view most.

        All turns of one pair are alike to an honest mechanism; to one that rounds
        deterministically, say, they are not. Found by random starts and hill climbing.
        """
        rng = self._rng(SEARCH, 0, 0)
        frames = [
            _slanted(self.layout.free),
            *(_turned(self.layout.free, rng) for _ in range(STARTS)),
        ]
        starts = [(frame, cosine) for cosine in worst_cosines(self.layout) for frame in frames]
        moved = np.array([self._moved(*start) for start in starts])
        frame, cosine = starts[int(moved.argmax())]
        alike = moved[[angle == cosine for _, angle in starts]]
        if np.ptp(alike) > FLAT * moved.max():
            frame = self._climb(frame, cosine, rng)
        return turned_pair(self.layout, frame, cosine)

    def _climb(self, frame: Floats, cosine: float, rng: np.random.Generator) -> Floats:
        """The best of a chain of small turns, smaller and smaller."""
        moved = self._moved(frame, cosine)
        for reach in np.geomspace(*REACH, CLIMBS):
            drawn = _orthonormal(frame + reach * rng.standard_normal(frame.shape))
            if (found := self._moved(drawn, cosine)) > moved:
                frame, moved = drawn, found
        return frame

    def _moved(self, frame: Floats, cosine: float) -> float:
        """How far the mean view moves; noise drawn alike on both sides cancels."""
        trials = min(SEARCH_TRIALS, 1 + self.trials // CHUNK)
        pair = self._encoded(turned_pair(self.layout, frame, cosine))
        first, second = (
            self.mechanism.sample_view(pair, side, self.batches, trials, self._rng(SEARCH, 1, 0))
            for side in (0, 1)
        )
        return float(np.linalg.norm((second - first).mean(axis=0)))

    def measure(self, pair: Floats, epsilon: float) -> tuple[Errors, Errors]:
        """Errors in the middle and at ``epsilon`` of a test trained before."""
        encoded = self._encoded(pair)
        weights, scores = self._train(encoded)
        middle_cut = audit_statistics.middle_threshold(*scores)
        sharp_cut = audit_statistics.best_threshold(*scores, epsilon, self.trials)
        first, second = (
            np.concatenate(
                self._chunks(encoded, TEST, side, self.trials, lambda view: view @ weights)
            )
            for side in (0, 1)
        )
        middle, sharp = (
            audit_statistics.errors(first, second, cut) for cut in (middle_cut, sharp_cut)
        )
        return middle, sharp

    def _train(self, pair: Floats) -> tuple[Floats, tuple[Floats, Floats]]:
        """Fisher's direction and its scores on the training samples."""
        size = self._one_view(pair).shape[1]
        most = min(max(TRAINED_AT_MOST, TRAINED_PER_FEATURE * size), MOST_NUMBERS // size)
        count = max(LEAST_TRIALS, min(self.trials // TRAINING_SHARE, most))
        first, second = (
            np.concatenate(self._chunks(pair, TRAINING, side, count, np.asarray)) for side in (0, 1)
        )
        weights = audit_statistics.direction(first, second)
        return weights, (first @ weights, second @ weights)

    def _one_view(self, pair: Floats) -> Floats:
        return self.mechanism.sample_view(pair, 0, self.batches, 1, self._rng(TRAINING, 2, 0))

    def _chunks(
        self, pair: Floats, stream: int, side: int, count: int, read: Callable[[Floats], Floats]
    ) -> list[Floats]:
        """What ``read`` makes of ``count`` views, chunk by chunk; same numbers on any machine."""

        def one(chunk: tuple[int, int]) -> Floats:
            index, trials = chunk
            rng = self._rng(stream, side, index)
            return read(self.mechanism.sample_view(pair, side, self.batches, trials, rng))

        # numpy draws without holding the interpreter's lock, so threads share the work.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(one, _cut(count)))

    def devices(self, pair: Floats, seconds: float) -> DeviceCheck | None:
        """Real devices for a while, with the pair's second user among them."""
        if seconds <= 0:
            return None
        return check_devices(self.mechanism, self._encoded(pair)[1], seconds, self.seed)

    def reports(self, promised: Mechanism, pair: Floats, seconds: float) -> ReportCheck | None:
        """Single reports on the data of either side and on none, against what was promised."""
        if seconds <= 0:
            return None
        first, second = self._encoded(pair)
        rows = {"no data": np.zeros(self.layout.size), "first side": first, "second side": second}
        return check_reports(promised, self.mechanism, rows, seconds)

    def _encoded(self, pair: Floats) -> Floats:
        """Contributions ``(2, size)`` with the rewards that move them most."""
        return self.layout.encode(pair, np.array(self.layout.worst_rewards))

    def _rng(self, stream: int, side: int, chunk: int) -> np.random.Generator:
        key = (stream, side, chunk)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))


def worst_cosines(layout: Layout) -> tuple[float, ...]:
    """Of the pair whose swap moves a contribution most (MATH 2), and of the one that moves phi*y.

    The first is worst for sums. Where the vector and the matrix are permuted apart,
    an outlier in one of them can tell more. In dimension 1 only a sign can change.
    """
    unrelated = math.copysign(1.0, layout.worst_cosine)
    if layout.free == 1 or layout.worst_cosine == unrelated:
        return (unrelated,)
    return (layout.worst_cosine, unrelated)


def turned_pair(layout: Layout, frame: Floats, cosine: float) -> Floats:
    """Features ``(2, scored)`` of largest norm at this angle, in the plane of a frame.

    Both in the first block, where there are several: two in different ones are closer.
    """
    first, second = frame[0], frame[-1]
    other = cosine * first + math.sqrt(1 - cosine**2) * second
    return layout.placed(layout.norm * np.array([first, other]))


def _slanted(dim: int) -> Floats:
    """At -15 degrees the matrices of the pair differ on the diagonal only.

    The paper's layout counts the other entries once instead of twice, so there this is worst.
    """
    if dim == 1:
        return np.ones((1, 1))
    angle = -math.pi / 12
    frame = np.zeros((2, dim))
    frame[:, :2] = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
    return frame


def _turned(dim: int, rng: np.random.Generator) -> Floats:
    """A random frame."""
    return _orthonormal(rng.standard_normal((min(dim, 2), dim)))


def _orthonormal(rows: Floats) -> Floats:
    """The frame that spans what the rows span, turned as they are."""
    basis, triangle = np.linalg.qr(rows.T)
    return np.asarray((basis * np.sign(np.diag(triangle))).T)


def _cut(count: int) -> Iterator[tuple[int, int]]:
    """Numbered chunks of trials."""
    for index, start in enumerate(range(0, count, CHUNK)):
        yield index, min(CHUNK, count - start)
