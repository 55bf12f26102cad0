"""Compares single reports of real devices with their exact law, number by number and pair by pair.

An audit of sums and a check of batches cannot see most faults of a device: a dither that all
labels share, coins that two of them share, a rounding reused on every level of a tree, coins from
a weak seed. Single reports show them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from croupier.coins import Coins, SystemCoins
from croupier.protocols.base import Mechanism, ShuffleRelease
from croupier.simulation import report_statistics as statistics
from croupier.simulation.report_law import Floats
from croupier.simulation.single_reports import Drawing, Sample, samples

FALSE_ALARM = 1e-5
"""How often honest devices are blamed, all tests of one check together."""

REPORTS, LEAST_REPORTS = 500, 200
"""Of each contribution with each number of noise bits."""

KINDS = 16
"""Samples at most; the time is shared among them."""

LEAST_VARIANCE, MOST_SKEWED = 0.05, 1.0
"""Of numbers whose sums and products are taken for normal; all others are fitted alone."""

MOST_PAIRED = 1000


@dataclass(frozen=True)
class ReportCheck:
    """How many reports were drawn, how likely they are, and what is least likely of them."""

    reports: int
    pairs: int
    chance: float
    least_likely: str

    @property
    def agrees(self) -> bool:
        """Whether the difference from the law can be chance."""
        return self.chance >= FALSE_ALARM


@dataclass(frozen=True)
class CheckedFamily:
    """The chance of what one family of tests saw, times their number, and where it was least."""

    chance: float
    where: str


def check_reports(
    promised: Mechanism,
    running: Mechanism,
    contributions: dict[str, Floats],
    seconds: float,
    *,
    coins: Callable[[], Coins] = SystemCoins,
    reports: int = REPORTS,
) -> ReportCheck | None:
    """Reports on a first batch's parameters against the law of what was promised.

    Every report is made with ``coins`` of its own, as by a device of its own. None for mechanisms
    without reports, or with some whose law is not known here.
    """
    wanted, real = promised.release(0), running.release(0)
    if not isinstance(wanted, ShuffleRelease) or not isinstance(real, ShuffleRelease):
        return None
    drawing = Drawing(coins, reports, LEAST_REPORTS, seconds / KINDS)
    found = [Standard(sample) for sample in samples(wanted, real, contributions, drawing)]
    return _verdict(found) if found else None


def _verdict(found: list[Standard]) -> ReportCheck:
    """The least likely finding, times their number."""
    every = [finding for sample in found for finding in sample.findings()]
    every.append(_drift([sample for sample in found if sample.sample.full]))
    worst = min(every, key=lambda finding: finding.chance)
    sent = sum(len(one.sample.values) for one in found if one.sample.name != "coins")
    return ReportCheck(sent, found[0].pair_count, min(1.0, worst.chance * len(every)), worst.where)


def _drift(found: list[Standard]) -> CheckedFamily:
    """The mean of all labels of all contributions."""
    scores = np.array([score for one in found if (score := one.mean_of_all) is not None])
    total = scores.sum() / math.sqrt(max(1, scores.size))
    return CheckedFamily(float(statistics.two_sided(total)), "the mean of all labels")


@dataclass(frozen=True)
class Standard:
    """A sample with its regular columns standardised by their law."""

    sample: Sample

    @cached_property
    def regular(self) -> list[int]:
        """Columns that vary, and not as a rare event does."""
        laws = enumerate(self.sample.laws)
        return [
            index
            for index, law in laws
            if law.variance >= LEAST_VARIANCE and abs(law.skewness) <= MOST_SKEWED
        ]

    @cached_property
    def numbers(self) -> Floats:
        """``(reports, regular columns)``, of mean 0 and variance 1 if honest."""
        laws = [self.sample.laws[index] for index in self.regular]
        means = np.array([law.mean for law in laws])
        return np.asarray(
            (self.sample.values[:, self.regular] - means) / np.sqrt([law.variance for law in laws])
        )

    def _of(self, name: str) -> Floats:
        return np.array([getattr(self.sample.laws[index], name) for index in self.regular])

    @property
    def mean_of_all(self) -> float | None:
        """A standard normal score, None where no column is regular."""
        scores = statistics.mean_scores(self.numbers)
        return float(scores.sum() / math.sqrt(scores.size)) if scores.size else None

    @property
    def pair_count(self) -> int:
        """Pairs of columns whose correlation is looked at."""
        return math.comb(len(self._paired), 2)

    @cached_property
    def _paired(self) -> list[int]:
        """Positions among the regular columns, thinned where there are very many."""
        stride = -(-len(self.regular) // MOST_PAIRED)
        return list(range(0, len(self.regular), max(1, stride)))

    def findings(self) -> Iterator[CheckedFamily]:
        """Of every family of tests."""
        yield self._fitted()
        yield self._repeated()
        if self.regular:
            yield self._means()
            yield self._pairs()
            yield self._successors()
            yield self._said(statistics.spread(self.numbers, self._of("excess")), "the variance")
            chance = statistics.together(self.numbers, self._of("excess"), self._of("skewness"))
            yield self._said(chance, "the sum of all labels")

    def _said(self, chance: float, what: str) -> CheckedFamily:
        return CheckedFamily(chance, f"{what} ({self.sample.name})")

    def _column(self, position: int) -> str:
        return self.sample.columns[self.regular[position]]

    def _fitted(self) -> CheckedFamily:
        columns = zip(self.sample.laws, self.sample.values.T, strict=True)
        fits = np.array([statistics.fit(law.cells(values)) for law, values in columns])
        chance, index = statistics.worst(fits)
        return self._said(chance, f"the law of {self.sample.columns[index]}")

    def _repeated(self) -> CheckedFamily:
        same = np.array([law.same for law in self.sample.laws])
        return self._said(statistics.repeats(self.sample.values, same), "equal reports")

    def _means(self) -> CheckedFamily:
        scores = statistics.mean_scores(self.numbers)
        chance, index = statistics.worst(statistics.two_sided(scores))
        return self._said(chance, f"the mean of {self._column(index)}")

    def _pairs(self) -> CheckedFamily:
        chance, (first, second) = statistics.pairs(self.numbers[:, self._paired])
        names = [self._column(self._paired[position]) for position in (first, second)]
        return self._said(chance, f"the pair {' and '.join(names)}")

    def _successors(self) -> CheckedFamily:
        chance, index = statistics.successors(self.numbers)
        label = self._column(index) if index < len(self.regular) else "all labels"
        return self._said(chance, f"reports after each other, {label}")
