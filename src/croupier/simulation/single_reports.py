"""Draws single reports as devices make them, beside the exact law of every number in them.

At a device's own noise a fault of the rounding is invisible. So the same code also runs with few
noise bits or none, which are public parameters, and the bits it draws are looked at one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from croupier.coins import Coins
from croupier.fixed_point import whole_units
from croupier.protocols.amplified_gaussian import CHANNELS, AmplifiedGaussianRelease
from croupier.protocols.base import ShuffleRelease
from croupier.protocols.tree_release import ConcurrentTreeRelease
from croupier.protocols.vector_release import VectorSumRelease
from croupier.shuffler import Messages, Shapes, shapes_of
from croupier.simulation.report_law import CountLaw, Floats, GaussianLaw, Integers, Law

BitRelease = VectorSumRelease | ConcurrentTreeRelease

FEW_BITS = (0, 8)
"""Noise bits that leave the rounding, and each coin, to be seen."""

CANDIDATES = 512
MOST_COINS = 1024
"""Positions of a draw of bits that are looked at."""

MALFORMED = -1
"""In place of the ones of a channel that is not as the plan says."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Numbers ``(reports, columns)`` of reports on the same data, and the law of each column."""

    name: str
    columns: tuple[str, ...]
    laws: tuple[Law, ...]
    values: Integers
    full: bool
    """Whether it is of the plan's own parameters."""


@dataclass(frozen=True)
class Drawing:
    """``reports`` of each kind, fewer if ``seconds`` are over, but ``least`` at least."""

    coins: Callable[[], Coins]
    reports: int
    least: int
    seconds: float

    def rows(self, draw: Callable[[Coins], Integers]) -> Integers:
        """Numbers of one report after the other, each by a device of its own."""
        end, rows = time.monotonic() + self.seconds, [draw(self.coins())]
        while len(rows) < self.least or (len(rows) < self.reports and time.monotonic() < end):
            rows.append(draw(self.coins()))
        return np.array(rows)


def samples(
    promised: ShuffleRelease, running: ShuffleRelease, rows: dict[str, Floats], drawing: Drawing
) -> Iterator[Sample]:
    """Of each contribution: what devices that run ``running`` send where a plan has ``promised``.

    Nothing for a release whose law is not known here.
    """
    if isinstance(promised, AmplifiedGaussianRelease):
        for name, row in rows.items():
            yield _gaussian(name, promised, running, row, drawing)
    if isinstance(promised, BitRelease):
        honest = _honest(promised)
        for name, row in {**rows, "middle": middle(honest)}.items():
            yield _bits(name, honest, running, row, drawing)
            yield from _few(name, honest, running, row, drawing)
        yield _coins(max(node.noise_bits for node in nodes(honest)), drawing)


def _honest(release: BitRelease) -> BitRelease:
    """The shipped code on these parameters, which a faulty release may not run."""
    kind = VectorSumRelease if isinstance(release, VectorSumRelease) else ConcurrentTreeRelease
    return kind(release.layout, release.users, **release.parameters)


def nodes(release: BitRelease) -> tuple[VectorSumRelease, ...]:
    """One release of bits a level."""
    return (release,) if isinstance(release, VectorSumRelease) else release.nodes


def middle(release: BitRelease) -> Floats:
    """A contribution that is about half a step over, in every coordinate and on every level."""
    layout = release.layout
    values = layout.low + np.linspace(0, 1, CANDIDATES)[:, None] * (layout.high - layout.low)
    over = np.array([node.steps(values)[1] for node in nodes(release)])
    best = np.minimum(over, 1 - over).min(axis=0).argmax(axis=0)
    return np.asarray(values[best, np.arange(layout.size)])


def with_noise_bits(release: BitRelease, count: int) -> BitRelease:
    """The same with as many noise bits on every level."""
    if isinstance(release, VectorSumRelease):
        return replace(release, noise_bits=count)
    return replace(release, noise_bits=(count,) * len(release.nodes))


def _few(
    name: str, honest: BitRelease, running: ShuffleRelease, row: Floats, drawing: Drawing
) -> Iterator[Sample]:
    """Reports with few noise bits, which only a release of bits can be asked for."""
    if not isinstance(running, BitRelease):
        return
    for count in FEW_BITS:
        quiet, loud = with_noise_bits(honest, count), with_noise_bits(running, count)
        yield _bits(f"{name}, {count} noise bits", quiet, loud, row, drawing, full=False)


def _bits(
    name: str,
    honest: BitRelease,
    running: ShuffleRelease,
    row: Floats,
    drawing: Drawing,
    full: bool = True,
) -> Sample:
    """Ones of every channel."""
    shapes = _shapes(honest)
    values = drawing.rows(lambda coins: _ones(running.randomize(row, coins), shapes))
    laws = tuple(law for node in nodes(honest) for law in _count_laws(node, row))
    return Sample(name, honest.counted, laws, values, full)


def _shapes(honest: BitRelease) -> Shapes:
    lengths = [int(bits) + one.noise_bits for one in nodes(honest) for bits in one.signal_bits]
    kind = np.dtype(np.uint8).str
    return {name: ((length, 1), kind) for name, length in zip(honest.counted, lengths, strict=True)}


def _ones(sent: Messages, shapes: Shapes) -> Integers:
    """Of each channel, if the report has these channels and they hold bits, as many as told."""
    found = shapes_of(sent)
    told = [
        found.get(name) == shape and len(found) == len(shapes) for name, shape in shapes.items()
    ]
    rows = zip(shapes, told, strict=True)
    return np.array([_sum_of_bits(sent[name]) if good else MALFORMED for name, good in rows])


def _sum_of_bits(rows: NDArray[np.uint8]) -> int:
    return int(np.count_nonzero(rows)) if rows.max(initial=0) <= 1 else MALFORMED


def _count_laws(node: VectorSumRelease, row: Floats) -> Iterator[CountLaw]:
    floor, left = node.steps(row)
    for steps, over in zip(floor.tolist(), left.tolist(), strict=True):
        yield CountLaw(steps, over, node.noise_bits, node.bias)


def _gaussian(
    name: str,
    promised: AmplifiedGaussianRelease,
    running: ShuffleRelease,
    row: Floats,
    drawing: Drawing,
) -> Sample:
    """Units of every coordinate."""
    values = drawing.rows(lambda coins: _units(running.randomize(row, coins)))
    laws = tuple(GaussianLaw(unit, promised.noise_units) for unit in whole_units(row))
    return Sample(name, promised.layout.labels, laws, values, full=True)


def _units(sent: Messages) -> Integers:
    return np.concatenate([sent[channel][0] for channel in CHANNELS])


def _coins(count: int, drawing: Drawing) -> Sample:
    """Every bit of a draw as large as the noise of a label, as far as ``MOST_COINS``."""
    asked = max(1, min(count, MOST_COINS))
    columns = tuple(f"coin {position}" for position in range(asked))
    values = drawing.rows(lambda coins: _positions(coins.bits(asked), asked))
    return Sample("coins", columns, (CountLaw(0, 0.5, 0, 0.5),) * asked, values, full=False)


def _positions(draw: int, count: int) -> Integers:
    return np.array([draw >> position & 1 for position in range(count)], dtype=np.int64)
