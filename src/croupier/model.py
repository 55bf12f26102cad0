"""Model: what is published. ReleasedSums: what it is learnt from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import rfc8785
from numpy.typing import NDArray

from croupier.errors import DocumentError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReleasedSums:
    """Estimated moments of the users of one released sum, or of several that were added up.

    ``vector (..., summed)``, ``matrix (..., summed, summed)``; ``noise_variance`` is that of one
    coordinate in the layout's own scale, equal for all leading axes (trials). ``batches`` is how
    many were released by then.
    """

    vector: Floats
    matrix: Floats
    users: int
    batches: int
    noise_variance: float

    def plus(self, later: ReleasedSums) -> ReleasedSums:
        """These users and those of a later sum."""
        return ReleasedSums(
            self.vector + later.vector,
            self.matrix + later.matrix,
            self.users + later.users,
            later.batches,
            self.noise_variance + later.noise_variance,
        )


@dataclass(frozen=True, eq=False)
class Model:
    """A published model: score <phi, theta>, width sqrt(phi' matrix phi), scaled by ``scale``.

    ``matrix`` is the inverse gram matrix, so that a device inverts nothing. ``repairs`` counts
    eigenvalues that the analyzer had to raise. Leading axes are trials of a simulation.
    """

    policy: str
    theta: Floats
    matrix: Floats
    scale: float
    version: int = 0
    users: int = 0
    repairs: int = 0
    plan_id: str = ""
    previous: str = ""

    @property
    def hash(self) -> str:
        """SHA-256 of the document without this field."""
        return hashlib.sha256(canonical(self._content())).hexdigest()

    def _content(self) -> dict[str, Any]:
        """Plain values; adding 0 leaves no negative zeros, which RFC 8785 does not know."""
        return {
            "policy": self.policy,
            "theta": (self.theta + 0.0).tolist(),
            "matrix": (self.matrix + 0.0).tolist(),
            "scale": float(self.scale) + 0.0,
            "version": self.version,
            "users": self.users,
            "repairs": self.repairs,
            "plan_id": self.plan_id,
            "previous": self.previous,
        }

    def to_json(self) -> str:
        """A document that ``from_json`` reads back bit for bit."""
        return json.dumps({"kind": "model", **self._content(), "hash": self.hash}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Model:
        """Read a model; a document whose hash does not fit is refused."""
        document = load_document(text, "model")
        claimed = document.pop("hash", None)
        try:
            theta, matrix = (np.array(document.pop(name), dtype=float) for name in _ARRAYS)
            model = cls(theta=theta, matrix=matrix, **document)
            found = model.hash
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DocumentError(f"not a model: {error}") from error
        if found != claimed:
            raise DocumentError(f"model hash is {found}, the document says {claimed}")
        return model


_ARRAYS = ("theta", "matrix")


def canonical(content: dict[str, Any]) -> bytes:
    """The bytes that are hashed and signed: JSON as RFC 8785 spells it, in any language."""
    return rfc8785.dumps(content)


def read_integer(text: str) -> float:
    """A whole number as JSON's readers in other languages have it: a float beyond 2**53."""
    return int(text) if len(text) < 16 or abs(int(text)) < 2**53 else float(text)


def load_document(text: str, kind: str) -> dict[str, Any]:
    """The fields of a JSON document of the given kind."""
    try:
        document = json.loads(text, parse_int=read_integer)
    except ValueError as error:
        raise DocumentError(f"not a {kind}: {error}") from error
    if not isinstance(document, dict) or document.pop("kind", None) != kind:
        raise DocumentError(f'not a {kind}: the document has no "kind": "{kind}"')
    return document
