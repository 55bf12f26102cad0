"""Numbers in words, coarse where they change all the time."""

from __future__ import annotations

from collections.abc import Mapping

NOTHING = "–"  # noqa: RUF001 - a dash stands for an empty place

_UNITS = ((86400, "day"), (3600, "hour"), (60, "minute"))
_QUARTERS = ("under a quarter full", "a quarter full", "half full", "three quarters full")


def duration(seconds: float) -> str:
    """How long, to the minute, hour or day: a page that is watched should not flicker."""
    for length, unit in _UNITS:
        if seconds >= length:
            return counted(int(seconds // length), unit)
    return "under a minute"


def counted(count: int, unit: str, several: str | None = None) -> str:
    """A count with its unit."""
    return f"{count:,} {unit if count == 1 else several or unit + 's'}"


def batches(count: int) -> str:
    """A count of batches."""
    return counted(count, "batch", "batches")


def fill(filled: int, size: int) -> str:
    """How full a batch is, in steps of a quarter."""
    if filled == 0:
        return "empty"
    return "complete" if filled >= size else _QUARTERS[4 * filled // size]


def number(value: float | None) -> str:
    """Four digits, or that nothing is known."""
    return NOTHING if value is None else f"{value:.4g}"


def short(name: str | None) -> str:
    """The beginning of a hash."""
    return name[:12] if name else NOTHING


def tally(counts: Mapping[str, int], titles: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """What was refused and how often, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return tuple((titles.get(code, code), f"{count:,}") for code, count in ordered)
