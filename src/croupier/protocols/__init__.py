"""Shuffle protocols, one file each; ``base`` is the seam and ``registry`` finds them.

What a third party needs to write a protocol can be imported from here.
"""

from croupier.coins import Coins
from croupier.layouts import Layout
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import GaussianCurve, Guarantee, PureCurve
from croupier.protocols.base import Floats, Protocol, ShuffleRelease, Terms, needed
from croupier.schedules import Schedule
from croupier.shuffler import Messages

__all__ = [
    "Budget",
    "Coins",
    "Floats",
    "GaussianCurve",
    "Guarantee",
    "Layout",
    "Messages",
    "Protocol",
    "PureCurve",
    "Schedule",
    "ShuffleRelease",
    "Terms",
    "needed",
]
