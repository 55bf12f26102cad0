"""The command ``issue``: tokens with which users' devices report for their accounts."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

from croupier.cli import keys, options, screen
from croupier.errors import MissingExtraError
from croupier.packing import raw
from croupier.wire import ACCOUNT


def issue(
    plan: Annotated[Path, typer.Option(help="The plan that the tokens are good for.")],
    directory: keys.Directory,
    passphrase_file: keys.PassphraseFile,
    account: Annotated[
        list[str] | None, typer.Option(help="An account, 64 hex digits; may be repeated.")
    ] = None,
    count: Annotated[int, typer.Option(help="So many new accounts, drawn at random.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Sign tokens for accounts of one plan; a line for each, the account and its token.

    Example: croupier issue --plan plan.json --count 3
    --directory deployment/issuer/keys --passphrase-file deployment/issuer/passphrase
    """
    try:
        from croupier.service.keys.keystore import ISSUER
        from croupier.service.messages.account_tokens import issue_token
    except ImportError as missing:
        raise MissingExtraError("cryptography", "service") from missing
    accounts = _choose_accounts(account or [], count)
    plan_id = screen.read_plan(plan).id
    signer = keys.open_ring(ISSUER, directory, passphrase_file).signer
    issued = {one.hex(): issue_token(plan_id, one, signer) for one in accounts}
    document = {
        "kind": "account-tokens",
        "plan": plan_id,
        "tokens": [{"account": name, "token": token} for name, token in issued.items()],
    }
    screen.emit(document, "\n".join(f"{name}  {token}" for name, token in issued.items()), as_json)


def _choose_accounts(told: list[str], count: int) -> list[bytes]:
    """Those that were named, or as many new ones."""
    if count < 0 or bool(told) == bool(count):
        raise ValueError(f"one of account and a count above 0 must be given, got {told}, {count}")
    return [raw("account", one, ACCOUNT) for one in told] or [
        secrets.token_bytes(ACCOUNT) for _ in range(count)
    ]
