"""Deployments to test on; keys and plans are made once for all tests of a transport."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from croupier.service.settings import Settings
from croupier.wire import Transport

from .deployment import Deployment, Roles, made_plan

Deploy = Callable[..., Deployment]

PROTOCOLS = {
    Transport.BITS: "vector-sum",
    Transport.SHARES: "vector-sum",
    Transport.SEALED: "amplified-gaussian",
}


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """A test that sets up logs does so for itself only."""
    root = logging.getLogger()
    before, level = root.handlers, root.level
    yield
    structlog.reset_defaults()
    root.handlers = before
    root.setLevel(level)


@pytest.fixture(scope="session")
def roles_of(folder: Path) -> Iterator[Callable[[Transport], Roles]]:
    """The roles of a transport."""
    made: dict[Transport, Roles] = {}

    def roles(transport: Transport) -> Roles:
        if transport not in made:
            plan = made_plan(PROTOCOLS[transport])
            made[transport] = Roles.make(folder / transport.name, plan, transport)
        return made[transport]

    yield roles
    for one in made.values():
        one.close()


@pytest.fixture
def deploy(
    roles_of: Callable[[Transport], Roles], places: Callable[[str], str]
) -> Iterator[Deploy]:
    """Makes deployments, begun unless told otherwise, that end with the test."""
    running: list[Deployment] = []

    def make(
        transport: Transport = Transport.BITS,
        kind: str = "sqlite",
        roles: Roles | None = None,
        change: Callable[[Settings], Settings] = lambda settings: settings,
        begun: bool = True,
    ) -> Deployment:
        made = Deployment(roles or roles_of(transport), lambda: places(kind), change)
        running.append(made)
        return made.begin() if begun else made

    yield make
    for one in running:
        one.close()


@pytest.fixture
def services(deploy: Deploy) -> Any:
    """Both services over SQLite, reports as bits, begun."""
    return deploy()
