"""``linucb``: no privacy (Abbasi-Yadkori et al. 2011), sequential with batch size 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from croupier.protocols.base import Release
from croupier.protocols.exact_sum import ExactRelease, ExactSum


@dataclass(frozen=True)
class LinUcb(ExactSum):
    """OFUL without privacy, the floor that private learning is measured against."""

    name: ClassVar[str] = "linucb"
    release_type: ClassVar[type[Release]] = ExactRelease
    reason: ClassVar[str] = "the server sees everything and adds no noise"
