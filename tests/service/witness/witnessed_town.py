"""A town with a witness, whose looks are taken when they are called for."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from croupier.plan import Plan
from croupier.service.admin.deployment_files import DeploymentFiles
from croupier.service.device.device import Device
from croupier.service.device.settings import DeviceSettings
from croupier.service.keys.keylist import SIGN, require_active
from croupier.service.keys.keyring import Keyring
from croupier.service.messages.witnessed_heads import WitnessedHead
from croupier.service.witness.app import WitnessApp, assemble_witness
from croupier.service.witness.settings import read_configuration
from croupier.wire import Transport

from ..in_process_deployment import ANALYZER, SHUFFLER, Town, town

WITNESS = 8103
PASSPHRASE = "the witness's own"

Alter = Callable[[httpx.Request, httpx.Response], httpx.Response]


class Ways(httpx.AsyncBaseTransport):
    """From the witness to both services, whose answers somebody may alter."""

    def __init__(self, place: Town) -> None:
        self._place = place
        self.alter: Alter | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        app = self._app(request.url.port)
        answer = await httpx.ASGITransport(app).handle_async_request(request)
        if self.alter is None:
            return answer
        await answer.aread()
        return self.alter(request, answer)

    def _app(self, port: int | None) -> Any:
        """As it is now: one that was restarted is another."""
        return {SHUFFLER: self._place.shuffler, ANALYZER: self._place.analyzer}[port or 0]


def write_witness(layout: DeploymentFiles, ports: tuple[int, int], port: int) -> Path:
    """The witness's directory beside those of the services; its settings."""
    home = layout.shuffler.parent.parent / "witness"
    home.mkdir(mode=0o700)
    for name, role in (("shuffler-key", "analyzer"), ("analyzer-key", "shuffler")):
        (home / name).write_text((layout.shuffler.parent.parent / role / name).read_text())
    (home / "passphrase").write_text(PASSPHRASE)
    (home / "passphrase").chmod(0o600)
    ring = Keyring.create(home / "keys", "witness", PASSPHRASE.encode())
    ring.new()
    public = require_active(ring.list(), SIGN).public.hex()
    (layout.shuffler.parent / "witness-key").write_text(public + "\n")
    with layout.shuffler.open("a") as file:
        address = f"http://127.0.0.1:{port}"
        file.write(f'\n[witness]\nurl = "{address}"\nsigning_key_file = "witness-key"\n')
    settings = home / "settings.toml"
    settings.write_text(
        f"""\
plan = "../shuffler/plan.json"
directory = "heads"
every = 0.1

[listen]
port = {port}

[keys]
directory = "keys"
passphrase_file = "passphrase"

[shuffler]
url = "http://127.0.0.1:{ports[0]}"
signing_key_file = "shuffler-key"

[analyzer]
url = "http://127.0.0.1:{ports[1]}"
signing_key_file = "analyzer-key"
"""
    )
    return settings


class WitnessedTown:
    """``look`` is the witness's, ``carry`` the courier's, which then mirrors what was signed."""

    def __init__(self, place: Town) -> None:
        self.place = place
        self._file = place.directory / "services" / "witness" / "settings.toml"
        self.ways = Ways(place)
        self.start()
        public = (place.directory / "services" / "shuffler" / "witness-key").read_text().strip()
        self.settings: DeviceSettings = dataclasses.replace(place.settings, witness_keys=(public,))

    def start(self) -> None:
        parts = assemble_witness(read_configuration(self._file))
        self.app = WitnessApp(parts, self.ways)
        self.place.wire.others[WITNESS] = httpx.ASGITransport(self.app)

    def stop(self) -> None:
        self.place.run(self.app.close())

    def look(self) -> WitnessedHead | None:
        """One look; what it notes is kept as when it runs by itself."""
        self.place.run(self.app.follower.try_look())
        return self.app.parts.heads.last

    def mirror(self) -> None:
        self.place.run(self.place.shuffler.courier.refresh_mirror())

    def get(self, path: str) -> httpx.Response:
        """From the witness."""

        async def ask() -> httpx.Response:
            way = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(transport=way, base_url="http://w") as client:
                return await client.get(path)

        return self.place.run(ask())

    def device(self, user: int) -> Device:
        """One that requires the witness."""
        return self.place.device(user, self.settings, f"careful {user}")

    @property
    def lines(self) -> list[str]:
        return (self._file.parent / "heads" / "heads.jsonl").read_text().splitlines()


@contextmanager
def witnessed_town(plan: Plan, transport: Transport = Transport.BITS) -> Iterator[WitnessedTown]:
    def configure(layout: DeploymentFiles) -> None:
        write_witness(layout, (SHUFFLER, ANALYZER), WITNESS)

    with town(plan, transport, configure=configure) as place:
        made = WitnessedTown(place)
        try:
            yield made
        finally:
            made.stop()
