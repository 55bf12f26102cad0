"""Frozen dataclasses from TOML tables, strictly: every wrong key and value is named."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from croupier.errors import CroupierError

Kind = TypeVar("Kind")


class SettingsError(CroupierError):
    """A configuration cannot be used; the text names the key and shows the value."""


def read_table(kind: type[Kind], table: Mapping[str, Any], base: Path, prefix: str = "") -> Kind:
    """The dataclass ``kind`` from a table. Paths in it are relative to ``base``."""
    hints = get_type_hints(kind)
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for key in table:
        if key not in known:
            names = ", ".join(known)
            raise SettingsError(f"unknown key {prefix + key!r}; known here: {names}")
    found = {
        name: _read_value(hints[name], table[name], base, prefix + name)
        for name in known
        if name in table
    }
    for name, field in known.items():
        if name not in found and field.default is MISSING and field.default_factory is MISSING:
            raise SettingsError(f"missing key {prefix + name!r}")
    return _construct(kind, found)


def _construct(kind: type[Kind], found: dict[str, Any]) -> Kind:
    """A dataclass may refuse its values; a ``ValueError`` names the key."""
    try:
        return kind(**found)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _read_value(hint: Any, told: Any, base: Path, name: str) -> Any:
    wanted = plain_type(hint)
    if is_dataclass(wanted):
        if not isinstance(told, Mapping):
            raise SettingsError(f"{name} must be a table, got {told!r}")
        return read_table(wanted, told, base, f"{name}.")  # type: ignore[arg-type]
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return _read_member(wanted, told, name)
    found = _PLAIN[wanted](told, name)
    return base / found if wanted is Path else found


def plain_type(hint: Any) -> Any:
    """The type of a value that is given, where it may also be left out."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    return next(part for part in get_args(hint) if part is not type(None))


def _read_member(kind: type[Enum], told: Any, name: str) -> Enum:
    by_word = {member.name.lower(): member for member in kind}
    if not isinstance(told, str) or told not in by_word:
        raise SettingsError(f"{name} must be one of {', '.join(by_word)}, got {told!r}")
    return by_word[told]


def _read_text(told: Any, name: str) -> str:
    if not isinstance(told, str) or not told:
        raise SettingsError(f"{name} must be text, got {told!r}")
    return told


def _read_whole(told: Any, name: str) -> int:
    if isinstance(told, bool) or not isinstance(told, int) or told < 0:
        raise SettingsError(f"{name} must be a whole number of at least 0, got {told!r}")
    return told


def _read_real(told: Any, name: str) -> float:
    if isinstance(told, bool) or not isinstance(told, int | float) or not math.isfinite(told):
        raise SettingsError(f"{name} must be a number, got {told!r}")
    if told < 0:
        raise SettingsError(f"{name} must be at least 0, got {told!r}")
    return float(told)


def _read_flag(told: Any, name: str) -> bool:
    if not isinstance(told, bool):
        raise SettingsError(f"{name} must be true or false, got {told!r}")
    return told


_PLAIN: dict[Any, Callable[[Any, str], Any]] = {
    str: _read_text, Path: _read_text, int: _read_whole, float: _read_real, bool: _read_flag,
}  # fmt: skip
