"""What the analyzer's application is made of, from its settings."""

from __future__ import annotations

from dataclasses import dataclass

from croupier.plan import Plan
from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.keys.keyring import Keyring
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import Trusted
from croupier.service.messages.transports import PlanTransport, plan_transport
from croupier.service.settings import Role, Settings
from croupier.service.startup import (
    check_machine,
    open_keyring,
    read_checked_plan,
    read_peer_keys,
    require_role,
)
from croupier.service.storage.database import Database


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
    store = signing_analyzer_store(database, ring)
    store.open_plan(plan)
    way = plan_transport(settings.transport, plan)
    trusted = read_peer_keys(settings.peer)
    return AnalyzerParts(settings, plan, way, database, store, ring, trusted)


def signing_analyzer_store(database: Database, ring: Keyring) -> AnalyzerStore:
    """The analyzer's machine, which signs what it publishes."""
    return AnalyzerStore(
        database,
        publish=lambda model, entry: signed_documents.sign_model(model, entry, ring.signer),
    )
