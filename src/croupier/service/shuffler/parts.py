"""What the shuffler's application is made of, from its settings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from croupier.plan import Plan
from croupier.service.keys.keyring import Keyring
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import Trusted
from croupier.service.messages.transports import PlanTransport, plan_transport
from croupier.service.settings import Role, Settings, ShortBatchPolicy, read_secret
from croupier.service.shuffler.batch_keys import BatchKeys
from croupier.service.shuffler.newcomer_limit import explain_unfillable
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.startup import (
    StartError,
    check_machine,
    open_keyring,
    read_checked_plan,
    read_issuer_keys,
    read_peer_keys,
    require_role,
)
from croupier.service.storage.database import Database
from croupier.service.storage.progress import ProgressFiles


@dataclass(frozen=True)
class ShufflerParts:
    """What the shuffler's application is made of."""

    settings: Settings
    plan: Plan
    transport: PlanTransport
    database: Database
    store: ShufflerStore
    keyring: Keyring
    trusted: Trusted
    peer_url: str
    peer_token: str
    issuers: Trusted | None


def assemble_shuffler(settings: Settings) -> ShufflerParts:
    """Everything that the shuffler needs, checked."""
    require_role(settings, Role.SHUFFLER)
    check_machine()
    plan = read_checked_plan(settings)
    ring = open_keyring(settings)
    database = Database.open(settings.database, Role.SHUFFLER.value)
    require_fillable(settings, plan, database)
    store = open_store(
        settings, database, sign=lambda body: signed_documents.sign_batch(body, ring.signer)
    )
    url, token_file = settings.peer.url, settings.peer.token_file
    if url is None or token_file is None:
        raise StartError("a shuffler needs peer.url and peer.token_file")
    return ShufflerParts(
        settings,
        plan,
        plan_transport(settings.transport, plan),
        database,
        store,
        ring,
        read_peer_keys(settings.peer),
        url,
        read_secret(token_file, "service token"),
        read_issuer_keys(settings),
    )


def require_fillable(settings: Settings, plan: Plan, database: Database) -> None:
    """Refuse a limit of new accounts under which a batch would wait for ever."""
    limit = settings.accounts.new_per_batch if settings.accounts else None
    if limit is None:
        return
    rules = settings.batches
    floor = rules.floor if rules.short is ShortBatchPolicy.PAD else 1.0
    with database.reading() as transaction:
        found = explain_unfillable(transaction, plan, limit, floor, settings.succeeds)
    if found:
        raise StartError(found)


def open_store(settings: Settings, database: Database, **options: Any) -> ShufflerStore:
    """The shuffler's machine over its database and what is kept beside the keyring."""
    beside = settings.keys.beside
    return ShufflerStore(
        database,
        BatchKeys(beside),
        ProgressFiles(beside),
        transport=partial(plan_transport, settings.transport),
        newcomers=settings.accounts.new_per_batch if settings.accounts else None,
        **options,
    )
