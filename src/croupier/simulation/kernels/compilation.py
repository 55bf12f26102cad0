"""How kernels are compiled: at the first call, for this processor, and kept on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from croupier.errors import MissingExtraError
from croupier.policies.pick import TIE

try:
    from numba import njit
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise MissingExtraError("numba", "simulate") from error

Function = TypeVar("Function", bound=Callable[..., Any])

RELAXED = {"contract", "nnan", "nsz"}
"""Fused multiply-add is allowed: rounding decides no choice, since close scores are ties."""


def stamp() -> tuple[object, ...]:
    """What compiled code was made from: kernels call each other across files."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return (TIE, *((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files))


STAMP = stamp()


def compiled(function: Function) -> Function:
    """The function as a kernel of the same signature, which makes no arrays."""
    return _made(function, inline=False, counts=False)


def inlined(function: Function) -> Function:
    """A kernel that becomes part of its callers: for what every round does, since calls cost."""
    return _made(function, inline=True, counts=False)


def allocating(function: Function) -> Function:
    """A kernel that makes arrays, or calls a library that does."""
    return _made(function, inline=False, counts=True)


def _made(function: Function, *, inline: bool, counts: bool) -> Function:
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": RELAXED, "forceinline": inline}
    # References to arrays are counted at every call and view, which takes as long as scoring all
    # arms and is of no use to what only works on the arrays of its caller.
    options["_nrt"] = counts
    made = njit(cache=True, **options)(function)
    # A kept kernel is stamped with its own file alone, which would miss a change in another one.
    kept = getattr(getattr(made, "_cache", None), "_cache_file", None)
    if kept is not None:
        kept._source_stamp = STAMP
    return cast("Function", made)
