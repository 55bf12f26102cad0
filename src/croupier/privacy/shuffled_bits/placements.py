"""What batches tell of a user, in whichever of them that is worst (MATH 4, "Several releases")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from croupier.privacy.budget import LEAST_DELTA
from croupier.privacy.guarantee import WorstCurve
from croupier.privacy.search import MOST_DELTA, confirmed
from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.curve import ROUNDED_UP, BinomialCurve


@dataclass(frozen=True)
class WorstBatchCurve(WorstCurve):
    """The proved curve of a user who is in one of these batches: what holds in all of them.

    Which of them is worst depends on epsilon and delta: rounding costs small batches more. To see
    that a curve is no worse takes one evaluation, to invert it a hundred, so the curves should
    come with the likely worst first. One that fails there may be better elsewhere: tails depend
    on delta, so that what is proved at one need not be at a larger one.
    """

    curves: tuple[BinomialCurve, ...]

    def epsilon(self, delta: float) -> float:
        """The largest epsilon at ``delta``, and no delta on the way back is larger."""
        found = 0.0
        for curve in self.curves:
            if math.isfinite(found) and not curve.holds(found, delta):
                found = max(found, curve.epsilon(delta))
        return confirmed(self.delta, found, delta) if math.isfinite(found) else found

    def delta(self, epsilon: float) -> float:
        """The largest delta at ``epsilon``."""
        found = LEAST_DELTA
        for curve in self.curves:
            if not curve.holds(epsilon, min(found, MOST_DELTA)):
                found = max(found, curve.delta(epsilon))
        return found


@dataclass(frozen=True)
class PlacedCurve(BinomialCurve):
    """The proved curve of a user who is in ``participations`` of these batches.

    ``releases`` has every batch once, all with the same labels; the last one serves all later
    batches, so that a user may be in it any number of times.
    """

    participations: int

    @property
    def tails(self) -> int:
        """Tails of the counts that are released with the user in them, at most."""
        return self.participations * max(release.tails for release, _ in self.releases)

    def mu(self, tau: float) -> float:
        """The most that so many of the batches add up to."""
        *once, last = (release.mu(tau) for release, _ in self.releases)
        places = sorted([*once, *[last] * self.participations], reverse=True)
        return math.hypot(*places[: self.participations]) * ROUNDED_UP


Certified = BinomialCurve | WorstBatchCurve


def drawn(batches: Sequence[CountRelease], times: int) -> Certified:
    """The curve of a user who draws so many reports, all of them for the worst batch at worst.

    Draws for other batches have no larger mu, and as many tails.
    """
    curves = tuple(BinomialCurve(((one, times),)) for one in dict.fromkeys(batches))
    return curves[0] if len(curves) == 1 else WorstBatchCurve(curves)


def placed(batches: Sequence[CountRelease], participations: int) -> Certified:
    """The curve of a user who is in ``participations`` of ``batches``, wherever that is worst."""
    if len(batches) == 1:
        return BinomialCurve(((batches[0], participations),))
    if participations > 1:
        return PlacedCurve(tuple((one, 1) for one in batches), participations)
    distinct = dict.fromkeys(batches)
    likely = sorted(distinct, key=lambda one: one.distance**2 / max(one.coins, 1), reverse=True)
    return WorstBatchCurve(tuple(BinomialCurve(((one, 1),)) for one in likely))
