"""Waiting between tries: as long as was asked for, longer each time, and not for ever."""

from __future__ import annotations

import secrets
from collections.abc import Callable

PATIENCE = 30.0
FIRST, LONGEST = 0.25, 8.0
MOST_TRIES = 32


class Backoff:
    """No more than ``patience`` seconds in all, and no more than 32 tries."""

    def __init__(self, patience: float, sleep: Callable[[float], None]) -> None:
        self._left = patience
        self._sleep = sleep
        self._next = FIRST
        self._tries = 1

    def retry(self) -> bool:
        """Try again, the first time at once."""
        return self._wait(0.0) if self._tries == 1 else self.wait_longer()

    def wait_at_least(self, seconds: float) -> bool:
        """Wait that long and a little more, so that not all come back at once."""
        return self._wait(seconds * (1 + _random_fraction() / 4))

    def wait_longer(self) -> bool:
        """Wait twice as long as before."""
        seconds, self._next = self._next, min(2 * self._next, LONGEST)
        return self._wait(seconds * (1 + _random_fraction()) / 2)

    def _wait(self, seconds: float) -> bool:
        self._tries += 1
        if seconds > self._left or self._tries > MOST_TRIES:
            return False
        self._left -= seconds
        self._sleep(seconds)
        return True


def random_moment(seconds: float) -> float:
    """Uniform from 0 to below ``seconds``, by the operating system's randomness."""
    return seconds * (secrets.randbelow(2**53) / 2**53)


def _random_fraction() -> float:
    """Between 0 and 1."""
    return secrets.randbelow(1001) / 1000
