"""Checks of a role's surroundings, each with what to do if it fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from croupier.errors import CroupierError
from croupier.service import startup
from croupier.service.account_settings import OPEN_TO_ALL, AccountPolicy
from croupier.service.admin.service_status import TIMEOUT, ask_service, own_url
from croupier.service.admin.status import find_lost_database
from croupier.service.analyzer import parts as analyzer
from croupier.service.disk_space import free_bytes, is_elsewhere
from croupier.service.http import server
from croupier.service.http.reasons import Reason
from croupier.service.keys.keylist import EXPIRED, PENDING, KeyList
from croupier.service.settings import Role, Settings, read_secret, read_settings
from croupier.service.shuffler import parts as shuffler
from croupier.service.storage.database import Database, EmptyDatabaseError

LEAST_FREE = 2**30
MOST_SKEW = 60.0


class CheckError(CroupierError):
    """A check found something wrong; the text says what, and what to do."""


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check."""

    check: str
    ok: bool
    words: str


Check = Callable[[Settings], str]


def examine(path: Path) -> list[CheckResult]:
    """Every check, in the order in which one would look; one failure does not stop the others."""
    try:
        settings = read_settings(path)
    except CroupierError as error:
        return [CheckResult("settings", False, str(error))]
    first = CheckResult("settings", True, f"{path} is complete, for the {settings.role.value}")
    return [first, *(_run_check(name, check, settings) for name, check in _CHECKS.items())]


def _run_check(name: str, check: Check, settings: Settings) -> CheckResult:
    try:
        return CheckResult(name, True, check(settings))
    except (CroupierError, ValueError, OSError) as error:
        return CheckResult(name, False, " ".join(str(error).split()))


def _randomness(_settings: Settings) -> str:
    startup.check_entropy()
    return "the operating system gives random bytes"


def _clock(settings: Settings) -> str:
    """Against the past, and against the peer's clock where it answers."""
    startup.check_clock()
    told = _peer_date(settings)
    if told is None:
        return "is not in the past; the peer's could not be asked"
    apart = abs(told - time.time())
    if apart > MOST_SKEW:
        raise CheckError(f"is {apart:.0f} seconds from the peer's; set both by NTP")
    return f"is within {max(1.0, apart):.0f} seconds of the peer's"


def _peer_date(settings: Settings) -> float | None:
    try:
        date = _get(settings, "/healthz").headers["date"]
        return parsedate_to_datetime(date).timestamp()
    except (CroupierError, KeyError, ValueError):
        return None


def _plan(settings: Settings) -> str:
    plan = startup.read_checked_plan(settings)
    if plan.budget is None:
        return f"{plan.id} ({plan.protocol}) can be deployed, but promises nothing"
    return (
        f"{plan.id} ({plan.protocol}) meets epsilon {plan.budget.epsilon:g} at delta "
        f"{plan.budget.delta:g}"
    )


def _keys(settings: Settings) -> str:
    ring = startup.open_keyring(settings)
    states = [key.state for key in ring.list()]
    pending, expired = states.count(PENDING) // 2, states.count(EXPIRED) // 2
    return f"an active pair, {pending} pending, {expired} expired"


def _tokens(settings: Settings) -> str:
    if settings.peer.token_file is not None:
        read_secret(settings.peer.token_file, "service token")
        return "the service token is there, and others cannot read it"
    return "callers must show the service token; only its hash is here"


def _accounts(settings: Settings) -> str:
    """By whose word an upload is of an account."""
    accounts, issuers = settings.accounts, startup.read_issuer_keys(settings)
    if accounts is None:
        return "are the shuffler's to check"
    if accounts.policy is AccountPolicy.ANYONE:
        raise CheckError(f"accounts.policy is anyone: {OPEN_TO_ALL}; use signed or gateway")
    if issuers is None:
        return "whoever has the upload token says which account a report is of"
    return f"an upload must show a token for its account, signed by one of {len(issuers)} keys"


def _devices(settings: Settings) -> str:
    """What a hostile one can do."""
    if settings.trust_devices:
        return "all are trusted; with shares one that is hostile chooses the model"
    weight = startup.read_checked_plan(settings).report_weight
    return f"may be hostile; one report weighs {weight:.3g} honest ones at most"


def _database(settings: Settings) -> str:
    try:
        database = Database.open_read_only(settings.database, settings.role.value)
    except EmptyDatabaseError as empty:
        _require_in_order(find_lost_database(settings))
        return str(empty)
    try:
        _require_in_order(_set_back(settings, database))
    finally:
        database.close()
    return f"opens, is the {settings.role.value}'s and as far as it ever was"


def _require_in_order(set_back: str) -> None:
    if set_back:
        raise CheckError(f"{Reason.ROLLED_BACK.code}: {set_back}; see docs/deploy.md on this word")


def _set_back(settings: Settings, database: Database) -> str:
    """How the database contradicts what was noted beside the keys, in words."""
    plan_id = startup.read_checked_plan(settings).id
    if settings.role is Role.SHUFFLER:
        return shuffler.open_store(settings, database).set_back(plan_id)
    return analyzer.open_store(settings, database).set_back(plan_id)


def _disk(settings: Settings) -> str:
    free = free_bytes(settings.database, settings.keys.beside)
    if free < LEAST_FREE:
        raise CheckError(f"{free / 2**20:.0f} MiB are free; make at least {LEAST_FREE / 2**20:.0f}")
    more = "; the database is elsewhere, look at its disk there"
    return f"{free / 2**30:.1f} GiB are free{more if is_elsewhere(settings.database) else ''}"


def _files(settings: Settings) -> str:
    """That as many connections as the settings allow can be open at once."""
    allowed, wanted = server.file_limit(), settings.limits.connections + server.SPARE_FILES
    if allowed < wanted:
        raise CheckError(
            f"{allowed} files may be open, limits.connections needs {wanted}; raise LimitNOFILE, "
            "or ulimit -n"
        )
    return f"{settings.limits.connections} connections may be open at once"


def _own(settings: Settings) -> str:
    found = ask_service(own_url(settings))
    if found is None:
        return "takes any free port, so it cannot be asked"
    if not found.reachable:
        return "is not running"
    if found.troubled:
        raise CheckError(f"{found.words}; see docs/deploy.md on this word")
    return found.words


def _peer(settings: Settings) -> str:
    """That it answers, has the same plan, and signs with the key that we trust."""
    trusted = startup.read_peer_keys(settings.peer)
    if settings.peer.url is None:
        return f"{len(trusted)} signing keys are trusted; peer.url is not set, so it is not asked"
    other = Role.ANALYZER if settings.role is Role.SHUFFLER else Role.SHUFFLER
    KeyList.verify(_get(settings, "/v1/keys").content, other.value, trusted)
    plan = startup.read_checked_plan(settings)
    place = f"/v1/plans/{plan.id}" + ("" if other is Role.ANALYZER else "/batch")
    answer = _get(settings, place)
    if answer.status_code == Reason.WRONG_PLAN.status:
        raise CheckError(f"the {other.value} serves another plan; give both the same plan.json")
    return f"the {other.value} answers, has this plan, and signs with the trusted key"


def _access(settings: Settings) -> str:
    """That the analyzer takes our token: it is asked so, and counts nothing."""
    if settings.role is not Role.SHUFFLER or settings.peer.token_file is None:
        return "nothing to ask for"
    token = read_secret(settings.peer.token_file, "service token")
    plan = startup.read_checked_plan(settings)
    answer = _get(settings, f"/v1/plans/{plan.id}/batches/access", token)
    if answer.status_code == Reason.BAD_TOKEN.status:
        raise CheckError("the analyzer refuses the service token; its access.token_hash must fit")
    if not answer.is_success:
        raise CheckError(f"the analyzer answers {answer.status_code} when asked about the token")
    return "the analyzer takes the service token"


def _get(settings: Settings, place: str, token: str = "") -> httpx.Response:
    url = settings.peer.url
    if url is None:
        raise CheckError("peer.url is not set")
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        return httpx.get(url + place, headers=headers, timeout=TIMEOUT, trust_env=False)
    except httpx.HTTPError as error:
        kind = type(error).__name__
        raise CheckError(f"{url} does not answer ({kind}); start it, or check peer.url") from error


_CHECKS: dict[str, Check] = {
    "randomness": _randomness,
    "clock": _clock,
    "plan": _plan,
    "keys": _keys,
    "tokens": _tokens,
    "accounts": _accounts,
    "devices": _devices,
    "database": _database,
    "disk": _disk,
    "files": _files,
    "service": _own,
    "peer": _peer,
    "access": _access,
}
