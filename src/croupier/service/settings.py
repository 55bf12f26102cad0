"""The configuration of one role: a TOML file, read strictly, and variables of the environment.

Paths are relative to the file. ``docs/deploy.md`` shows complete files for both roles.
"""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from croupier.service.account_settings import POLICIES, AccountPolicy, AccountSettings
from croupier.service.environment import name_variables, override
from croupier.service.http.addresses import require_safe_address
from croupier.service.http.logs import LEVELS
from croupier.service.storage.disk import GROUP_WRITES, OPEN_TO_OTHERS
from croupier.service.toml_tables import SettingsError, read_table
from croupier.wire import Transport

HASH_DIGITS = 64

USUAL_OPENERS, MOST_OPENERS = 4, 64
"""Helper processes: at most so many unless told, and at most so many."""


SHARES_TRUST = (
    "nobody can look into a share, so that one hostile device can add any number to its batch's "
    'sums and choose the model; use "bits" unless all devices are trusted'
)
"""What the transport ``shares`` asks of devices."""


class Role(Enum):
    """Which of the two services a file is for."""

    SHUFFLER = "shuffler"
    ANALYZER = "analyzer"


class ShortBatchPolicy(Enum):
    """What happens to a batch that stays short: nothing, zero-input reports, or it is dropped."""

    WAIT = "wait"
    PAD = "pad"
    DROP = "drop"


@dataclass(frozen=True)
class ListenSettings:
    """Where to serve. Behind a proxy that speaks TLS, this machine is enough."""

    host: str = "127.0.0.1"
    port: int = 0

    def __post_init__(self) -> None:
        """Refuse a port that does not exist."""
        if self.port >= 2**16:
            raise ValueError(f"listen.port must be below 65536, got {self.port}")


@dataclass(frozen=True)
class KeySettings:
    """The directory of this role's private keys, and the file with its passphrase.

    ``never_back_up`` is a directory of its own, beside that of the keys unless told.
    """

    directory: Path
    passphrase_file: Path
    never_back_up: Path | None = None

    @property
    def beside(self) -> Path:
        """Where keys of batches are, and how far plans have come: what no backup may contain."""
        return self.never_back_up or self.directory.parent / "never-back-up"


@dataclass(frozen=True)
class PeerSettings:
    """The other role: where it is, the key it signs with, and the token that it wants from us.

    ``signing_key`` is the raw public key in hex, ``signing_key_file`` a file with one or, around
    a rotation, more of them, one to a line.
    """

    url: str | None = None
    signing_key: str | None = None
    signing_key_file: Path | None = None
    token_file: Path | None = None

    def __post_init__(self) -> None:
        """The key is told once; whether ``url`` is safe is checked by those who name the table."""
        if (self.signing_key is None) == (self.signing_key_file is None):
            raise ValueError("peer needs one of signing_key and signing_key_file")


@dataclass(frozen=True)
class WitnessSettings:
    """A witness whose heads the shuffler shows to devices, and the file with its signing key."""

    url: str
    signing_key_file: Path

    def __post_init__(self) -> None:
        """The place is one that can be asked."""
        require_safe_address("witness.url", self.url)


@dataclass(frozen=True)
class AccessSettings:
    """The SHA-256, in hex, of the bearer token that callers must show; never the token."""

    token_hash: str | None = None

    def __post_init__(self) -> None:
        """Refuse a token where its hash belongs."""
        told = self.token_hash
        if told is not None and (len(told) != HASH_DIGITS or set(told) - set("0123456789abcdef")):
            raise ValueError("access.token_hash must be 64 lower-case hex digits")


def spare_cores() -> int:
    """Cores that we may use beside our own, as far as helpers are worth having."""
    known = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if known else os.cpu_count() or 1
    return min(USUAL_OPENERS, cores - 1)


@dataclass(frozen=True)
class LimitSettings:
    """What one request and all that wait may take; ``openers`` are helper processes, or none.

    Of ``connections`` each has ``header_seconds`` for a request's headers and ``body_seconds`` for
    its body; ``held_bytes`` bounds the large bodies that are held at once.
    """

    connections: int = 512
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    body_bytes: int = 2**20
    held_bytes: int = 2**26
    queue_length: int = 4096
    records_per_request: int = 256
    openers: int = field(default_factory=spare_cores)

    def __post_init__(self) -> None:
        """Nothing works with limits of zero, but everything without helpers."""
        for name, value in vars(self).items():
            if name.endswith("seconds") and value <= 0:
                raise ValueError(f"limits.{name} must be above 0, got {value}")
            if isinstance(value, int) and name != "openers" and value < 1:
                raise ValueError(f"limits.{name} must be at least 1, got {value}")
        if self.held_bytes < self.body_bytes:
            raise ValueError(
                f"limits.held_bytes must be at least limits.body_bytes, got {self.held_bytes} "
                f"and {self.body_bytes}"
            )
        if not 0 <= self.openers <= MOST_OPENERS:
            raise ValueError(f"limits.openers must be 0 to {MOST_OPENERS}, got {self.openers}")


@dataclass(frozen=True)
class BatchSettings:
    """When a batch stays short: the policy, after so many seconds, with so many real reports.

    ``floor`` is the fraction of a batch that must be real before the rest is padded.
    """

    short: ShortBatchPolicy = ShortBatchPolicy.WAIT
    floor: float = 0.9
    after_seconds: float = 86400.0

    def __post_init__(self) -> None:
        """A floor is a fraction, and nobody pads a batch that is empty."""
        if not 0 < self.floor <= 1:
            raise ValueError(f"batches.floor must be above 0 and at most 1, got {self.floor}")


@dataclass(frozen=True)
class CourierSettings:
    """How the shuffler hands on its batches, in seconds: looks, waits after failures, leases."""

    every: float = 0.5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    timeout: float = 30.0
    lease: float = 60.0

    def __post_init__(self) -> None:
        """A lease that ends before the peer could answer would be taken over in between."""
        if self.lease <= self.timeout:
            raise ValueError(
                f"courier.lease must be longer than courier.timeout, got {self.lease} "
                f"and {self.timeout}"
            )


@dataclass(frozen=True)
class Settings:
    """Everything that one role is told. ``succeeds`` is the id of an ended plan to carry on.

    ``rewards`` is a file of mean rewards for the analyzer's console, where somebody knows them.
    ``trust_devices`` says that no device is hostile, without which no shares are taken.
    """

    role: Role
    plan: Path
    database: str
    keys: KeySettings
    peer: PeerSettings
    transport: Transport = Transport.BITS
    trust_devices: bool = False
    listen: ListenSettings = field(default_factory=ListenSettings)
    access: AccessSettings = field(default_factory=AccessSettings)
    accounts: AccountSettings | None = None
    limits: LimitSettings = field(default_factory=LimitSettings)
    batches: BatchSettings = field(default_factory=BatchSettings)
    courier: CourierSettings = field(default_factory=CourierSettings)
    witness: WitnessSettings | None = None
    succeeds: str | None = None
    log_level: str = "info"
    console: bool = True
    rewards: Path | None = None

    def __post_init__(self) -> None:
        """What a role cannot do without."""
        if self.log_level not in LEVELS:
            known = ", ".join(LEVELS)
            raise ValueError(f"log_level must be one of {known}, got {self.log_level!r}")
        if self.transport is Transport.SHARES and not self.trust_devices:
            raise ValueError(f'transport "shares" needs trust_devices = true: {SHARES_TRUST}')
        if self.peer.url is not None:
            # The service token goes there.
            require_safe_address("peer.url", self.peer.url)
        if self.role is Role.SHUFFLER and (self.peer.url is None or self.peer.token_file is None):
            raise ValueError("a shuffler needs peer.url and peer.token_file")
        if self.role is Role.SHUFFLER:
            self._require_account_policy()
        if self.role is Role.ANALYZER and self.access.token_hash is None:
            raise ValueError("an analyzer needs access.token_hash: whoever has it can send batches")

    def _require_account_policy(self) -> None:
        """Nobody takes reports without having said whose."""
        if self.accounts is None:
            raise ValueError(POLICIES)
        if self.accounts.policy is AccountPolicy.GATEWAY and self.access.token_hash is None:
            raise ValueError(
                'accounts.policy "gateway" needs access.token_hash: whoever has the token writes '
                "the accounts"
            )


ONLY_SHUFFLER = ("accounts", "batches", "courier", "succeeds", "witness")


def read_settings(path: Path, environment: Mapping[str, str] | None = None) -> Settings:
    """The settings in a file, and before them those of the environment, this process's unless told.

    Every error names the file and the key, and the variable that it came from.
    """
    told = os.environ if environment is None else environment
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"cannot read {path}: {reason}") from error
    try:
        table = override(Settings, table, told)
        _require_own_keys(table)
        return read_table(Settings, _with_database(table, path.parent), path.parent)
    except SettingsError as error:
        raise SettingsError(f"{path}: {name_variables(error, told)}") from error


def _require_own_keys(table: dict[str, object]) -> None:
    """An analyzer has no batches of its own to complete or to carry."""
    for key in ONLY_SHUFFLER:
        if table.get("role") == Role.ANALYZER.value and key in table:
            raise SettingsError(f"unknown key {key!r}: an analyzer takes batches as they come")
    accounts = table.get("accounts")
    if isinstance(accounts, dict) and "policy" not in accounts:
        raise SettingsError(POLICIES)


def _with_database(table: dict[str, object], base: Path) -> dict[str, object]:
    """A database that is a file is relative to the configuration, like all paths."""
    told = table.get("database")
    if not isinstance(told, str) or not told or "postgres" in told.partition("://")[0]:
        return table
    return table | {"database": str(base / told.removeprefix("sqlite:///"))}


def read_secret(path: Path, what: str) -> str:
    """The text of a small file without the line's end; a file that is open to others is refused.

    Its group may read it: that is how containers are handed secrets that belong to root.
    """
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise SettingsError(f"cannot read the {what} in {path}: {reason}") from error
    if found := mode & OPEN_TO_OTHERS:
        does = "written by its group" if found == GROUP_WRITES else "read or written by others"
        raise SettingsError(
            f"the {what} in {path} can be {does}, mode {mode & 0o777:o}; run: chmod 600 {path}"
        )
    if not text:
        raise SettingsError(f"the {what} in {path} is empty")
    return text


def token_hash(token: str) -> str:
    """What is stored of a bearer token."""
    return hashlib.sha256(token.encode()).hexdigest()
