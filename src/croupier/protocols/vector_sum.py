"""``vector-sum`` (P_Vec, appendix C): rounded coordinates and binomial noise as labelled bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, unproved
from croupier.privacy.search import MOST_DELTA
from croupier.privacy.shuffled_bits.calibration import GRID_POWER, BatchSum, fewest_bits
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.placements import Certified, drawn, placed
from croupier.protocols.base import Protocol, ShuffleRelease, Terms, needed
from croupier.protocols.vector_release import VectorSumRelease
from croupier.schedules import Schedule
from croupier.theory import constants, released

ROUNDED_UP = 1 + 1e-12
NO_COINS = "no noise bits are sent"
CERTIFICATE = "certificate for shuffled bits (docs/guarantees.md)"


@dataclass(frozen=True)
class VectorSum(Protocol):
    """P_Vec; the bits of a label are one channel, so their order says nothing."""

    name: ClassVar[str] = "vector-sum"
    release_type: ClassVar[type[ShuffleRelease]] = VectorSumRelease
    calibrations: ClassVar[tuple[str, ...]] = ("certified", "theorem", "released")

    @classmethod
    def calibrate(
        cls, budget: Budget | None, layout: Layout, schedule: Schedule, terms: Terms
    ) -> Self:
        """The fewest certified bits, or the bits of ``thm:vec`` or of the authors' script."""
        asked = needed(budget, cls.name)
        if terms.calibration == "theorem" and not terms.outside:
            constants.require(
                *constants.vector_sum_range(asked),
                *constants.composition_range(asked, terms.max_participations),
            )
        sizes = schedule.sizes()
        make: dict[str, Callable[..., VectorSumRelease]] = {
            "certified": _certified,
            "theorem": _theorem,
            "released": _released,
        }
        made = tuple(make[terms.calibration](asked, layout, size, terms) for size in sizes)
        return cls(layout, schedule, made, terms.honest_fraction)

    def formula(self, budget: Budget | None, terms: Terms) -> dict[str, float]:
        """Grid, bits and noise on the batch sum before ceilings and floors."""
        if terms.calibration == "certified":
            return {}
        users, dim = self.schedule.first, self.layout.dim
        part = constants.composed_budget(needed(budget, self.name), terms.max_participations)
        rule = constants if terms.calibration == "theorem" else released
        grid = constants.vector_sum_grid(users, dim)
        bits = rule.vector_sum_noise_bits(part, users, dim, grid)
        spread = constants.VECTOR_SUM_BIAS * (1 - constants.VECTOR_SUM_BIAS)
        return {
            "grid": grid,
            "noise_bits": bits,
            "privacy_noise_std": math.sqrt(users * bits * spread) / grid,
        }

    def noise_floor(self, budget: Budget | None, terms: Terms) -> float | None:
        """The Gaussian floor: all users add noise, the honest ones' has to be enough."""
        batch = BatchSum(
            self.release(0).users,
            self.honest_fraction,
            self.layout.sensitivity,
            self.layout.size,
            terms.max_participations,
        )
        return batch.floor(needed(budget, self.name))

    def guarantee(self, participations: int = 1) -> Guarantee:
        """The certificate for shuffled bits, for a user in the worst of the batches (MATH 4)."""
        if not self._hides:
            return unproved(NO_COINS)
        counts = [self._counts(index, self.honest_users(index)) for index in range(len(self._made))]
        return promised(placed(counts, participations), _honest(self.honest_fraction), counts)

    @property
    def _hides(self) -> bool:
        return all(one.noise_bits > 0 for one in self._made)

    @property
    def _made(self) -> tuple[VectorSumRelease, ...]:
        return tuple(one for one in self.releases if isinstance(one, VectorSumRelease))

    def _counts(self, index: int, users: int) -> CountRelease:
        """What a swap does to the counts of a batch, seen through the coins of ``users``."""
        made = self._made[index]
        distance = made.grid * self.layout.device_sensitivity * ROUNDED_UP
        return CountRelease(users * made.noise_bits, made.bias, distance, self.layout.size)

    def local_guarantee(self, draws: int = 1) -> Guarantee:
        """The coins of a user's reports alone, where they are enough to hide anything."""
        if not self._hides:
            return unproved(NO_COINS)
        counts = [self._counts(index, 1) for index in range(len(self._made))]
        return promised(drawn(counts, draws), f"own coins of {_reports(draws)}", counts)

    def released_scale(self, budget: Budget | None) -> released.Scale:
        """G = ln(d/delta) sqrt(T d) / (4 epsilon sqrt B)."""
        dim, rounds = self.layout.dim, self.schedule.rounds
        noise = released.vector_sum_scale(needed(budget, self.name), self.schedule.first, dim)
        return released.private_scale(noise * math.sqrt(rounds * dim))


def _certified(asked: Budget, layout: Layout, users: int, terms: Terms) -> VectorSumRelease:
    """The fewest bits whose noise is within the overhead of the Gaussian floor (MATH 4)."""
    grid, bits = fewest_bits(
        asked,
        users=users,
        honest_fraction=terms.honest_fraction,
        sensitivity=layout.device_sensitivity,
        ranges=layout.high - layout.low,
        participations=terms.max_participations,
        overhead=terms.overhead,
    )
    return VectorSumRelease(layout, users, grid, bits, 0.5)


def _theorem(asked: Budget, layout: Layout, users: int, terms: Terms) -> VectorSumRelease:
    """``thm:vec`` with the ceilings that make grid and bits whole numbers."""
    part = constants.composed_budget(asked, terms.max_participations)
    grid = math.ceil(constants.vector_sum_grid(users, layout.dim))
    bits = math.ceil(constants.vector_sum_noise_bits(part, users, layout.dim, grid))
    return VectorSumRelease(layout, users, float(grid), bits, constants.VECTOR_SUM_BIAS)


def _released(asked: Budget, layout: Layout, users: int, terms: Terms) -> VectorSumRelease:
    """The authors' script, which rounds the bits down; the grid goes to a device's fixed point."""
    part = constants.composed_budget(asked, terms.max_participations)
    grid = constants.vector_sum_grid(users, layout.dim)
    bits = math.floor(released.vector_sum_noise_bits(part, users, layout.dim, grid))
    fixed = round(grid * 2.0**GRID_POWER) / 2.0**GRID_POWER
    return VectorSumRelease(layout, users, fixed, bits, constants.VECTOR_SUM_BIAS)


def promised(curve: Certified, method: str, counts: Iterable[CountRelease]) -> Guarantee:
    """The curve, or the reason why some coins hide nothing at any delta.

    Windows of counts shrink as delta grows: what is not certified at the largest is at none.
    """
    mu = curve.mu_at(MOST_DELTA)
    if mu is not None and math.isfinite(mu):
        return Guarantee(f"{CERTIFICATE}, {method}", curve)
    weakest = min(counts, key=lambda one: one.coins / one.distance)
    return unproved(
        f"a swap moves a count by up to {weakest.shift} steps, too far for the "
        f"{weakest.coins} coins of its label"
    )


def _reports(number: int) -> str:
    return "1 report" if number == 1 else f"{number} reports"


def _honest(share: float) -> str:
    return "coins of all users" if share == 1 else f"coins of {share:.4g} of the users"
