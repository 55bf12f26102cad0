"""``noiseless``: the whole path without noise, to see what privacy costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from croupier.coins import Coins
from croupier.protocols.base import Floats, Protocol, ShuffleRelease
from croupier.protocols.exact_sum import ExactRelease, ExactSum
from croupier.shuffler import Messages


@dataclass(frozen=True)
class NoiselessRelease(ExactRelease, ShuffleRelease):
    """A batch sum in the clear, through a shuffler."""

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        """The contribution as it is."""
        return {"report": np.array(contribution[None, :])}

    def analyze(self, messages: Messages) -> Floats:
        """Sorted before it is added up, so that rounding does not tell the order."""
        return np.asarray(np.sort(messages["report"], axis=0).sum(axis=0))


@dataclass(frozen=True)
class Noiseless(ExactSum, Protocol):
    """Algorithm 1 with an identity randomiser."""

    name: ClassVar[str] = "noiseless"
    release_type: ClassVar[type[ShuffleRelease]] = NoiselessRelease
    reason: ClassVar[str] = "no noise is added"
