"""What the deployed system needs beyond the library, and which extra brings it."""

from __future__ import annotations

from importlib import import_module

from croupier.errors import MissingExtraError

EXTRA = "service"


def require_extra(*modules: str) -> None:
    """Refuse to go on without one of these modules, naming the extra that installs it."""
    for name in modules:
        try:
            import_module(name)
        except ImportError as missing:
            raise MissingExtraError(missing.name or name, EXTRA) from missing
