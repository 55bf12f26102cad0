"""Values as columns of a row: arrays, and plans."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.plan import Plan


def bytes_of(array: NDArray[Any]) -> bytes:
    """An array with its shape and type."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def array_of(data: bytes) -> NDArray[Any]:
    """The array behind ``bytes_of``."""
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


@lru_cache(maxsize=64)
def read_plan(document: str) -> Plan:
    """A plan never changes, so that its text is read once."""
    return Plan.from_json(document)
