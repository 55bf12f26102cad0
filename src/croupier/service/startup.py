"""What every role checks before it starts: what must not be run is refused in one line."""

from __future__ import annotations

import os
import time
from pathlib import Path

from croupier.errors import CroupierError, DocumentError
from croupier.packing import channels
from croupier.plan import Plan
from croupier.protocols.base import AdditiveRelease
from croupier.service.account_settings import AccountPolicy
from croupier.service.keys.keyring import Keyring
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import Trusted
from croupier.service.messages.transports import plan_transport
from croupier.service.settings import KeySettings, PeerSettings, Role, Settings, read_secret
from croupier.service.toml_tables import SettingsError
from croupier.wire import Transport

RELEASED = 1735689600
"""The first day of 2025: a clock that is before it is wrong."""

ENTROPY = 32


class StartError(CroupierError):
    """A role cannot be run like this."""


def require_role(settings: Settings, role: Role) -> None:
    """Refuse the settings of the other role."""
    if settings.role is not role:
        raise StartError(f"the settings are for the {settings.role.value}, this is {role.value}")


# The plan


def read_checked_plan(settings: Settings) -> Plan:
    """The plan in its file, if it can be deployed and keeps what it claims."""
    return read_deployable_plan(settings.plan, settings.transport)


def read_deployable_plan(path: Path, transport: Transport) -> Plan:
    """The same of a file, for reports that travel like that."""
    plan = _read_plan(path)
    require_deployable(plan, transport)
    return plan


def require_deployable(plan: Plan, transport: Transport) -> None:
    """Refuse a baseline, a false claim, and a transport that does not fit."""
    if not plan.deployable:
        raise StartError(f"{plan.protocol} is a baseline for simulations and cannot be deployed")
    if not plan.met:
        raise StartError(_describe_shortfall(plan))
    _require_transport(plan, transport)


def _require_transport(plan: Plan, transport: Transport) -> None:
    """Bits travel as bits or shares; rows that are more than a bit are sealed for the analyzer."""
    release = plan.release(0)
    are_bits = [one.is_bits for one in channels(plan.shapes(0)).values()]
    fitting = {
        Transport.BITS: all(are_bits),
        Transport.SHARES: isinstance(release, AdditiveRelease),
        Transport.SEALED: not any(are_bits),
    }
    if not fitting[transport]:
        known = ", ".join(one.name.lower() for one, fits in fitting.items() if fits)
        raise StartError(
            f"transport must be one of {known} for {plan.protocol}, got {transport.name.lower()!r}"
        )
    plan_transport(transport, plan).length(0)


def _describe_shortfall(plan: Plan) -> str:
    """What was claimed and what was found."""
    asked = plan.budget
    if asked is None:
        return f"plan {plan.id} claims nothing"
    found = plan.promise.epsilon(asked.delta)
    return (
        f"plan {plan.id} claims epsilon {asked.epsilon:g} at delta {asked.delta:g}, "
        f"its guarantee computed again is epsilon {found:.4g} ({plan.promise.method})"
    )


def _read_plan(path: Path) -> Plan:
    try:
        return Plan.from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise StartError(f"cannot read the plan in {path}: {reason}") from error
    except DocumentError as error:
        raise StartError(f"{path}: {error}") from error


# Keys


def open_keyring(settings: Settings) -> Keyring:
    """The role's own keys, with an active pair."""
    return unlock_keyring(settings.keys, settings.role.value)


def unlock_keyring(keys: KeySettings, role: str) -> Keyring:
    """The keys of that role in their directory."""
    passphrase = read_secret(keys.passphrase_file, "passphrase")
    ring = Keyring.open(keys.directory, role, passphrase.encode())
    _ = ring.sealing_key, ring.signer
    return ring


def read_peer_keys(peer: PeerSettings) -> Trusted:
    """The public keys that the other role signs with."""
    return _read_public_keys("peer.signing_key", peer.signing_key, peer.signing_key_file)


def read_issuer_keys(settings: Settings) -> Trusted | None:
    """The public keys that account tokens are signed with; None where none are asked for."""
    accounts = settings.accounts
    if accounts is None or accounts.policy is not AccountPolicy.SIGNED:
        return None
    return _read_public_keys("accounts.issuer_key", accounts.issuer_key, accounts.issuer_key_file)


def _read_public_keys(name: str, told: str | None, file: Path | None) -> Trusted:
    """Keys in hex, from the settings or a file, one to a line."""
    text = told or ""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read {name}_file: {error}") from error
    try:
        found = signed_documents.trusted_keys(bytes.fromhex(line) for line in text.split())
    except ValueError as error:
        raise SettingsError(f"{name} must be 64 hex digits, see `keys list`") from error
    if not found:
        raise SettingsError(f"{name}_file has no key")
    return found


# The machine


def check_machine() -> None:
    """Refuse to run without randomness or with a clock that cannot be right."""
    check_entropy()
    check_clock()


def check_entropy() -> None:
    """The operating system's randomness is there, and is not a constant."""
    try:
        first, second = (os.getrandom(ENTROPY, os.GRND_NONBLOCK) for _ in range(2))
    except (OSError, AttributeError) as error:
        raise StartError(f"the operating system gives no randomness: {error}") from error
    if first == second or len(set(first)) == 1:
        raise StartError("the operating system's randomness repeats itself")


def check_clock() -> None:
    """The clock is not before this software existed; leases and keys end by it."""
    now = time.time()
    if now < RELEASED:
        raise StartError(f"the clock says {now:.0f} seconds since 1970, which has long passed")
