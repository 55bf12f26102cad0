from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.coins import Coins
from croupier.errors import ProtocolError
from croupier.fixed_point import UNIT
from croupier.layouts import Blocks, Layout, LightOffset, PapersLayout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, gaussian
from croupier.protocols.amplified_gaussian import AmplifiedGaussian, AmplifiedGaussianRelease
from croupier.protocols.base import (
    Floats,
    FreshNoise,
    Part,
    Protocol,
    RunningSum,
    ShuffleRelease,
    Terms,
)
from croupier.protocols.collecting import Collector
from croupier.protocols.concurrent_tree import ConcurrentTree
from croupier.protocols.noiseless import Noiseless, NoiselessRelease
from croupier.protocols.releases import Counted
from croupier.protocols.tree_release import ConcurrentTreeRelease
from croupier.protocols.vector_release import VectorSumRelease
from croupier.protocols.vector_sum import VectorSum
from croupier.schedules import FixedBatches, GrowingBatches
from croupier.shuffler import Messages
from croupier.simulation.problem import Problem
from croupier.simulation.registry import PROBLEMS
from croupier.simulation.synthetic import Contextual, Sphere
from croupier.testing import FALSE_ALARM, check_problem, check_protocol
from croupier.testing.laws import LAWS
from croupier.testing.promises import PROMISES

USERS = 8
SCHEDULE = FixedBatches(USERS, 10 * USERS)
LIGHT, DECLARED, PAPERS = LightOffset(2), LightOffset(3, constant=(1, 0.6)), PapersLayout(2)
BLOCKS = Blocks(4)
FEW = 500


def protocol_of(release: ShuffleRelease, base: type[Protocol] | None = None) -> Protocol:
    """A protocol whose only release is the given one, so that faults can be planted in it."""
    known = {VectorSumRelease: VectorSum, AmplifiedGaussianRelease: AmplifiedGaussian}
    parent = base or next(made for kind, made in known.items() if isinstance(release, kind))
    kind = type("Planted", (parent,), {"release_type": type(release)})
    made: Protocol = kind(release.layout, SCHEDULE, (release,))
    return made


def bits(layout: Layout = LIGHT, bias: float = 0.5, noise_bits: int = 11) -> VectorSum:
    release = VectorSumRelease(layout, USERS, 5.5, noise_bits, bias)
    return VectorSum(layout, SCHEDULE, (release,))


def broken(protocol: Protocol, trials: int = FEW, seed: int = 0) -> str:
    with pytest.raises(ProtocolError) as caught:
        check_protocol(protocol, trials=trials, seed=seed)
    return str(caught.value)


@pytest.mark.parametrize("layout", [LIGHT, DECLARED, BLOCKS, PAPERS], ids=str)
@pytest.mark.parametrize("bias", [0.5, 0.25])
def test_vector_sum_keeps_every_promise(layout: Layout, bias: float) -> None:
    report = check_protocol(bits(layout, bias), trials=1000)
    assert not report.broken
    assert [finding.promise for finding in report.findings] == [*PROMISES, *LAWS]


def test_vector_sum_without_noise_bits_keeps_every_promise() -> None:
    check_protocol(bits(noise_bits=0), trials=FEW)


@pytest.mark.parametrize("layout", [LIGHT, PAPERS, LightOffset(3), LightOffset(1)], ids=str)
def test_amplified_gaussian_keeps_every_promise(layout: Layout) -> None:
    release = AmplifiedGaussianRelease(layout, USERS, 0.7)
    check_protocol(AmplifiedGaussian(layout, SCHEDULE, (release,)))


@pytest.mark.parametrize("layout", [LIGHT, DECLARED, PAPERS], ids=str)
def test_noiseless_keeps_every_promise(layout: Layout) -> None:
    check_protocol(Noiseless(layout, SCHEDULE, (NoiselessRelease(layout, USERS),)))


def tree(kind: type[ConcurrentTree] = ConcurrentTree) -> ConcurrentTree:
    release = ConcurrentTreeRelease(LIGHT, 3, (3, 6), (3.5, 5.25), (9, 5))
    return kind(LIGHT, FixedBatches(3, 12), (release,))


def test_a_concurrent_tree_keeps_every_promise() -> None:
    report = check_protocol(tree(), trials=FEW)
    assert [finding.promise for finding in report.findings] == [*PROMISES, *LAWS]


@pytest.mark.slow
def test_a_concurrent_tree_of_growing_batches_keeps_every_promise() -> None:
    terms = Terms("certified", levels=2)
    check_protocol(
        ConcurrentTree.calibrate(Budget(2.0, 1e-3), LIGHT, GrowingBatches(3, 40), terms),
        trials=1000,
    )


class ForgetsOpenNodes(ConcurrentTree):
    """A shortcut that hands out the last batch of a node for the whole."""

    def collector(self, rng: np.random.Generator) -> Collector:
        return LastBatches(self, rng)


class LastBatches(Collector):
    def add(self, index: int, contributions: Floats) -> Floats:
        parts = super().add(index, contributions)
        return parts[..., : LIGHT.size * (1 + index % 2)]


class ClosesEarly(ConcurrentTree):
    """A shuffler that releases every level with every batch."""

    def closing(self, index: int) -> frozenset[str]:
        return super().closing(1)


class NeverCloses(ConcurrentTree):
    """A level that is never released."""

    def closing(self, index: int) -> frozenset[str]:
        return super().closing(0)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (ForgetsOpenNodes, "sample_sum has the mean of the real path"),
        (ClosesEarly, "the operating system's coins are enough"),
        (NeverCloses, "are still open after 1000 batches"),
    ],
)
def test_a_tree_that_mixes_up_its_nodes_is_caught(kind: type[ConcurrentTree], promise: str) -> None:
    assert promise in broken(tree(kind))


def test_faultless_protocols_pass_at_any_seed() -> None:
    # 12 checks of false-alarm rate 1e-6 each.
    release = AmplifiedGaussianRelease(LIGHT, USERS, 0.7)
    for seed in range(12):
        check_protocol(AmplifiedGaussian(LIGHT, SCHEDULE, (release,)), seed=seed, trials=FEW)


def test_p_values_of_a_faultless_protocol_are_not_all_small() -> None:
    release = AmplifiedGaussianRelease(LIGHT, USERS, 0.7)
    report = check_protocol(AmplifiedGaussian(LIGHT, SCHEDULE, (release,)), trials=FEW)
    laws = [finding.statistic for finding in report.findings if finding.promise in LAWS]
    assert min(laws) > FALSE_ALARM
    assert max(laws) > 0.01


# The three planted faults.


class HalfTheNoise(VectorSumRelease):
    """The shortcut forgets half of the noise bits."""

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        fewer = VectorSumRelease(self.layout, self.users, self.grid, self.noise_bits // 2, 0.5)
        return fewer.sample_sum(contributions, rng)


class QuietShortcut(AmplifiedGaussianRelease):
    """The shortcut's noise is a fifth too small."""

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        sums = contributions.sum(axis=-2)
        return np.asarray(sums + rng.normal(0.0, 0.8 * self.privacy_noise_std, sums.shape))


class ShiftedOnce(VectorSumRelease):
    """The analyzer takes off the shift of one user instead of that of all of them."""

    def analyze(self, messages: Messages) -> Floats:
        return super().analyze(messages) - (self.users - 1) * self.layout.low


class WeighedByPosition(AmplifiedGaussianRelease):
    """The analyzer counts early messages more; after a shuffle it is still unbiased."""

    def analyze(self, messages: Messages) -> Floats:
        weights = np.linspace(1.5, 0.5, self.users)
        return UNIT * np.concatenate([weights @ messages["vector"], weights @ messages["matrix"]])


def test_half_the_noise_bits_in_the_shortcut_are_caught() -> None:
    text = broken(protocol_of(HalfTheNoise(LIGHT, USERS, 5.5, 12, 0.5)))
    assert "sample_sum has the variance of the real path" in text
    assert "unbiased" not in text


@pytest.mark.parametrize("seed", range(5))
def test_a_shortcut_with_a_fifth_less_noise_is_caught(seed: int) -> None:
    text = broken(protocol_of(QuietShortcut(LIGHT, USERS, 0.7)), trials=2000, seed=seed)
    assert "sample_sum has the variance of the real path" in text
    assert "blind" not in text


def test_an_analyzer_that_shifts_once_is_caught() -> None:
    text = broken(protocol_of(ShiftedOnce(LIGHT, USERS, 5.5, 11, 0.5)))
    assert "the analyzer is unbiased" in text
    assert "blind" not in text


def test_an_analyzer_that_reads_the_order_is_caught() -> None:
    text = broken(protocol_of(WeighedByPosition(LIGHT, USERS, 0.7)))
    assert "the analyzer is blind to the order of messages" in text
    assert "the analyzer is unbiased" not in text


# Further faults, one a promise.


class SharedNoise(AmplifiedGaussianRelease):
    """The shortcut adds the same noise to every coordinate."""

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        sums = contributions.sum(axis=-2)
        noise = rng.normal(0.0, self.privacy_noise_std, (*sums.shape[:-1], 1))
        return np.asarray(sums + noise)


class WrongShape(AmplifiedGaussianRelease):
    """A fair coin of the right variance in the shortcut."""

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        sums = contributions.sum(axis=-2)
        return np.asarray(sums + rng.choice([-1, 1], sums.shape) * self.privacy_noise_std)


class OneTrial(AmplifiedGaussianRelease):
    """Leading axes are summed away."""

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        return super().sample_sum(contributions.reshape(-1, *contributions.shape[-2:])[0], rng)


class LengthTells(VectorSumRelease):
    """Only the ones are sent, so a report's length is the data."""

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        sent = super().randomize(contribution, coins)
        return {label: rows[rows[:, 0] == 1] for label, rows in sent.items()}


class OwnRandomness(AmplifiedGaussianRelease):
    """Noise that the device's coins did not make."""

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        noisy = contribution + self.sigma * np.random.default_rng().normal(size=contribution.size)
        return {"vector": noisy[None, : self.layout.dim], "matrix": noisy[None, self.layout.dim :]}


class Flat(AmplifiedGaussianRelease):
    """Channels of numbers instead of rows."""

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        sent = super().randomize(contribution, coins)
        return {channel: rows[0] for channel, rows in sent.items()}


class Understated(AmplifiedGaussianRelease):
    """States two fifths less noise than there is."""

    @property
    def noise_std(self) -> float:
        return 0.6 * super().noise_std

    @property
    def privacy_noise_std(self) -> float:
        return 0.6 * super().privacy_noise_std

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        return ShuffleRelease.sample_sum(self, contributions, rng)


class Overstated(Understated):
    """States half as much again for privacy as there is."""

    @property
    def noise_std(self) -> float:
        return 3 * super().noise_std

    @property
    def privacy_noise_std(self) -> float:
        return 2.5 * super().privacy_noise_std


class CountsOnce(VectorSumRelease):
    """The first report's shift is left out of the tally."""

    def tally(self, messages: Messages) -> NDArray[np.int64]:
        return super().tally(messages) - 1


class CountsInHalves(VectorSumRelease):
    """Numbers that cannot be split into shares."""

    def tally(self, messages: Messages) -> NDArray[np.int64]:
        return super().tally(messages) / 1  # type: ignore[return-value]


class SettlesForOne(VectorSumRelease):
    """Takes off the noise of too few where numbers of reports differ."""

    def settle(self, tally: NDArray[np.int64], users: Counted) -> Floats:
        return super().settle(tally, np.asarray(users) - np.ndim(users))


class NothingStated(AmplifiedGaussianRelease):
    """A report without a size."""

    @property
    def report_bits(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("release", "promise"),
    [
        (SharedNoise(LIGHT, USERS, 0.7), "correlations of the real path"),
        (WrongShape(LIGHT, USERS, 0.7), "distribution of the real path"),
        (OneTrial(LIGHT, USERS, 0.7), "keeps leading axes"),
        (LengthTells(LIGHT, USERS, 5.5, 11, 0.5), "the same size whatever the data"),
        (OwnRandomness(LIGHT, USERS, 0.7), "randomness comes from its coins"),
        (Flat(LIGHT, USERS, 0.7), "rows in named channels"),
        (Understated(LIGHT, USERS, 0.7), "the noise is at most noise_std"),
        (Overstated(LIGHT, USERS, 0.7), "the noise is at least privacy_noise_std"),
        (CountsOnce(LIGHT, USERS, 5.5, 11, 0.5), "counts of reports add up"),
        (CountsInHalves(LIGHT, USERS, 5.5, 11, 0.5), "counts of reports add up"),
        (SettlesForOne(LIGHT, USERS, 5.5, 11, 0.5), "settled from counts"),
        (NothingStated(LIGHT, USERS, 0.7), "noise and report size are stated"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_faulty_release_is_caught(release: ShuffleRelease, promise: str) -> None:
    assert promise in broken(protocol_of(release))


class Nameless(AmplifiedGaussian):
    name: ClassVar[str] = ""


class Forgetful(AmplifiedGaussian):
    """Its running sum only knows the last batch."""

    def running_sum(self, rng: np.random.Generator | None = None) -> RunningSum:
        return LastOnly(self)


class LastOnly(FreshNoise):
    def part(self, index: int, sums: Floats) -> Part:
        return replace(super().part(index, sums), start=0)

    def starts(self, stop: int) -> tuple[int, ...]:
        return (0,)


class Boastful(AmplifiedGaussian):
    """Its running sum claims the noise of one batch for all of them."""

    def running_sum(self, rng: np.random.Generator | None = None) -> RunningSum:
        return OneVariance(self)


class OneVariance(FreshNoise):
    def part(self, index: int, sums: Floats) -> Part:
        found = super().part(index, sums)
        return replace(found, variance=found.variance if index == 0 else 0.0)


class BetterTwice(AmplifiedGaussian):
    def guarantee(self, participations: int = 1) -> Guarantee:
        return gaussian(1 / participations, "wishful")


class Speechless(AmplifiedGaussian):
    def local_guarantee(self, draws: int = 1) -> Guarantee:
        return Guarantee(method="not proved")


class Rising:
    def mu_at(self, delta: float) -> None:
        return None

    def epsilon(self, delta: float) -> float:
        return delta

    def delta(self, epsilon: float) -> float:
        return min(1.0, epsilon)


class RisingCurve(AmplifiedGaussian):
    def guarantee(self, participations: int = 1) -> Guarantee:
        return Guarantee("upside down", Rising())


class Unsafe:
    def mu_at(self, delta: float) -> None:
        return None

    def epsilon(self, delta: float) -> float:
        return 1.0

    def delta(self, epsilon: float) -> float:
        return 2e-9


class UnsafeCurve(AmplifiedGaussian):
    def guarantee(self, participations: int = 1) -> Guarantee:
        return Guarantee("rounded down", Unsafe())


class NoisierWithMore(AmplifiedGaussian):
    @classmethod
    def calibrate(cls, budget: Any, layout: Any, schedule: Any, terms: Any) -> Any:
        release = AmplifiedGaussianRelease(layout, schedule.first, budget.epsilon)
        return cls(layout, schedule, (release,))


class OverBudget(AmplifiedGaussian):
    @classmethod
    def calibrate(cls, budget: Any, layout: Any, schedule: Any, terms: Any) -> Any:
        return cls(layout, schedule, (AmplifiedGaussianRelease(layout, schedule.first, 1.0),))

    def guarantee(self, participations: int = 1) -> Guarantee:
        return gaussian(participations * self.layout.sensitivity, "exact")


class Unrestored(AmplifiedGaussian):
    @classmethod
    def restore(cls, layout: Any, schedule: Any, releases: Any, honest_fraction: Any = 1.0) -> Any:
        made = tuple(AmplifiedGaussianRelease(layout, users, 1.0) for users, _ in releases)
        return cls(layout, schedule, made)


@pytest.mark.parametrize(
    ("base", "promise"),
    [
        (Nameless, "the name is a stable string"),
        (Forgetful, "running_sum adds up"),
        (Boastful, "the noise of running_sum is at most the variance it states"),
        (BetterTwice, "two participations are never better than one"),
        (Speechless, "guarantees name their method, or the reason for none"),
        (RisingCurve, "more delta never means more epsilon"),
        (UnsafeCurve, "a guarantee ends on the safe side"),
        (NoisierWithMore, "more budget never means more noise"),
        (OverBudget, "a calibration's guarantee meets its budget"),
        (Unrestored, "bit for bit"),
    ],
)
def test_a_faulty_protocol_is_caught(base: type[Protocol], promise: str) -> None:
    release = AmplifiedGaussianRelease(LIGHT, USERS, 0.7)
    text = broken(protocol_of(release, base))
    # A planted curve may miss its budgets too; nothing else may be blamed.
    blamed = [line for line in text.split("\n- ")[1:] if "meets its budget" not in line]
    assert any(promise in line for line in text.split("\n- ")[1:])
    assert all(promise in line for line in blamed)


class Loose(ShuffleRelease):
    """Not a frozen dataclass of its own parameters."""

    __dataclass_params__ = None
    privacy_noise_std = 0.0

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        return {"report": contribution[None, :]}

    def analyze(self, messages: Messages) -> Floats:
        return np.asarray(messages["report"].sum(axis=0))


class LooseProtocol(Noiseless):
    release_type: ClassVar[type[ShuffleRelease]] = Loose


def test_a_release_that_is_not_a_value_is_caught() -> None:
    assert "frozen values" in broken(LooseProtocol(LIGHT, SCHEDULE, (Loose(LIGHT, USERS),)))


class Raises(AmplifiedGaussianRelease):
    def analyze(self, messages: Messages) -> Floats:
        raise KeyError("no such channel")


def test_a_check_that_ends_in_an_error_names_promise_and_error() -> None:
    text = broken(protocol_of(Raises(LIGHT, USERS, 0.7)))
    assert "the analyzer is unbiased (the check ended in KeyError('no such channel'))" in text
    assert "the analyzer is blind to the order of messages (the check ended in KeyError" in text


def test_all_broken_promises_are_raised_together() -> None:
    text = broken(protocol_of(WeighedByPosition(LIGHT, USERS, 0.7), Speechless))
    assert "blind to the order" in text
    assert "the reason for none" in text


def test_a_report_says_what_was_checked() -> None:
    release = NoiselessRelease(LIGHT, USERS)
    report = check_protocol(Noiseless(LIGHT, SCHEDULE, (release,)), trials=FEW)
    assert str(report).startswith("protocol Noiseless:\n- kept: the name is a stable string (0)")
    assert "smallest p-value" in str(report)


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="trials must be a whole number of at least 458, got 10"):
        check_protocol(bits(), trials=10)
    with pytest.raises(ValueError, match="protocol must be a Protocol, got 'vector-sum'"):
        check_protocol("vector-sum")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PROBLEMS)
def test_built_in_problems_keep_every_promise(name: str) -> None:
    blocks = PROBLEMS[name].blocks_of(4) or 1
    assert not check_problem(PROBLEMS[name](3 * blocks, 4), seed=5).broken


@dataclass(frozen=True)
class Long(Contextual):
    def features(self, rng: np.random.Generator, count: int) -> Floats:
        return 1.1 * super().features(rng, count)


@dataclass(frozen=True)
class Negative(Contextual):
    def parameter(self, rng: np.random.Generator) -> Floats:
        return -super().parameter(rng)


COUNTER = itertools.count()


@dataclass(frozen=True)
class Drifting(Contextual):
    """Users depend on how often they were asked for."""

    def features(self, rng: np.random.Generator, count: int) -> Floats:
        return super().features(np.random.default_rng(next(COUNTER)), count)


@dataclass(frozen=True)
class Constant(Sphere):
    """Every trial is the same instance."""

    def parameter(self, rng: np.random.Generator) -> Floats:
        return super().parameter(np.random.default_rng(0))

    def features(self, rng: np.random.Generator, count: int) -> Floats:
        return super().features(np.random.default_rng(1), count)


@pytest.mark.parametrize(
    ("problem", "promises"),
    [
        (Long(3, 4), ["feature_norm"]),
        (Negative(3, 4), ["mean rewards are probabilities"]),
        (Drifting(3, 4), ["the order in which they are asked for", "a trial does not depend"]),
        (Constant(3, 4), ["trials differ", "seeds differ"]),
    ],
)
def test_a_faulty_problem_is_caught(problem: Problem, promises: list[str]) -> None:
    with pytest.raises(ProtocolError) as caught:
        check_problem(problem)
    for promise in promises:
        assert promise in str(caught.value)


class LosesParts(NoiselessRelease):
    """Parts that forget a user each."""

    def partial(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(contributions[..., 1:, :].sum(axis=-2))

    def sample_sum(self, contributions: Floats, rng: np.random.Generator) -> Floats:
        return np.asarray(contributions.sum(axis=-2))


def test_parts_that_do_not_add_up_to_the_batch_are_caught() -> None:
    lossy = Noiseless(LIGHT, SCHEDULE, (LosesParts(LIGHT, USERS),))
    assert "partial and finish have the distribution of sample_sum" in broken(lossy)
