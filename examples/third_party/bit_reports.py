"""``bit-reports``: every coordinate becomes one bit that the device flips now and then."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from croupier import protocols as p


@dataclass(frozen=True)
class BitRelease(p.ShuffleRelease):
    """A bit is sent as it is with probability ``1 - flip``, ``flip = 1 / (1 + e^bit_epsilon)``."""

    bit_epsilon: float
    report_bits = property(lambda self: self.layout.size)
    flip = property(lambda self: 1 / (1 + np.exp(self.bit_epsilon)))
    step = property(lambda self: (self.layout.high - self.layout.low) / (1 - 2 * self.flip))
    noise_std = property(lambda self: self._std(self.step.max(), 0.5))
    privacy_noise_std = property(lambda self: self._std(self.step.min(), self.flip))

    def _std(self, step: float, chance: float) -> float:
        return float(step * np.sqrt(self.users * chance * (1 - chance)))

    def chance(self, values: p.Floats) -> Any:
        """The probability that the bit sent is a one."""
        return np.clip(self.flip + (values - self.layout.low) / self.step, self.flip, 1 - self.flip)

    def sums(self, ones: p.Floats) -> Any:
        """Batch sums from counts of ones, without what flips put in."""
        return (ones - self.users * self.flip) * self.step + self.users * self.layout.low

    def randomize(self, contribution: p.Floats, coins: p.Coins) -> p.Messages:
        ones = coins.below((self.chance(contribution) * 2.0**53).astype(np.uint64), 53)
        return dict(zip(self.layout.labels, ones.astype(np.uint8)[:, None, None], strict=True))

    def analyze(self, messages: p.Messages) -> Any:
        return self.sums(np.array([messages[label].sum() for label in self.layout.labels]))

    def sample_sum(self, contributions: p.Floats, rng: np.random.Generator) -> Any:
        return self.sums((rng.random(contributions.shape) < self.chance(contributions)).sum(-2))


class BitReports(p.Protocol):
    """A report is ``size`` bits of ``bit_epsilon`` each, private before it is shuffled."""

    name, release_type, calibrations = "bit-reports", BitRelease, ("certified",)

    @classmethod
    def calibrate(cls, budget: Any, layout: p.Layout, schedule: p.Schedule, terms: Any) -> Self:
        share = p.needed(budget, cls.name).epsilon / (layout.size * terms.max_participations)
        return cls(layout, schedule, tuple(BitRelease(layout, n, share) for n in schedule.sizes()))

    def guarantee(self, participations: int = 1) -> p.Guarantee:
        bits = self.layout.size * max(one.parameters["bit_epsilon"] for one in self.releases)
        return p.Guarantee("randomised response", p.PureCurve(participations * bits))

    def local_guarantee(self, draws: int = 1) -> p.Guarantee:
        return self.guarantee(draws)
