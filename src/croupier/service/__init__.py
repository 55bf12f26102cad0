"""The deployed system: a shuffler, an analyzer and devices in separate trust domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from croupier.service.device.device import Device, Ticket
    from croupier.service.device.http import UnreachableError
    from croupier.service.device.settings import DeviceSettings
    from croupier.service.device.store import Fork
    from croupier.service.device.upload import UploadOutcome
    from croupier.service.http.reasons import Reason, Refusal

__all__ = [
    "Device",
    "DeviceSettings",
    "Fork",
    "Reason",
    "Refusal",
    "Ticket",
    "UnreachableError",
    "UploadOutcome",
]

_HOMES = {
    "Device": "device.device",
    "DeviceSettings": "device.settings",
    "Fork": "device.store",
    "UploadOutcome": "device.upload",
    "Reason": "http.reasons",
    "Refusal": "http.reasons",
    "Ticket": "device.device",
    "UnreachableError": "device.http",
}


def __getattr__(name: str) -> Any:
    """What an app needs, imported when asked for: a server needs none of it."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
