"""Released sums without the batches that are left out."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from croupier.errors import RefusedError
from croupier.protocols.base import Floats, Mechanism, Part, RunningSum


class SelectedSums(RunningSum):
    """The largest released sums that have none of the batches ``left_out`` in them.

    A sum over several batches of which one is left out is replaced by those of its parts.
    """

    def __init__(self, mechanism: Mechanism, left_out: Collection[int]) -> None:
        self._mechanism = mechanism
        self._left_out = frozenset(left_out)

    def starts(self, stop: int) -> range:
        """Any: which nodes are whole depends on what is left out."""
        return range(stop + 1)

    def part(self, index: int, sums: Floats) -> Part | None:
        """The largest sum that is whole; None for a batch that is left out."""
        if index in self._left_out:
            return None
        covers = self._mechanism.covers(index)
        variances = self._mechanism.sum_variances(index)
        parts = zip(covers, np.split(sums, len(covers), axis=-1), variances, strict=True)
        whole = [one for one in parts if self._left_out.isdisjoint(one[0])]
        if not whole:
            raise RefusedError(
                f"batch {index} was only released together with others, of which some of "
                f"{sorted(self._left_out)} are left out"
            )
        node, part, variance = max(whole, key=lambda one: len(one[0]))
        return Part(node.start, node.stop, part, variance)


def alone(mechanism: Mechanism, index: int, sums: Floats) -> tuple[Floats, float] | None:
    """The sum of batch ``index`` alone and its noise variance; None if it was not released."""
    covers = mechanism.covers(index)
    rows = zip(
        covers, np.split(sums, len(covers), axis=-1), mechanism.sum_variances(index), strict=True
    )
    return next(((part, variance) for node, part, variance in rows if len(node) == 1), None)
