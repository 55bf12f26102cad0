"""Releases of a user in groups, each of which tests are told about for itself (PROOF 9b).

Wide moves turn tests more than narrow ones. Told about each kind for itself a test knows more, but
what it knows of the narrow ones is worth less to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from croupier.privacy.shares import Shares, any_shares, equal_shares
from croupier.privacy.shuffled_bits.binomial_tails import Floats


@dataclass(frozen=True)
class Kind:
    """So many moves of one length: the ``share`` of the way that one is, and their widening e."""

    share: float
    number: int
    widening: float

    @property
    def whole(self) -> float:
        """The share of the way that all are."""
        return self.share * self.number


@dataclass(frozen=True)
class Group:
    """Moves with at most this ``widening``, a ``share`` of the whole way, cut into ``shares``."""

    share: float
    widening: float
    shares: Shares


@dataclass(frozen=True)
class Groups:
    """Groups of all moves that change variances; what they leave of the way changes none."""

    groups: tuple[Group, ...]

    @property
    def widening(self) -> float:
        """e: the largest."""
        return max(group.widening for group in self.groups)

    @property
    def mean(self) -> float:
        """The widening along the whole way."""
        return math.fsum(group.share * group.widening for group in self.groups)

    @property
    def across(self) -> float:
        """How much widenings turn the way, squared: their variance over it."""
        squares = math.fsum(group.share * group.widening**2 for group in self.groups)
        return max(0.0, squares - self.mean**2)

    @cached_property
    def shares(self) -> Shares:
        """Those of all groups, in units of the whole way and of the largest widening."""
        parts = [_within(group, group.widening / self.widening) for group in self.groups]
        return Shares(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _within(group: Group, scale: float) -> tuple[Floats, Floats, Floats]:
    shares = group.shares
    return group.share * shares.left, group.share * shares.times, scale * shares.weights


def apart(kinds: Sequence[Kind]) -> Groups:
    """Every kind for itself."""
    wide = [kind for kind in kinds if kind.widening]
    return Groups(tuple(Group(k.whole, k.widening, equal_shares(k.number)) for k in wide))


def together(kinds: Sequence[Kind]) -> Groups:
    """All in one group, with the largest widening."""
    wide = [kind for kind in kinds if kind.widening]
    whole = math.fsum(kind.whole for kind in wide)
    if len(wide) == 1:
        return apart(wide)
    shares = any_shares(max(1.0, whole / min(kind.share for kind in wide)))
    return Groups((Group(whole, max(kind.widening for kind in wide), shares),))


def pulls(kinds: Sequence[Kind]) -> tuple[Shares, ...]:
    """How the past can pull moves in any order, in units of the largest widening: all hold.

    It pulls the most at the end of the way. So each is the last; or the widest come last.
    """
    if len(kinds) == 1:
        return (equal_shares(kinds[0].number),)
    wide = sorted((kind for kind in kinds if kind.widening), key=lambda kind: -kind.widening)
    scales = np.array([kind.widening for kind in wide]) / wide[0].widening
    whole, shares = (
        np.array([getattr(kind, name) for kind in wide]) for name in ("whole", "share")
    )
    return Shares(shares, whole * scales, whole / shares * scales), _sorted(whole, shares, scales)


def _sorted(whole: Floats, shares: Floats, scales: Floats) -> Shares:
    """Moves from the narrowest to the widest, the last no shorter than any."""
    cut = any_shares(1 / shares.min())
    # A group has the scale of its end; a billionth less forgives rounded ends.
    places = np.searchsorted(np.cumsum(whole), cut.left * (1 - 1e-9))
    places[0] = 0
    found = np.append(scales, 0.0)[places]
    return Shares(cut.left, cut.times * found, cut.weights * found)
