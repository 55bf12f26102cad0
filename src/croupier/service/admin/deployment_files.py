"""A directory for each role, with everything that a first start needs.

They share a plan, the public halves of each other's signing keys and one token, of which the
analyzer has only the hash. Whoever says which account a report is of, the issuer or the gateway,
has a directory too. Each can be carried to its own machine.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from croupier.plan import Plan
from croupier.service.account_settings import AccountPolicy
from croupier.service.keys.keylist import SIGN, require_active
from croupier.service.keys.keyring import Keyring
from croupier.service.keys.keystore import ISSUER
from croupier.service.settings import Role, token_hash
from croupier.wire import Transport

SETTINGS = "settings.toml"
PORTS = (8101, 8102)

GATEWAY = "gateway"
"""The directory of what a gateway keeps: the upload token, and the secret behind its accounts."""


@dataclass(frozen=True)
class DeploymentFiles:
    """Where the settings of the two roles are."""

    shuffler: Path
    analyzer: Path


def write_deployment(
    directory: Path,
    plan: Plan,
    transport: Transport,
    ports: tuple[int, int] = PORTS,
    *,
    accounts: AccountPolicy,
) -> DeploymentFiles:
    """Write the directories; what is there already is not touched.

    Shares are only for devices that are trusted, which the settings then say: ask before.
    """
    homes = {role: directory / role.value for role in Role}
    for home in homes.values():
        _write_private(_make_home(home) / "plan.json", plan.to_json())
    signing = {role: _make_keys(homes[role], role.value) for role in Role}
    token = secrets.token_urlsafe(32)
    shuffler, analyzer = homes[Role.SHUFFLER], homes[Role.ANALYZER]
    _write_private(shuffler / "service-token", token + "\n")
    _write_private(shuffler / "analyzer-key", signing[Role.ANALYZER] + "\n")
    _write_private(analyzer / "shuffler-key", signing[Role.SHUFFLER] + "\n")
    word = _TRANSPORTS[transport]
    told = _SHUFFLER.format(transport=word, port=ports[0], peer=ports[1])
    _write_private(shuffler / SETTINGS, told + _admit_accounts(directory, accounts))
    told = _ANALYZER.format(
        transport=word, port=ports[1], peer=ports[0], token_hash=token_hash(token)
    )
    _write_private(analyzer / SETTINGS, told)
    return DeploymentFiles(shuffler / SETTINGS, analyzer / SETTINGS)


def _admit_accounts(directory: Path, accounts: AccountPolicy) -> str:
    """Make what the policy for accounts rests on; its part of the shuffler's settings."""
    if accounts is AccountPolicy.ANYONE:
        return _ANYONE
    if accounts is AccountPolicy.SIGNED:
        home = _make_home(directory / ISSUER)
        public = _make_keys(home, ISSUER)
        _write_private(directory / Role.SHUFFLER.value / "issuer-key", public + "\n")
        return _SIGNED
    home, token = _make_home(directory / GATEWAY), secrets.token_urlsafe(32)
    _write_private(home / "upload-token", token + "\n")
    _write_private(home / "account-secret", secrets.token_urlsafe(32) + "\n")
    return _GATEWAY.format(token_hash=token_hash(token))


def _make_home(directory: Path) -> Path:
    directory.mkdir(mode=0o700, parents=True)
    return directory


def _make_keys(home: Path, role: str) -> str:
    """Make the role's keys; the public signing key in hex."""
    passphrase = secrets.token_urlsafe(32)
    _write_private(home / "passphrase", passphrase + "\n")
    ring = Keyring.create(home / "keys", role, passphrase.encode())
    ring.new()
    return require_active(ring.list(), SIGN).public.hex()


def _write_private(path: Path, text: str) -> None:
    """A new file that only its owner can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


_TRANSPORTS = {
    Transport.BITS: 'transport = "bits"',
    Transport.SEALED: 'transport = "sealed"',
    Transport.SHARES: 'transport = "shares"\ntrust_devices = true          # not one of them lies',
}

_SHUFFLER = """\
role = "shuffler"
plan = "plan.json"
{transport}
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

_SIGNED = """
[accounts]                          # who may report: signed, gateway or anyone
policy = "signed"                   # an upload shows a token of `croupier issue` for its account
issuer_key_file = "issuer-key"
"""

_GATEWAY = """
[accounts]                          # who may report: signed, gateway or anyone
policy = "gateway"                  # whoever has the upload token writes the accounts

[access]
token_hash = "{token_hash}"
"""

_ANYONE = """
[accounts]                          # who may report: signed, gateway or anyone
policy = "anyone"                   # for tests only: anybody can fill a batch but for one report
"""

_ANALYZER = """\
role = "analyzer"
plan = "plan.json"
{transport}
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
