"""What a running service says of itself, when its operator asks."""

from __future__ import annotations

from dataclasses import dataclass

import httpx

from croupier.service.http.reasons import Reason
from croupier.service.settings import Settings

TIMEOUT = 5.0


@dataclass(frozen=True)
class ServiceStatus:
    """What a running service says of itself, as far as it can be reached."""

    url: str
    reachable: bool
    ready: bool = False
    waiting_for: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def words(self) -> str:
        """In a sentence."""
        if not self.reachable:
            return f"does not answer at {self.url}"
        if not self.ready:
            return f"answers at {self.url}, but waits: {'; '.join(self.waiting_for)}"
        if self.trouble:
            return f"is ready at {self.url}, but the last try failed: {self.trouble}"
        return f"is ready at {self.url}"

    @property
    def troubled(self) -> bool:
        """Whether it runs, and something keeps it from its work."""
        return self.reachable and (not self.ready or bool(self.trouble))

    @property
    def rolled_back(self) -> str:
        """What it says of a database that was set back; empty if it says nothing of that."""
        mark = f"{Reason.ROLLED_BACK.code}: "
        return "; ".join(one.removeprefix(mark) for one in self.waiting_for if mark in one)


def ask_service(url: str | None) -> ServiceStatus | None:
    """A service's own word on whether it is ready; None if nobody knows where it is."""
    if url is None:
        return None
    try:
        told = httpx.get(f"{url}/readyz", timeout=TIMEOUT, trust_env=False).json()
        waiting = tuple(str(one) for one in told["waiting_for"])
        return ServiceStatus(url, True, bool(told["ready"]), waiting, str(told["trouble"]))
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return ServiceStatus(url, False)


def own_url(settings: Settings) -> str | None:
    """Where this role serves, unless it takes any free port."""
    listen = settings.listen
    return f"http://{listen.host}:{listen.port}" if listen.port else None
