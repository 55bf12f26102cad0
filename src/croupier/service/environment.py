"""Single settings from the environment, for containers: they go before those of the file.

``CROUPIER_LISTEN__PORT=8080`` is ``port = 8080`` in the table ``[listen]``: as strict, and with the
same meaning. Names are those of the file in capitals, with two underscores after a table's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

from croupier.service.toml_tables import SettingsError, plain_type

PREFIX = "CROUPIER_"
BETWEEN = "__"

_SERVICE_LINK = re.compile(
    "_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$"
)
_ADDRESS = re.compile("(tcp|udp|sctp)://")

Table = Mapping[str, Any]


def override(kind: type, table: Table, environment: Mapping[str, str]) -> dict[str, Any]:
    """A table for the dataclass ``kind``, with the variables of ours in place of what it says."""
    found = dict(table)
    for variable in our_variables(environment):
        way = variable.removeprefix(PREFIX).lower().split(BETWEEN)
        wanted = _require_setting(kind, way, variable)
        _put(found, way, _read_text(wanted, environment[variable]))
    return found


def our_variables(environment: Mapping[str, str]) -> list[str]:
    """Those that mean a setting, in order."""
    ours = (name for name in environment if name.startswith(PREFIX))
    return sorted(name for name in ours if not _is_service_link(name, environment[name]))


def _is_service_link(name: str, value: str) -> bool:
    """Whether Kubernetes has set it, for a service of the namespace whose name begins with ours.

    ``CROUPIER_PORT`` may be one, too, and is told by its value.
    """
    if BETWEEN in name:
        return False
    is_address = name.endswith("_PORT") and _ADDRESS.match(value) is not None
    return is_address or _SERVICE_LINK.search(name) is not None


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that is to go by its file alone."""
    return {name: value for name, value in environment.items() if not name.startswith(PREFIX)}


def name_variables(error: SettingsError, environment: Mapping[str, str]) -> SettingsError:
    """The same error, saying which of its keys came from a variable."""
    text = str(error)
    found = [one for one in our_variables(environment) if _is_about(text, one)]
    return SettingsError(f"{text}, from {', '.join(found)}" if found else text)


def _is_about(text: str, variable: str) -> bool:
    """Whether an error is about a variable's key, or about the whole table that it is in."""
    key = variable.removeprefix(PREFIX).lower().replace(BETWEEN, ".")
    table = key.partition(".")[0]
    return bool(re.search(rf"(?<![^\s']){re.escape(key)}(?![\w./])", text)) or f"{table!r}" in text


def _require_setting(kind: type, way: list[str], variable: str) -> type:
    """The type of a setting, at the end of its way through the tables."""
    inside: Any = kind
    for position, name in enumerate(way):
        known = _settings_of(inside)
        if name not in known or not variable.isupper():
            names = ", ".join(_variable([*way[:position], one]) for one in known)
            raise SettingsError(f"{variable} is not a setting; known here: {names}")
        inside = known[name]
    if is_dataclass(inside):
        names = ", ".join(_variable([*way, one]) for one in _settings_of(inside))
        raise SettingsError(f"{variable} is a whole table; known there: {names}")
    return inside  # type: ignore[no-any-return]


def _settings_of(kind: Any) -> dict[str, Any]:
    """The settings of a table and their types; a plain value has none."""
    if not is_dataclass(kind):
        return {}
    hints = get_type_hints(kind)
    return {field.name: plain_type(hints[field.name]) for field in fields(kind)}


def _variable(way: list[str]) -> str:
    return PREFIX + BETWEEN.join(way).upper()


def _read_text(wanted: type, text: str) -> Any:
    """What TOML would have made of it; a text that is no such value is left to be refused."""
    if wanted is bool:
        return {"true": True, "false": False}.get(text, text)
    if wanted in (int, float):
        try:
            return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        except ValueError:
            return text
    return text


def _put(table: dict[str, Any], way: list[str], value: Any) -> None:
    """In a copy of the table that is inside; what is no table is left to be refused."""
    first, *rest = way
    if not rest:
        table[first] = value
        return
    inside = table.get(first, {})
    if isinstance(inside, Mapping):
        table[first] = dict(inside)
        _put(table[first], rest, value)
