"""Ctrl-C: the first stops a command as soon as it can stop, a second one ends it at once."""

from __future__ import annotations

import multiprocessing
import os
import signal

STOPPED = 130
"""The exit code of a command that was interrupted, as shells have it."""


def listen() -> None:
    """From here on, unless whoever started us wants us to ignore Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _stop)


def _stop(_number: int, _frame: object) -> None:
    signal.signal(signal.SIGINT, _end)
    raise KeyboardInterrupt


def _end(_number: int, _frame: object) -> None:
    """Without waiting for anybody, and without leaving workers behind."""
    for worker in multiprocessing.active_children():
        worker.kill()
    os._exit(STOPPED)
