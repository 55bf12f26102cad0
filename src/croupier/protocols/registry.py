"""Finds mechanisms by name: the built-in ones, and third-party ones by entry point."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points

from croupier.errors import UnknownNameError
from croupier.protocols.base import Mechanism

GROUP = "croupier.protocols"

BUILT_IN = {
    "noiseless": "croupier.protocols.noiseless:Noiseless",
    "vector-sum": "croupier.protocols.vector_sum:VectorSum",
    "concurrent-tree": "croupier.protocols.concurrent_tree:ConcurrentTree",
    "amplified-gaussian": "croupier.protocols.amplified_gaussian:AmplifiedGaussian",
    "linucb": "croupier.baselines.linucb:LinUcb",
    "local": "croupier.baselines.local:Local",
    "central": "croupier.baselines.central:Central",
    "garcelon": "croupier.baselines.garcelon:Garcelon",
}


def names() -> dict[str, str]:
    """Every known name with the ``module:class`` behind it; a built-in name cannot be taken."""
    found = {point.name: point.value for point in entry_points(group=GROUP)}
    return {**found, **BUILT_IN}


def find(name: str) -> type[Mechanism]:
    """The mechanism called ``name``."""
    known = names()
    if name not in known:
        raise UnknownNameError("protocol", name, known)
    module, _, attribute = known[name].partition(":")
    mechanism = getattr(import_module(module), attribute)
    if not (isinstance(mechanism, type) and issubclass(mechanism, Mechanism)):
        raise TypeError(f"{known[name]} must be a Mechanism, got {mechanism!r}")
    if mechanism.name != name:
        raise TypeError(f"{known[name]} must be called {name!r}, got {mechanism.name!r}")
    return mechanism
