"""How long ago a model was published, as far as a process can know."""

from __future__ import annotations

import time
from collections.abc import Callable


class ModelAge:
    """How long a process has known the newest version; no times are stored, so nobody knows more.

    ``seen_new`` is whether the version is newer than what the process began with.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._version: int | None = None
        self._since = clock()
        self.seen_new = False

    def see(self, version: int) -> float:
        """Take note of the newest version; seconds since it was first seen."""
        if self._version is None or version > self._version:
            self.seen_new = self._version is not None
            self._version, self._since = version, self._clock()
        return self._clock() - self._since
