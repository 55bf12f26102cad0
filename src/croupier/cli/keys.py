"""The commands ``keys new``, ``keys rotate`` and ``keys list``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from croupier.cli import options, screen
from croupier.errors import MissingExtraError

if TYPE_CHECKING:
    from croupier.service.keys.keylist import Key
    from croupier.service.keys.keyring import Keyring

DAY = 24 * 3600

app = typer.Typer(
    help="Keys of shuffler, analyzer, issuer or witness, each in a directory of its own.",
    no_args_is_help=True,
)

Role = Annotated[str, typer.Option(help="Whose keys: shuffler, analyzer, issuer or witness.")]
Directory = Annotated[Path, typer.Option(help="Where they are kept; nobody else may read it.")]
PassphraseFile = Annotated[
    Path, typer.Option(help="A file with the passphrase that private keys are encrypted with.")
]


@app.command()
def new(
    role: Role, directory: Directory, passphrase_file: PassphraseFile, as_json: options.Json = False
) -> None:
    """Make new keys: pending until `keys rotate`, but active at once if it is the first.

    Example: croupier keys new --role shuffler --directory keys/shuffler
    --passphrase-file passphrase
    """
    ring = open_ring(role, directory, passphrase_file, create=True)
    made = ring.new()
    _emit(ring, made, as_json)


@app.command()
def rotate(
    role: Role,
    directory: Directory,
    passphrase_file: PassphraseFile,
    grace_days: Annotated[
        float, typer.Option(help="How long the old keys still open what was sealed for them.")
    ] = 7.0,
    delete_expired: Annotated[
        bool, typer.Option("--delete-expired", help="Delete keys that are over by this clock.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Use the pending keys from now on. The old ones open until their time is over.

    Private keys whose time is over are deleted by the service while it runs. Where none runs (an
    issuer), --delete-expired does it, by the clock of this machine, which has to be right.

    Example: croupier keys rotate --role shuffler --directory keys/shuffler
    --passphrase-file passphrase --grace-days 7
    """
    ring = open_ring(role, directory, passphrase_file)
    ring.rotate(grace=grace_days * DAY)
    if delete_expired:
        ring.retire()
    _emit(ring, ring.list(), as_json)


@app.command(name="list")
def list_keys(
    role: Role, directory: Directory, passphrase_file: PassphraseFile, as_json: options.Json = False
) -> None:
    """Show the public keys and what state they are in.

    Example: croupier keys list --role shuffler --directory keys/shuffler
    --passphrase-file passphrase
    """
    ring = open_ring(role, directory, passphrase_file)
    _emit(ring, ring.list(), as_json)


def open_ring(role: str, directory: Path, passphrase_file: Path, create: bool = False) -> Keyring:
    """The keys of a role; made, if that is wanted and there are none."""
    try:
        from croupier.service.keys.keyring import Keyring
        from croupier.service.keys.keystore import FILE
    except ImportError as missing:
        raise MissingExtraError("cryptography", "service") from missing
    passphrase = screen.read_text(passphrase_file).strip().encode()
    if not passphrase:
        raise ValueError(f"passphrase-file must not be empty, got {passphrase_file}")
    make = Keyring.create if create and not (directory / FILE).exists() else Keyring.open
    return make(directory, role, passphrase)


def _emit(ring: Keyring, keys: tuple[Key, ...], as_json: bool) -> None:
    rows = [key.content for key in keys]
    words = "\n".join(_words(row) for row in rows)
    screen.emit({"kind": "keys", "role": ring.role, "keys": rows}, words, as_json)


def _words(row: dict[str, Any]) -> str:
    """One line, so that a key can be copied whole."""
    line = f"{row['use']}  {row['state']:<7}  {row['id']}  {row['public']}"
    if row["expires"] is None:
        return line
    until = datetime.fromtimestamp(row["expires"], UTC)
    return f"{line}  until {until:%Y-%m-%d %H:%M} UTC"
