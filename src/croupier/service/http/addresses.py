"""Addresses of services: TLS, or this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

LOCAL = "localhost"


def require_safe_address(name: str, url: str) -> str:
    """The address, if it is https or does not leave this machine.

    An address with a user, a query or a fragment is refused: each is read differently by somebody.
    """
    parts = _split(url)
    if parts is None or parts.scheme not in ("http", "https"):
        raise ValueError(f"{name} must be an https address, got {url!r}")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError(f"{name} must be https unless it is loopback, got {url!r}")
    return url


def _split(url: str) -> SplitResult | None:
    """The parts of an address that everybody reads alike."""
    if not url.isascii() or not url.isprintable() or set(url) & set('\\ @?#"<>'):
        return None
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.hostname else None


def _is_loopback(host: str) -> bool:
    if host == LOCAL:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
