"""Checks of the promises that a protocol or a problem makes, shipped for third parties.

``check_protocol`` and ``check_problem`` raise one ``ProtocolError`` that lists every broken
promise, or return a ``CheckReport`` of what was checked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from croupier.arguments import whole
from croupier.coins import SeededCoins, SystemCoins
from croupier.contribution import NORM_SLACK, Layout
from croupier.errors import GuaranteeError, ProtocolError
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, unproved
from croupier.protocols.base import Protocol, ShuffleRelease, Terms
from croupier.shuffler import Messages, gather, shuffle
from croupier.simulation.problems import BLOCK, Problem, Users, World

Floats = NDArray[np.float64]
Complaints = Iterator[str]
S = TypeVar("S")

FALSE_ALARM = 1e-6
"""How often ``check_protocol`` may blame a faultless protocol, over all its tests together."""

LEAST_TRIALS = 458
"""From here on p <= 2 exp(-n D^2) for two samples of n (Wei and Dudley 2012)."""

SAME = 1e-9
"""Relative difference that is rounding."""

PREFIX = 3
"""Batches that are added up."""

DELTAS = (1e-9, 1e-6, 1e-3, 0.1)
EPSILONS = (0.0, 0.1, 1.0, 10.0)
BUDGETS = tuple(Budget(epsilon, delta) for epsilon in (0.1, 0.5, 1, 4) for delta in (1e-6, 1e-3))


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


@dataclass(frozen=True)
class Subject:
    """A protocol with the samples that its laws are tested on."""

    protocol: Protocol
    seed: int
    trials: int

    @property
    def layout(self) -> Layout:
        """The coordinates."""
        return self.protocol.layout

    @property
    def release(self) -> ShuffleRelease:
        """The batch that is run many times."""
        return self.protocol.release(0)

    @cached_property
    def tolerance(self) -> float:
        """What rounding may change in a batch sum."""
        largest = np.abs([self.layout.low, self.layout.high]).max()
        return SAME * self.release.users * float(largest)

    @cached_property
    def datasets(self) -> Floats:
        """Contributions ``(2, users, size)``: of random users, and of users at the range ends."""
        users = self.release.users
        return np.array([self.random_users(users, 0), _extreme_users(self.layout, users)])

    @cached_property
    def truth(self) -> Floats:
        """Exact batch sums ``(2, size)``."""
        return np.asarray(self.datasets.sum(axis=1))

    @cached_property
    def real(self) -> Floats:
        """Batch sums ``(2, trials, size)`` by randomize, shuffle and analyze."""
        coins = self.coins(1)
        runs = [
            [ShuffleRelease.run(self.release, data, coins) for _ in range(self.trials)]
            for data in self.datasets
        ]
        return np.array(runs)

    @cached_property
    def quick(self) -> Floats:
        """Batch sums ``(2, trials, size)`` by ``sample_sum``."""
        return np.array([self.sampled(0, data, self.rng(2 + i)) for i, data in self.numbered])

    @cached_property
    def prefix(self) -> tuple[Floats, float]:
        """Errors ``(trials, size)`` of a prefix estimate, and the variance it claims."""
        running, rng, truth = self.protocol.running_sum(), self.rng(4), np.zeros(self.layout.size)
        for index in range(PREFIX):
            data = self.random_users(self.protocol.release(index).users, index)
            truth = truth + data.sum(axis=0)
            total, variance = running.add(index, self.sampled(index, data, rng))
        return total - truth, variance

    @property
    def numbered(self) -> list[tuple[int, Floats]]:
        """Data sets with their numbers."""
        return list(enumerate(self.datasets))

    def sampled(self, index: int, data: Floats, rng: np.random.Generator) -> Floats:
        """Many draws ``(trials, size)`` of ``sample_sum`` for one batch ``(users, size)``."""
        many = np.broadcast_to(data, (self.trials, *data.shape))
        return self.protocol.release(index).sample_sum(many, rng)

    def random_users(self, users: int, stream: int) -> Floats:
        """Contributions ``(users, size)`` of features in the ball and rewards in [0, 1]."""
        rng = self.rng(100 + stream)
        features = rng.standard_normal((users, self.layout.dim))
        features /= np.linalg.norm(features, axis=1, keepdims=True)
        features *= self.layout.feature_norm * rng.random((users, 1))
        return self.layout.encode(features, rng.random(users))

    def coins(self, stream: int) -> SeededCoins:
        """Repeatable coins."""
        return SeededCoins(np.random.SeedSequence(self.seed, spawn_key=(stream,)))

    def rng(self, stream: int) -> np.random.Generator:
        """A repeatable generator."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stream,)))

    def reports(self) -> Messages:
        """The messages of one batch in order of arrival."""
        coins = self.coins(5)
        return gather([self.release.randomize(row, coins) for row in self.datasets[0]])


def check_protocol(protocol: Protocol, *, seed: int = 0, trials: int = 2000) -> CheckReport:
    """Check every promise of the seam on one protocol, best with a batch of about 8 users.

    A noise std that is 20 % wrong is found with 2000 trials. Laws are tested per coordinate and
    share a false-alarm rate of 1e-6 (Bonferroni; tests of means and variances are asymptotic, so
    noise must show in most of the trials). Raises ``ProtocolError`` with all broken promises.
    """
    if not isinstance(protocol, Protocol):
        raise ValueError(f"protocol must be a Protocol, got {protocol!r}")
    subject = Subject(protocol, seed, whole("trials", trials, LEAST_TRIALS))
    plain = [_judge(promise, check, subject) for promise, check in PROMISES.items()]
    laws = [_weigh(promise, law, subject) for promise, law in LAWS.items()]
    return _kept(CheckReport(f"protocol {type(protocol).__name__}", (*plain, *laws)))


def check_problem(problem: Problem, seed: int = 0) -> CheckReport:
    """Check that a problem's users are bounded and a pure function of (seed, trial, round)."""
    findings = [
        _judge(promise, check, (problem, seed)) for promise, check in PROBLEM_PROMISES.items()
    ]
    return _kept(CheckReport(f"problem {type(problem).__name__}", tuple(findings)))


def _kept(report: CheckReport) -> CheckReport:
    if report.broken:
        listed = "".join(f"\n- {finding}" for finding in report.broken)
        raise ProtocolError(f"{report.subject} breaks promises:{listed}")
    return report


def _judge(promise: str, check: Callable[[S], Complaints], subject: S) -> Finding:
    """A promise is kept if its check has no complaint; one that cannot be checked is broken."""
    try:
        complaints = list(check(subject))
    except Exception as error:
        complaints = [f"the check ended in {error!r}"]
    return Finding(promise, not complaints, len(complaints), "; ".join(complaints[:3]))


def _weigh(promise: str, law: Callable[[Subject], Floats], subject: Subject) -> Finding:
    """A law is broken if a p-value is below its share of the false-alarm rate."""
    try:
        chances = law(subject)
    except Exception as error:
        return Finding(promise, False, math.nan, f"the check ended in {error!r}")
    least, limit = float(np.min(chances)), FALSE_ALARM / len(LAWS) / chances.size
    return Finding(promise, least >= limit, least, f"smallest p-value {least:.3g}")


# Promises that hold or do not: each check yields its complaints.


def _name_is_stable(subject: Subject) -> Complaints:
    name = subject.protocol.name
    if not isinstance(name, str) or not name or name != name.strip():
        yield f"name must be a nonempty string, got {name!r}"
    if name != type(subject.protocol).name:
        yield f"the class is called {type(subject.protocol).name!r}, the instance {name!r}"


def _is_frozen(subject: Subject) -> Complaints:
    for value in (subject.protocol, subject.release):
        made = getattr(type(value), "__dataclass_params__", None)
        if made is None or not made.frozen:
            yield f"{type(value).__name__} is not a frozen dataclass"


def _restores(subject: Subject) -> Complaints:
    protocol = subject.protocol
    made = [(release.users, release.parameters) for release in protocol.releases]
    stored = json.loads(json.dumps(made, allow_nan=False))
    again = type(protocol).restore(protocol.layout, protocol.schedule, stored)
    if again != protocol:
        yield f"{again.releases} was restored from {protocol.releases}"


def _states_its_noise(subject: Subject) -> Complaints:
    release = subject.release
    if not 0 <= release.privacy_noise_std <= release.noise_std < math.inf:
        yield f"privacy_noise_std {release.privacy_noise_std}, noise_std {release.noise_std}"
    if not isinstance(release.report_bits, int) or release.report_bits <= 0:
        yield f"report_bits must be a whole number above 0, got {release.report_bits!r}"


def _sends_fixed_size(subject: Subject) -> Complaints:
    coins, layout = subject.coins(6), subject.layout
    rows = [layout.low, layout.high, np.zeros(layout.size), *np.concatenate(subject.datasets)]
    shapes = [_shapes(subject.release.randomize(row, coins)) for row in rows]
    for shape in shapes[1:]:
        if shape != shapes[0]:
            yield f"a report of {shapes[0]} and one of {shape}"


def _sends_rows(subject: Subject) -> Complaints:
    for channel, rows in subject.release.randomize(subject.datasets[0][0], SystemCoins()).items():
        if not isinstance(channel, str) or np.ndim(rows) != 2:
            yield f"channel {channel!r} must hold rows (count, width), got shape {np.shape(rows)}"


def _runs_on_system_coins(subject: Subject) -> Complaints:
    sums = ShuffleRelease.run(subject.release, subject.datasets[0], SystemCoins())
    if sums.shape != (subject.layout.size,) or not np.all(np.isfinite(sums)):
        yield f"analyze must give {subject.layout.size} finite numbers, got {sums}"


def _draws_from_coins(subject: Subject) -> Complaints:
    first, second = subject.reports(), subject.reports()
    for channel in first:
        if not np.array_equal(first[channel], second[channel]):
            yield f"channel {channel!r} differs between two runs with the same coins"


def _ignores_order(subject: Subject) -> Complaints:
    messages = subject.reports()
    arrived = subject.release.analyze(messages)
    coins = subject.coins(7)
    others = [{channel: rows[::-1] for channel, rows in messages.items()}]
    others += [dict(shuffle(messages, coins)) for _ in range(8)]
    for other in others:
        moved = float(np.max(np.abs(subject.release.analyze(other) - arrived)))
        if not moved <= subject.tolerance:
            yield f"another order of the same messages moves the sum by {moved:.3g}"


def _keeps_leading_axes(subject: Subject) -> Complaints:
    batch, size = subject.datasets[0], subject.layout.size
    for axes in ((), (3,), (2, 3)):
        data = np.broadcast_to(batch, (*axes, *batch.shape))
        sums = subject.release.sample_sum(data, subject.rng(8))
        if np.shape(sums) != (*axes, size):
            yield f"sample_sum of {data.shape} has shape {np.shape(sums)}"


def _states_guarantees(subject: Subject) -> Complaints:
    for name, value in _guarantees(subject.protocol).items():
        if not isinstance(value, Guarantee):
            yield f"{name} must be a Guarantee, got {value!r}"
        elif not value.method or not (value.proved or value.reason):
            yield f"{name} must name a method, and a reason where nothing is proved"


def _curves_fall(subject: Subject) -> Complaints:
    for name, value in _guarantees(subject.protocol).items():
        for low, high in pairwise(DELTAS):
            if value.epsilon(low) < value.epsilon(high):
                yield f"epsilon of {name} rises from delta {low} to {high}"
        for low, high in pairwise(EPSILONS):
            if value.delta(low) < value.delta(high):
                yield f"delta of {name} rises from epsilon {low} to {high}"


def _ends_on_the_safe_side(subject: Subject) -> Complaints:
    for name, value in _guarantees(subject.protocol).items():
        for delta in DELTAS:
            if value.proved and value.delta(value.epsilon(delta)) > delta:
                yield f"{name} has delta above {delta} at its own epsilon({delta})"


def _more_reports_cost_more(subject: Subject) -> Complaints:
    once, twice = _guarantee(subject.protocol, 1), _guarantee(subject.protocol, 2)
    for delta in DELTAS:
        if twice.epsilon(delta) < once.epsilon(delta) * (1 - SAME):
            yield f"guarantee(2) is better than guarantee(1) at delta {delta}"


def _more_budget_less_noise(subject: Subject) -> Complaints:
    for calibration in _proved_calibrations(subject.protocol):
        made = list(_calibrated(subject.protocol, calibration))
        for less, tight in made:
            for more, loose in made:
                wider = more.epsilon >= less.epsilon and more.delta >= less.delta
                if wider and _noise(loose) > _noise(tight) * (1 + SAME):
                    yield f"{calibration} noise for {more} is above that for {less}"


def _meets_the_budget(subject: Subject) -> Complaints:
    for calibration in _proved_calibrations(subject.protocol):
        for budget, protocol in _calibrated(subject.protocol, calibration):
            promise = _guarantee(protocol, 1)
            if promise.proved and not promise.meets(budget):
                yield f"{calibration} for {budget} has delta {promise.delta(budget.epsilon):.3g}"


PROMISES: Mapping[str, Callable[[Subject], Complaints]] = {
    "the name is a stable string": _name_is_stable,
    "protocol and release are frozen values": _is_frozen,
    "releases are restored from their parameters through JSON bit for bit": _restores,
    "noise and report size are stated": _states_its_noise,
    "a report is rows in named channels": _sends_rows,
    "a report has the same size whatever the data": _sends_fixed_size,
    "the operating system's coins are enough": _runs_on_system_coins,
    "all of a device's randomness comes from its coins": _draws_from_coins,
    "the analyzer is blind to the order of messages": _ignores_order,
    "sample_sum keeps leading axes": _keeps_leading_axes,
    "guarantees name their method, or the reason for none": _states_guarantees,
    "more delta never means more epsilon, nor the reverse": _curves_fall,
    "a guarantee ends on the safe side": _ends_on_the_safe_side,
    "two participations are never better than one": _more_reports_cost_more,
    "more budget never means more noise": _more_budget_less_noise,
    "a calibration's guarantee meets its budget": _meets_the_budget,
}


# Laws: each gives p-values, one a coordinate and data set.


def _unbiased(subject: Subject) -> Floats:
    # Noise that is stated but happens not to show must not make an estimate look exact.
    spread = np.maximum(subject.real.std(axis=1), subject.release.privacy_noise_std)
    error = subject.real.mean(axis=1) - subject.truth
    return _two_sided(error, spread / math.sqrt(subject.trials), subject.tolerance)


def _noise_is_at_most_stated(subject: Subject) -> Floats:
    most = (subject.release.noise_std + subject.tolerance) ** 2
    return _one_sided(subject.real.var(axis=1) - most, _variance_spread(subject.real))


def _noise_is_at_least_private(subject: Subject) -> Floats:
    least = max(0.0, subject.release.privacy_noise_std - subject.tolerance) ** 2
    return _one_sided(least - subject.real.var(axis=1), _variance_spread(subject.real))


def _same_mean(subject: Subject) -> Floats:
    spread = np.hypot(subject.real.std(axis=1), subject.quick.std(axis=1))
    gap = subject.quick.mean(axis=1) - subject.real.mean(axis=1)
    return _two_sided(gap, spread / math.sqrt(subject.trials), subject.tolerance)


def _same_variance(subject: Subject) -> Floats:
    spread = np.hypot(_variance_spread(subject.real), _variance_spread(subject.quick))
    gap = subject.quick.var(axis=1) - subject.real.var(axis=1)
    return _two_sided(gap, spread, subject.tolerance**2)


def _same_distribution(subject: Subject) -> Floats:
    """Two-sample Kolmogorov-Smirnov; ties make it conservative."""
    pairs = zip(_columns(subject.real), _columns(subject.quick), strict=True)
    apart = np.array([_distance(real, quick, subject.tolerance) for real, quick in pairs])
    return np.asarray(np.minimum(1.0, 2 * np.exp(-subject.trials * apart**2)))


def _same_correlation(subject: Subject) -> Floats:
    """Fisher's z of every pair of coordinates."""
    pairs = zip(subject.real, subject.quick, strict=True)
    gaps = [_fisher(quick, subject) - _fisher(real, subject) for real, quick in pairs]
    return _two_sided(np.array(gaps), np.asarray(math.sqrt(2 / (subject.trials - 3))), 0.0)


def _prefix_is_unbiased(subject: Subject) -> Floats:
    errors, _ = subject.prefix
    spread = np.maximum(errors.std(axis=0), PREFIX * subject.tolerance)
    return _two_sided(errors.mean(axis=0), spread / math.sqrt(subject.trials), 0.0)


def _prefix_noise_is_at_most_stated(subject: Subject) -> Floats:
    errors, variance = subject.prefix
    most = variance + (PREFIX * subject.tolerance) ** 2
    return _one_sided(errors.var(axis=0) - most, _variance_spread(errors[None])[0])


LAWS: Mapping[str, Callable[[Subject], Floats]] = {
    "the analyzer is unbiased": _unbiased,
    "the noise is at most noise_std": _noise_is_at_most_stated,
    "the noise is at least privacy_noise_std": _noise_is_at_least_private,
    "sample_sum has the mean of the real path": _same_mean,
    "sample_sum has the variance of the real path": _same_variance,
    "sample_sum has the distribution of the real path": _same_distribution,
    "sample_sum has the correlations of the real path": _same_correlation,
    "running_sum adds up": _prefix_is_unbiased,
    "the noise of running_sum is at most the variance it states": _prefix_noise_is_at_most_stated,
}


def _two_sided(gap: Floats, spread: Floats, slack: float) -> Floats:
    """Chance of a gap this large if the true one is within ``slack``."""
    excess = np.maximum(np.abs(gap) - slack, 0.0)
    return 2 * _one_sided(excess, spread)


def _one_sided(excess: Floats, spread: Floats) -> Floats:
    return np.asarray(ndtr(-excess / np.maximum(spread, 1e-300)))


def _variance_spread(samples: Floats) -> Floats:
    """Standard error ``(sets, size)`` of sample variances; never less than for Gaussian data."""
    centred = samples - samples.mean(axis=1, keepdims=True)
    square = np.mean(centred**2, axis=1) ** 2
    fourth = np.mean(centred**4, axis=1)
    return np.asarray(np.sqrt(np.maximum(fourth - square, 2 * square) / samples.shape[1]))


def _columns(samples: Floats) -> Floats:
    """Samples ``(sets, trials, size)`` as one sorted row a set and coordinate."""
    return np.sort(np.moveaxis(samples, 1, 2).reshape(-1, samples.shape[1]), axis=1)


def _distance(first: Floats, second: Floats, slack: float) -> float:
    """Kolmogorov-Smirnov distance of sorted samples, values within ``slack`` taken as equal."""
    points = np.concatenate([first, second])

    def above(low: Floats, high: Floats) -> float:
        gap = np.searchsorted(low, points, "right") - np.searchsorted(high, points + slack, "right")
        return float(gap.max()) / low.size

    return max(above(first, second), above(second, first))


def _fisher(samples: Floats, subject: Subject) -> Floats:
    """Fisher's z of the correlation of every pair of coordinates of ``(trials, size)``."""
    centred = samples - samples.mean(axis=0)
    scaled = centred / np.maximum(centred.std(axis=0), subject.tolerance)
    correlation = scaled.T @ scaled / len(samples)
    pairs = correlation[np.triu_indices(len(correlation), 1)]
    return np.asarray(np.arctanh(np.clip(pairs, -1 + SAME, 1 - SAME)))


def _extreme_users(layout: Layout, users: int) -> Floats:
    """Contributions ``(users, size)`` that reach the ends of ranges, and one of nobody."""
    axes = np.eye(layout.dim)
    first, second = np.triu_indices(layout.dim, 1)
    between = [(axes[first] + sign * axes[second]) / math.sqrt(2) for sign in (1, -1)]
    features = np.concatenate([axes, -axes, *between, np.zeros((1, layout.dim))])
    chosen = np.resize(np.arange(len(features))[::-1], users)
    rewards = np.where(np.arange(users) % 4 == 3, 0.0, 1.0)
    return layout.encode(layout.feature_norm * features[chosen], rewards)


def _shapes(messages: Messages) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (np.shape(rows), rows.dtype.str) for name, rows in sorted(messages.items())}


def _guarantee(protocol: Protocol, participations: int) -> Guarantee:
    """The guarantee, none where the participations are outside its range."""
    try:
        return protocol.guarantee(participations)
    except GuaranteeError as error:
        return unproved(str(error))


def _guarantees(protocol: Protocol) -> dict[str, Guarantee]:
    return {
        "guarantee(1)": _guarantee(protocol, 1),
        "guarantee(2)": _guarantee(protocol, 2),
        "local_guarantee()": protocol.local_guarantee(),
    }


def _proved_calibrations(protocol: Protocol) -> list[str]:
    return [name for name in type(protocol).calibrations if name != "released"]


def _calibrated(protocol: Protocol, calibration: str) -> Iterator[tuple[Budget, Protocol]]:
    """The protocol at every budget that the calibration does not refuse."""
    for budget in BUDGETS:
        try:
            terms = Terms(calibration)
            made = type(protocol).calibrate(budget, protocol.layout, protocol.schedule, terms)
        except GuaranteeError:
            continue
        yield budget, made


def _noise(protocol: Protocol) -> float:
    return max(release.noise_std for release in protocol.releases)


# Problems.

Seeded = tuple[Problem, int]
TRIALS = range(3)


def _features_fit(subject: Seeded) -> Complaints:
    problem, users = subject[0], _block(*subject, 0)
    largest = float(np.linalg.norm(users.features, axis=-1).max())
    if users.features.shape[-2:] != (problem.arms, problem.dim):
        yield f"arm sets must be {(problem.arms, problem.dim)}, got {users.features.shape[-2:]}"
    if not largest <= problem.feature_norm * (1 + NORM_SLACK):
        yield f"features have norm {largest}, the problem says {problem.feature_norm}"


def _rewards_fit(subject: Seeded) -> Complaints:
    means = _block(*subject, 0).means
    if not (means.min() >= -NORM_SLACK and means.max() <= 1 + NORM_SLACK):
        yield f"mean rewards must be in [0, 1], got {means.min()} to {means.max()}"


def _order_does_not_matter(subject: Seeded) -> Complaints:
    forward, backward = World(*subject, TRIALS), World(*subject, TRIALS)
    rising = {index: forward.block(index) for index in (0, 1, 2)}
    falling = {index: backward.block(index) for index in (2, 1, 0)}
    for index, users in rising.items():
        if not _equal(users, falling[index]):
            yield f"block {index} differs when later blocks are asked for first"
        if not _equal(users, forward.block(index)):
            yield f"block {index} differs when it is asked for again"


def _trials_stand_alone(subject: Seeded) -> Complaints:
    together = World(*subject, TRIALS).users(0, BLOCK)
    for trial in TRIALS:
        alone = World(*subject, range(trial, trial + 1)).users(0, BLOCK)
        if not _equal(alone, _trial(together, trial)):
            yield f"trial {trial} differs when it is run alone"


def _rounds_stand_alone(subject: Seeded) -> Complaints:
    whole_block = World(*subject, TRIALS).users(0, BLOCK)
    part = World(*subject, TRIALS).users(3, 7)
    if not np.array_equal(part.uniforms, whole_block.uniforms[:, 3:7]):
        yield "rounds 3 to 7 differ when they are asked for alone"


def _trials_differ(subject: Seeded) -> Complaints:
    users = World(*subject, TRIALS).users(0, BLOCK)
    if np.array_equal(users.means[0], users.means[1]):
        yield "trials 0 and 1 meet the same users"
    if np.array_equal(users.uniforms[0], users.uniforms[1]):
        yield "trials 0 and 1 draw the same rewards"


def _seeds_differ(subject: Seeded) -> Complaints:
    problem, seed = subject
    if np.array_equal(_block(problem, seed, 0).means, _block(problem, seed + 1, 0).means):
        yield f"seeds {seed} and {seed + 1} give the same users"


PROBLEM_PROMISES: Mapping[str, Callable[[Seeded], Complaints]] = {
    "features keep to feature_norm and their shape": _features_fit,
    "mean rewards are probabilities": _rewards_fit,
    "users do not depend on the order in which they are asked for": _order_does_not_matter,
    "a trial does not depend on the others": _trials_stand_alone,
    "a round does not depend on the others": _rounds_stand_alone,
    "trials differ": _trials_differ,
    "seeds differ": _seeds_differ,
}


def _block(problem: Problem, seed: int, index: int) -> Users:
    return World(problem, seed, TRIALS).block(index)


def _trial(users: Users, trial: int) -> Users:
    one = slice(trial, trial + 1)
    return Users(users.features[one], users.means[one], users.uniforms[one])


def _equal(first: Users, second: Users) -> bool:
    names = ("features", "means", "uniforms")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)
