"""Files that survive a crash."""

from __future__ import annotations

import os
from pathlib import Path

OPEN_TO_OTHERS, GROUP_WRITES = 0o027, 0o020
"""Bits of a mode that a private file must not have: its group may read it, and nobody else."""


def flush_directory(directory: Path) -> None:
    """A new name is on disk once its directory is."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private_directory(directory: Path) -> None:
    """A directory that only its owner can read, there for good."""
    if not directory.exists():
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flush_directory(directory.parent)
