"""What an operator decides about a plan, beside a service that may be running."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from croupier.service.admin.status import LOST
from croupier.service.analyzer import parts as analyzer
from croupier.service.analyzer.quarantine import JudgedBatch, Standing
from croupier.service.http.reasons import Refusal
from croupier.service.settings import Role, Settings
from croupier.service.shuffler import parts as shuffler
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.startup import StartError, read_checked_plan
from croupier.service.storage.database import Database
from croupier.service.toml_tables import SettingsError


@dataclass(frozen=True)
class RetiredPlan:
    """A plan that was ended early, and how many reports of its newest batch were dropped."""

    plan: str
    dropped: int


def retire(settings: Settings, abandon: bool = False) -> RetiredPlan:
    """End the shuffler's plan, ``abandon`` a batch that is on its way; again changes nothing."""
    if settings.role is not Role.SHUFFLER:
        raise SettingsError("a plan is retired at the shuffler, these are the analyzer's settings")
    plan = read_checked_plan(settings)
    database = Database.open(settings.database, settings.role.value)
    try:
        store = shuffler.open_store(settings, database)
        if plan.id not in {state.id for state in store.plans()}:
            return _retire_lost(store, plan.id, abandon)
        return RetiredPlan(plan.id, store.retire(plan.id, abandon))
    except Refusal as refused:
        advice = "try again in a moment, or give it up with --abandon"
        raise StartError(f"{refused}; {advice}") from refused
    finally:
        database.close()


def _retire_lost(store: ShufflerStore, plan_id: str, abandon: bool) -> RetiredPlan:
    """Of a plan whose database is gone, keys may be left that open copies of it."""
    found = store.set_back(plan_id)
    if not found:
        raise StartError(f"plan {plan_id} has not begun here, there is nothing to retire")
    if not abandon:
        raise StartError(f"{found}. {LOST}")
    store.destroy_keys(plan_id)
    return RetiredPlan(plan_id, 0)


@dataclass(frozen=True)
class AdoptedDatabase:
    """Plans that go on without what was noted of them, and how many reports that cost."""

    plans: tuple[str, ...]
    dropped: int


def adopt(settings: Settings) -> AdoptedDatabase:
    """Take a role's database for the newest there is, its ``never-back-up`` being lost."""
    plan = read_checked_plan(settings)
    database = Database.open(settings.database, settings.role.value)
    try:
        at_shuffler = settings.role is Role.SHUFFLER
        adopted = (_adopt_at_shuffler if at_shuffler else _adopt_at_analyzer)(settings, database)
        if plan.id not in adopted.plans:
            raise StartError(f"plan {plan.id} is not in this database, there is nothing to adopt")
        return adopted
    except Refusal as refused:
        raise StartError(str(refused)) from refused
    finally:
        database.close()


def _adopt_at_shuffler(settings: Settings, database: Database) -> AdoptedDatabase:
    store = shuffler.open_store(settings, database)
    plans = tuple(state.id for state in store.plans())
    return AdoptedDatabase(plans, sum(store.adopt(one) for one in plans))


def _adopt_at_analyzer(settings: Settings, database: Database) -> AdoptedDatabase:
    store = analyzer.open_store(settings, database)
    plans = tuple(store.plans())
    for plan_id in plans:
        store.adopt(plan_id)
    return AdoptedDatabase(plans, 0)


def judge(
    settings: Settings, leave_out: Sequence[int], take_in: Sequence[int]
) -> list[JudgedBatch]:
    """Decide about batches, beside a service that may be running; every batch after that."""
    if settings.role is not Role.ANALYZER:
        raise SettingsError("batches are judged at the analyzer, these are the shuffler's settings")
    if both := set(leave_out) & set(take_in):
        raise SettingsError(f"batch {min(both)} cannot be left out and taken in")
    plan = read_checked_plan(settings)
    database = Database.open(settings.database, settings.role.value)
    try:
        store = analyzer.open_store(settings, database)
        wanted = dict.fromkeys(leave_out, Standing.LEFT_OUT) | dict.fromkeys(take_in, Standing.IN)
        for index, standing in wanted.items():
            store.decide_standing(plan.id, index, standing)
        return store.judged(plan.id)
    except Refusal as refused:
        raise StartError(str(refused)) from refused
    finally:
        database.close()
