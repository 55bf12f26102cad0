"""What the command line asks of the service, each in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from croupier.plan import Plan
from croupier.service.account_settings import OPEN_TO_ALL, AccountPolicy
from croupier.service.admin import decisions, doctor
from croupier.service.admin import status as operations
from croupier.service.admin.decisions import AdoptedDatabase, RetiredPlan
from croupier.service.admin.deployment_files import DeploymentFiles, write_deployment
from croupier.service.admin.status import PlanStatus
from croupier.service.analyzer.app import AnalyzerApp
from croupier.service.analyzer.parts import assemble_analyzer
from croupier.service.analyzer.quarantine import JudgedBatch
from croupier.service.console import analyzer_console, shuffler_console
from croupier.service.http import logs, server
from croupier.service.http.connections import ConnectionLimits
from croupier.service.settings import (
    SHARES_TRUST,
    LimitSettings,
    Role,
    Settings,
    read_settings,
)
from croupier.service.shuffler.app import ShufflerApp
from croupier.service.shuffler.parts import assemble_shuffler
from croupier.service.startup import StartError, require_deployable
from croupier.service.witness.app import WitnessApp, assemble_witness
from croupier.service.witness.settings import read_configuration
from croupier.wire import Transport

examine = doctor.examine


def initialise(
    directory: Path,
    plan: Plan,
    transport: str,
    accounts: str,
    *,
    all_honest: bool = False,
    trust_devices: bool = False,
) -> DeploymentFiles:
    """Directories for all roles, if the plan can be run like that.

    A plan that relies on all users being honest is refused unless ``all_honest`` says so too, and
    shares, which rely on all of their devices, unless ``trust_devices`` does.
    """
    if plan.mechanism.honest_fraction == 1 and not all_honest:
        raise ValueError(
            "honest_fraction must be below 1 where anybody may take part, got 1: make the plan "
            "with --honest-fraction 0.8, or say --all-honest"
        )
    known = {one.name.lower(): one for one in Transport}
    if transport not in known:
        raise ValueError(f"transport must be one of {', '.join(known)}, got {transport!r}")
    require_deployable(plan, known[transport])
    if known[transport] is Transport.SHARES and not trust_devices:
        raise ValueError(f'transport "shares" needs --trust-devices: {SHARES_TRUST}')
    policies = {one.value: one for one in AccountPolicy}
    if accounts not in policies:
        raise ValueError(f"accounts must be one of {', '.join(policies)}, got {accounts!r}")
    return write_deployment(directory, plan, known[transport], accounts=policies[accounts])


def status(path: Path) -> PlanStatus:
    """Where the plan of a role stands."""
    settings = read_settings(path)
    open_to_all = settings.accounts is not None and settings.accounts.policy is AccountPolicy.ANYONE
    return replace(operations.status(settings), warning=OPEN_TO_ALL if open_to_all else "")


def judge(path: Path, leave_out: Sequence[int], take_in: Sequence[int]) -> list[JudgedBatch]:
    """Decide about batches that came to an analyzer; every batch of its plan after that."""
    return decisions.judge(read_settings(path), leave_out, take_in)


def retire(path: Path, abandon: bool) -> RetiredPlan:
    """End the plan of a shuffler before its last batch."""
    return decisions.retire(read_settings(path), abandon)


def adopt(path: Path) -> AdoptedDatabase:
    """Go on with the database of a role whose ``never-back-up`` is lost."""
    return decisions.adopt(read_settings(path))


def serve(role: str, path: Path, announce: Callable[[str], None]) -> None:
    """Run a role until a signal ends it; ``announce`` hears the address it listens on."""
    settings = read_settings(path)
    if role != settings.role.value:
        raise StartError(f"{path} is for the {settings.role.value}, not for {role!r}")
    logs.set_up(settings.log_level)
    app = _app(settings)
    bound = server.listen(settings.listen.host, settings.listen.port)
    host, port = bound.getsockname()[:2]
    announce(f"http://{host}:{port}")
    log = logs.logger(role)
    log.info("started", port=port, plan=app.parts.plan.id, transport=settings.transport.name)
    limits = settings.limits
    server.raise_file_limit()
    if server.file_limit() < limits.connections + server.SPARE_FILES:
        log.warning("fewer files may be open than limits.connections needs")
    server.run(app, bound, app.drain, _connection_limits(limits))
    app.parts.database.close()
    log.info("stopped")


def witness(path: Path, announce: Callable[[str], None]) -> None:
    """Follow both services until a signal ends it; ``announce`` hears the address it listens on."""
    settings = read_configuration(path)
    logs.set_up(settings.log_level)
    app = WitnessApp(assemble_witness(settings))
    bound = server.listen(settings.listen.host, settings.listen.port)
    host, port = bound.getsockname()[:2]
    announce(f"http://{host}:{port}")
    log = logs.logger("witness")
    log.info("started", port=port, plan=app.parts.plan.id)
    server.run(app, bound, app.drain, _connection_limits(LimitSettings()))
    log.info("stopped")


def _connection_limits(limits: LimitSettings) -> ConnectionLimits:
    return ConnectionLimits(limits.connections, limits.header_seconds, limits.body_seconds)


def _app(settings: Settings) -> ShufflerApp | AnalyzerApp:
    if settings.role is Role.SHUFFLER:
        return ShufflerApp(assemble_shuffler(settings), pages=shuffler_console)
    return AnalyzerApp(assemble_analyzer(settings), pages=analyzer_console)
