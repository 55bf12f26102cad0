"""Settings of the test suite: the same examples every time, however slow the machine."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("croupier", deadline=None, derandomize=True)
settings.load_profile("croupier")
