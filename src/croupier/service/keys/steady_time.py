"""What time it surely is: a wall clock that jumped is not believed before it has gone on steadily.

A machine's clock may be days ahead for a moment, before NTP has found it out. What is deleted by
such a clock is lost for ever.
"""

from __future__ import annotations

WAIT = 3600.0
"""Seconds for which the wall clock must have gone on as steadily as the monotonic one."""

STEP = 5.0
"""Seconds that a clock which is only corrected stays within; what goes further has jumped."""


class SteadyTime:
    """Two clocks side by side, from the first look on or from the last jump, back or ahead."""

    def __init__(self) -> None:
        self._began: tuple[float, float] | None = None

    def look(self, wall: float, monotonic: float) -> float | None:
        """A moment that is over by the wall clock of now, and was ``WAIT`` seconds ago.

        None while the clocks have not gone side by side for as long.
        """
        began = self._began
        if began is None or abs((wall - began[0]) - (monotonic - began[1])) > STEP:
            self._began = began = wall, monotonic
        return wall - WAIT if monotonic - began[1] >= WAIT else None
