"""What several promises to the same people come to: of plans in a row, or at the same time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from croupier.privacy import gdp
from croupier.privacy.guarantee import TAIL_SHARE, Guarantee


def composed_epsilon(guarantees: Sequence[Guarantee], delta: float) -> float:
    """The epsilon at ``delta`` of all of them together; infinite where one proves nothing.

    Gaussian DP adds up by the squares of mu, outside of the tails that ``mu_at`` leaves out, each
    a thousandth of its part of delta. Guarantees without a mu are composed plainly: epsilons and
    deltas add up. ``delta`` is shared equally, all with a mu together having one part.
    """
    if not guarantees:
        raise ValueError(f"guarantees must not be empty, got {guarantees!r}")
    mus = [guarantee.mu_at(delta) for guarantee in guarantees]
    plain = [one for one, mu in zip(guarantees, mus, strict=True) if mu is None]
    gaussian = [one for one, mu in zip(guarantees, mus, strict=True) if mu is not None]
    part = delta / (len(plain) + bool(gaussian))
    alone = math.fsum(one.epsilon(part) for one in plain)
    return alone + _gaussian_epsilon(gaussian, part)


def _gaussian_epsilon(guarantees: Sequence[Guarantee], delta: float) -> float:
    """Of those that have a mu, 0 of none."""
    if not guarantees:
        return 0.0
    found = (guarantee.mu_at(delta / len(guarantees)) for guarantee in guarantees)
    mus = [math.inf if mu is None else mu for mu in found]
    if math.inf in mus:
        return math.inf
    return gdp.epsilon_of(gdp.compose(mus), delta * (1 - 2 * TAIL_SHARE))
