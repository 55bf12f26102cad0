"""Finds policies by name."""

from __future__ import annotations

from croupier.errors import UnknownNameError
from croupier.policies.base import Policy
from croupier.policies.randucb import RandUcb
from croupier.policies.sampling import Sampling
from croupier.policies.thompson import Thompson
from croupier.policies.ucb import Ucb

POLICIES: dict[str, type[Policy]] = {kind.name: kind for kind in (Sampling, RandUcb, Thompson, Ucb)}


def find(name: str) -> type[Policy]:
    """The policy called ``name``."""
    if name not in POLICIES:
        raise UnknownNameError("policy", name, POLICIES)
    return POLICIES[name]
