"""What a witness is told: a plan, and where the two services are that it follows."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from croupier.service.environment import name_variables, override
from croupier.service.http.addresses import require_safe_address
from croupier.service.http.logs import LEVELS
from croupier.service.settings import KeySettings, ListenSettings, PeerSettings
from croupier.service.toml_tables import SettingsError, read_table
from croupier.wire import Transport

EVERY = 5.0


@dataclass(frozen=True)
class WitnessConfiguration:
    """A TOML file, read strictly; paths are relative to it.

    ``directory`` holds the heads that were signed. ``every`` is in seconds.
    """

    plan: Path
    directory: Path
    keys: KeySettings
    shuffler: PeerSettings
    analyzer: PeerSettings
    transport: Transport = Transport.BITS
    listen: ListenSettings = field(default_factory=ListenSettings)
    every: float = EVERY
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Nothing is followed without an address."""
        if self.log_level not in LEVELS:
            known = ", ".join(LEVELS)
            raise ValueError(f"log_level must be one of {known}, got {self.log_level!r}")
        for name, peer in (("shuffler", self.shuffler), ("analyzer", self.analyzer)):
            if peer.url is None:
                raise ValueError(f"a witness needs {name}.url")
            require_safe_address(f"{name}.url", peer.url)


def read_configuration(
    path: Path, environment: Mapping[str, str] | None = None
) -> WitnessConfiguration:
    """The settings in a file and, before them, in the environment; errors name file and key."""
    told = os.environ if environment is None else environment
    try:
        table = override(
            WitnessConfiguration, tomllib.loads(path.read_text(encoding="utf-8")), told
        )
        return read_table(WitnessConfiguration, table, path.parent)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"cannot read {path}: {reason}") from error
    except SettingsError as error:
        raise SettingsError(f"{path}: {name_variables(error, told)}") from error
