"""``amplified-gaussian`` (P_Amp, appendix B): Gaussian reports, permuted in two channels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from croupier.arguments import positive
from croupier.coins import Coins
from croupier.fixed_point import MOST, UNIT_POWER, whole_units
from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, gaussian
from croupier.privacy.shuffled_reports.attack import attack_sigma
from croupier.privacy.shuffled_reports.gaussian import (
    ShuffledGaussianCurve,
    WorstShuffledCurve,
    least_sigma,
)
from croupier.protocols.base import (
    VIEWED_AT_ONCE,
    Floats,
    Protocol,
    ShuffleRelease,
    Terms,
    honest_users,
    needed,
)
from croupier.protocols.releases import exact_part, gaussian_ahead, gaussian_finish, sum_std
from croupier.schedules import Schedule
from croupier.shuffler import Messages
from croupier.theory import constants, released

CHANNELS = ("vector", "matrix")

MOST_REPORT = 2.0**22
"""A report's numbers are 64-bit counts of units; 2**62 of them leave a bit to spare."""

TAIL = 40.0
"""Noise beyond so many sigmas has a chance below 2 exp(-800), less than any float above 0."""

HONEST_TAIL = 10.0
"""Of a million users' thousand numbers each, none of honest noise is beyond so many: 2e-14."""

ROUNDED_UP = 1 + 1e-9
"""On mu: far more than what discrete noise and rounding change."""


@dataclass(frozen=True)
class AmplifiedGaussianRelease(ShuffleRelease):
    """Every device adds a discrete Gaussian of scale sigma, in units of 2**-40, to every number."""

    sigma: float

    def __post_init__(self) -> None:
        """Noise must be there, and leave no report's 64 bits."""
        if MOST + 50 * positive("sigma", self.sigma) >= MOST_REPORT:
            raise ValueError(f"sigma must keep reports below 2**22, got {self.sigma!r}")

    @property
    def noise_units(self) -> float:
        """Sigma in units; a power of two is exact."""
        return math.ldexp(self.sigma, UNIT_POWER)

    @property
    def loss_slack(self) -> float:
        """How much more epsilon than N(0, sigma^2) the discrete noise of one report can cost.

        Let s be ``noise_units``, p(k) = exp(-k^2/2s^2)/Z the discrete Gaussian and q(k) the
        chance that N(0, s^2) rounds to k. Around whole centres a, b the rounded Gaussian is
        post-processing of the continuous one. With U uniform in [-1/2, 1/2],
        q(k)/p(k) = Z/(s sqrt(2 pi)) E[exp(-U^2/2s^2) cosh(k U/s^2)]. Poisson summation gives
        Z >= s sqrt(2 pi) =: Z/c, c >= 1, so that cosh x <= exp(x^2/2) yields

            exp(-1/8s^2) <= q(k) / (c p(k)) <= exp(k^2/8s^4).

        Use the first at a (c >= 1 only helps there) and the second at b, for |k - b| <= t s with
        t = 40 + sensitivity/sigma; beyond, |k - a| > 40 s has a chance of 2 exp(-800) (the
        discrete Gaussian is sub-Gaussian). Over all D coordinates

            delta(epsilon) <= exp(D/8s^2) delta_continuous(epsilon - slack) + 2 D exp(-800),

        slack = D (t^2 + 1) / 8s^2. The factor on delta is at most exp(slack / 1600).
        """
        reach = TAIL + self.layout.device_sensitivity / self.sigma
        ratio = math.hypot(reach, 1.0) / self.noise_units
        return self.layout.size * ratio * ratio / 8

    @property
    def privacy_noise_std(self) -> float:
        """The noise of all users together."""
        return sum_std(self, self.sigma)

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        """R_Amp: a noisy vector in one channel, a noisy matrix in the other, in whole units.

        Noise is drawn before it meets the data and added in integers (MATH 5).
        """
        noise = coins.discrete_gaussian(self.noise_units, self.layout.size)
        noisy = np.array(whole_units(contribution), dtype=np.int64) + noise
        parts = np.split(noisy[None, :], [self.layout.summed], axis=1)
        return dict(zip(CHANNELS, parts, strict=True))

    @property
    def reach(self) -> Floats:
        """The largest numbers ``(size,)`` that count of a report; no honest one has larger."""
        largest = np.maximum(np.abs(self.layout.low), np.abs(self.layout.high))
        return np.asarray(largest + HONEST_TAIL * self.sigma)

    @property
    def report_weight(self) -> float:
        """All numbers of the vector as large as they are counted."""
        vector = self.reach[: self.layout.summed]
        return float(np.linalg.norm(vector)) / self.layout.largest_gain

    def analyze(self, messages: Messages) -> Floats:
        """A_Amp: the sums, of integers without limit, so that they cannot tell the order.

        Numbers that no honest report has are brought back into their range one by one.
        """
        most = np.array(whole_units(self.reach), dtype=np.int64)
        ranges = zip(CHANNELS, np.split(most, [self.layout.summed]), strict=True)
        units = [
            np.sum(np.clip(messages[channel], -reach, reach), axis=0, dtype=object)
            for channel, reach in ranges
        ]
        return np.ldexp(np.concatenate(units).astype(np.float64), -UNIT_POWER)

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """One Gaussian for the whole batch, of the same variance."""
        return self.finish(self.partial(contributions, rng), rng)

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        """The exact sum of some."""
        return exact_part(contributions)

    def finish(self, added: Floats, rng: np.random.Generator) -> Floats:
        """The sum of all with the noise of all."""
        return gaussian_finish(self, added, rng)

    def noise_ahead(self, count: int, rng: np.random.Generator) -> Floats:
        """That of whole batches."""
        return gaussian_ahead(self, count, rng)

    def sample_view(
        self, pair: Floats, truth: int, trials: int, rng: np.random.Generator
    ) -> Floats:
        """Likelihood ratios ``(trials, 3)`` of permuted reports; the analyzer sees more than sums.

        All others are like ``pair[0]``, which hides the user least. The features: the mixture
        over which row is the user's, channel by channel, then the row that arrived first, then
        the mixture for a shuffler that moves both channels alike.
        """
        chunk = max(1, VIEWED_AT_ONCE // self.users)
        counts = (min(chunk, trials - start) for start in range(0, trials, chunk))
        return np.concatenate([self._ratios(pair, truth, count, rng) for count in counts])

    def _ratios(self, pair: Floats, truth: int, trials: int, rng: np.random.Generator) -> Floats:
        """Features of as many trials as fit in memory."""
        moved = np.split((pair[1] - pair[0]) / self.sigma, [self.layout.summed])
        vector, matrix = (
            self.shuffle_rows(self._rows(float(np.linalg.norm(part)), truth, trials, rng), rng)
            for part in moved
        )
        mixture = _log_mean_exp(vector) + _log_mean_exp(matrix)
        first = vector[:, 0] + matrix[:, 0]
        return np.stack([mixture, first, _log_mean_exp(vector + matrix)], axis=1)

    def _rows(self, norm: float, truth: int, trials: int, rng: np.random.Generator) -> Floats:
        """Log ratio of each report ``(trials, users)``: only its part along the pair counts."""
        rows = rng.standard_normal((trials, self.users))
        rows[:, 0] += truth * norm
        rows *= norm
        rows -= norm**2 / 2
        return rows

    def shuffle_rows(self, rows: Floats, rng: np.random.Generator) -> Floats:
        """The shuffler's permutation of one channel, another one in each trial."""
        return rng.permuted(rows, axis=1)


@dataclass(frozen=True)
class AmplifiedGaussian(Protocol):
    """P_Amp: privacy of local Gaussian noise, amplified by the two permutations."""

    name: ClassVar[str] = "amplified-gaussian"
    release_type: ClassVar[type[ShuffleRelease]] = AmplifiedGaussianRelease
    calibrations: ClassVar[tuple[str, ...]] = ("certified", "theorem", "released")

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """The least certified sigma, or that of ``thm:amp-main`` or of the authors' script."""
        asked = needed(budget, cls.name)
        if terms.calibration == "theorem" and not terms.outside:
            _require(asked, schedule, terms)
        sizes = schedule.sizes()
        # A user who returns may be in any batches: the smallest decides for all of them.
        crowds = sizes if terms.max_participations == 1 else (min(sizes),) * len(sizes)
        sigmas = {crowd: _sigma(asked, layout, crowd, terms) for crowd in set(crowds)}
        made = tuple(
            AmplifiedGaussianRelease(layout, users, sigmas[crowd])
            for users, crowd in zip(sizes, crowds, strict=True)
        )
        return cls(layout, schedule, made, terms.honest_fraction)

    def _mu(self, index: int) -> float:
        """Of one report of a batch; rounded up by more than ``loss_slack`` can cost."""
        sigma: float = self.release(index).parameters["sigma"]
        return self.layout.device_sensitivity / sigma * ROUNDED_UP

    def guarantee(self, participations: int = 1) -> Guarantee:
        """The smaller of the local guarantee and the numerical clones bound (MATH 5).

        Two channels permuted apart tell no more than whole reports permuted once.
        """
        method = "numerical clones bound (Feldman, McMillan and Talwar 2021)"
        kinds = {(self._mu(index), self.honest_users(index)) for index in range(len(self.releases))}
        if participations > 1:
            # Less noise among fewer users tells more, so this pair covers every mix of batches.
            kinds = {(max(mu for mu, _ in kinds), min(users for _, users in kinds))}
        curves = tuple(ShuffledGaussianCurve(*kind, participations) for kind in sorted(kinds))
        return Guarantee(method, curves[0] if len(curves) == 1 else WorstShuffledCurve(curves))

    def local_guarantee(self, draws: int = 1) -> Guarantee:
        """Reports alone are a Gaussian mechanism: mu = sqrt(draws) sensitivity / sigma (MATH 3)."""
        largest = max(self._mu(index) for index in range(len(self.releases)))
        return gaussian(
            math.sqrt(draws) * largest * ROUNDED_UP, "exact Gaussian mechanism (MATH 3)"
        )

    def noise_floor(self, budget: Budget | None, terms: Terms) -> float | None:
        """What an attack on the vector channel leaves of smaller noise, whatever the analysis."""
        users, asked = self.release(0).users, needed(budget, self.name)
        sigma = attack_sigma(asked, 2 * self.layout.largest_gain, users)
        return math.sqrt(users) * sigma

    def released_scale(self, budget: Budget | None) -> released.Scale:
        """G = sigma sqrt(T d)."""
        sigma: float = self.release(0).parameters["sigma"]
        return released.private_scale(sigma * math.sqrt(self.schedule.rounds * self.layout.dim))


def _log_mean_exp(rows: Floats) -> Floats:
    """Of each row, without overflow."""
    top = rows.max(axis=1)
    return np.asarray(top + np.log(np.exp(rows - top[:, None]).mean(axis=1)))


def _sigma(asked: Budget, layout: Layout, users: int, terms: Terms) -> float:
    """Noise per coordinate of one report."""
    if terms.calibration == "certified":
        honest = honest_users(users, terms.honest_fraction)
        # Rounded up twice, so that the guarantee's own rounding does not fall short of the budget.
        moved = layout.device_sensitivity * ROUNDED_UP**1.1
        return least_sigma(asked, sensitivity=moved, users=honest, batches=terms.max_participations)
    part = constants.composed_budget(asked, terms.max_participations)
    if terms.calibration == "theorem":
        return constants.amplified_sigma(part, users)
    return released.amplified_sigma(part, users)


def _require(asked: Budget, schedule: Schedule, terms: Terms) -> None:
    """The ranges of ``thm:amp-main`` and ``thm:composition``."""
    constants.require(*constants.composition_range(asked, terms.max_participations))
    part = constants.composed_budget(asked, terms.max_participations)
    for users in schedule.sizes():
        constants.require(*constants.amplified_range(part, users))
