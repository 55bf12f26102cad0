"""What the analyzer's application is made of, from its settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from croupier.plan import Plan
from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.http.reasons import Reason
from croupier.service.keys.keyring import Keyring
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import Trusted
from croupier.service.messages.transports import PlanTransport, plan_transport
from croupier.service.settings import Role, Settings
from croupier.service.startup import (
    StartError,
    check_machine,
    open_keyring,
    read_checked_plan,
    read_peer_keys,
    require_role,
)
from croupier.service.storage.database import Database
from croupier.service.storage.progress import ProgressFiles


@dataclass(frozen=True)
class AnalyzerParts:
    """What the analyzer's application is made of."""

    settings: Settings
    plan: Plan
    transport: PlanTransport
    database: Database
    store: AnalyzerStore
    keyring: Keyring
    trusted: Trusted


def assemble_analyzer(settings: Settings) -> AnalyzerParts:
    """Everything that the analyzer needs, checked, its plan begun."""
    require_role(settings, Role.ANALYZER)
    check_machine()
    plan = read_checked_plan(settings)
    ring = open_keyring(settings)
    database = Database.open(settings.database, Role.ANALYZER.value)
    store = open_store(
        settings,
        database,
        publish=lambda model, entry: signed_documents.sign_model(model, entry, ring.signer),
    )
    _open_plan(store, plan)
    way = plan_transport(settings.transport, plan)
    trusted = read_peer_keys(settings.peer)
    return AnalyzerParts(settings, plan, way, database, store, ring, trusted)


def _open_plan(store: AnalyzerStore, plan: Plan) -> None:
    """Begin the plan. Over a database that was set back we start, say so, and learn nothing."""
    found = store.set_back(plan.id)
    if not found:
        store.open_plan(plan)
    elif plan.id not in store.plans():
        raise StartError(f"{Reason.ROLLED_BACK.code}: {found}")


def open_store(settings: Settings, database: Database, **options: Any) -> AnalyzerStore:
    """The analyzer's machine over its database and what is kept beside the keyring."""
    return AnalyzerStore(database, ProgressFiles(settings.keys.beside), **options)
