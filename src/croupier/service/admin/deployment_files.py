"""Two directories, one for each role, with everything that a first start needs.

They share a plan, the public halves of each other's signing keys and one token, of which the
analyzer has only the hash. Each can be carried to its own machine.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from croupier.plan import Plan
from croupier.service.keys.keylist import SIGN, require_active
from croupier.service.keys.keyring import Keyring
from croupier.service.settings import Role, token_hash
from croupier.wire import Transport

SETTINGS = "settings.toml"
PORTS = (8101, 8102)


@dataclass(frozen=True)
class DeploymentFiles:
    """Where the settings of the two roles are."""

    shuffler: Path
    analyzer: Path


def write_deployment(
    directory: Path, plan: Plan, transport: Transport, ports: tuple[int, int] = PORTS
) -> DeploymentFiles:
    """Write the two directories; what is there already is not touched."""
    homes = {role: directory / role.value for role in Role}
    for home in homes.values():
        home.mkdir(mode=0o700, parents=True)
        _write_private(home / "plan.json", plan.to_json())
    signing = {role: _make_keys(homes[role], role) for role in Role}
    token = secrets.token_urlsafe(32)
    shuffler, analyzer = homes[Role.SHUFFLER], homes[Role.ANALYZER]
    _write_private(shuffler / "service-token", token + "\n")
    _write_private(shuffler / "analyzer-key", signing[Role.ANALYZER] + "\n")
    _write_private(analyzer / "shuffler-key", signing[Role.SHUFFLER] + "\n")
    word = transport.name.lower()
    _write_private(
        shuffler / SETTINGS, _SHUFFLER.format(transport=word, port=ports[0], peer=ports[1])
    )
    told = _ANALYZER.format(
        transport=word, port=ports[1], peer=ports[0], token_hash=token_hash(token)
    )
    _write_private(analyzer / SETTINGS, told)
    return DeploymentFiles(shuffler / SETTINGS, analyzer / SETTINGS)


def _make_keys(home: Path, role: Role) -> str:
    """Make the role's keys; the public signing key in hex."""
    passphrase = secrets.token_urlsafe(32)
    _write_private(home / "passphrase", passphrase + "\n")
    ring = Keyring.create(home / "keys", role.value, passphrase.encode())
    ring.new()
    return require_active(ring.list(), SIGN).public.hex()


def _write_private(path: Path, text: str) -> None:
    """A new file that only its owner can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


_SHUFFLER = """\
role = "shuffler"
plan = "plan.json"
transport = "{transport}"
database = "shuffler.db"            # or postgresql://user@host/name, for more than one process

[listen]
host = "127.0.0.1"
port = {port}

[keys]
directory = "keys"
passphrase_file = "passphrase"

[peer]                              # the analyzer
url = "http://127.0.0.1:{peer}"
signing_key_file = "analyzer-key"
token_file = "service-token"

[batches]
short = "wait"                      # or pad, drop
"""

_ANALYZER = """\
role = "analyzer"
plan = "plan.json"
transport = "{transport}"
database = "analyzer.db"

[listen]
host = "127.0.0.1"
port = {port}

[keys]
directory = "keys"
passphrase_file = "passphrase"

[peer]                              # the shuffler
url = "http://127.0.0.1:{peer}"
signing_key_file = "shuffler-key"

[access]
token_hash = "{token_hash}"
"""
