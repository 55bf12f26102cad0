"""A crowd of which a tenth is hostile: nothing that they send is counted, nobody else is hurt."""

from __future__ import annotations

import dataclasses
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from croupier import wire
from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.plan import Plan
from croupier.service.demo.local_services import LocalServices, fetch_ledger
from croupier.service.demo.simulated_users import DeviceRound, SimulatedUsers, WorkerTask, play_all
from croupier.service.device.settings import DeviceSettings
from croupier.shuffler import Batch, gather
from croupier.wire import Transport

DIM, ARMS, SEED = 3, 5, 0
HOSTILE_THREADS = 4
MOST_GROWTH = 64 * 2**20
"""Bytes by which a server may grow under attack: its queue and its caches are bounded."""


def free_plan(users: int, batches: int) -> Plan:
    """Without noise a single report too many or too few shows in the model."""
    return Plan.calibrate(
        "noiseless", dim=DIM, batches="fixed", batch_size=users, horizon=users * batches
    )


@dataclass
class Wiretap:
    """What honest devices have uploaded: the worst that an attacker could get hold of."""

    records: list[bytes] = field(default_factory=list)

    def hear(self, request: httpx.Request) -> None:
        if request.method == "POST":
            self.records.append(request.read())


@dataclass
class Attacker:
    """One hostile device; what it does next is drawn."""

    settings: DeviceSettings
    wiretap: Wiretap
    http: httpx.Client
    draw: random.Random
    answers: Counter[str] = field(default_factory=Counter)

    def attack(self) -> None:
        kind: Callable[[], bytes] = self.draw.choice(
            [
                self.garbage,
                self.nothing,
                self.flood,
                self.too_long,
                self.replay,
                self.replay,
                self.wrong_length,
                self.other_bytes_for_a_known_id,
                self.garbage_in_somebodys_name,
                self.another_version,
            ]
        )
        place = f"{self.settings.shuffler_url}/v1/plans/{self.settings.plan_id}/reports"
        try:
            found = self.http.post(place, content=kind())
        except httpx.HTTPError as error:
            self.answers[type(error).__name__] += 1
            return
        reason = "accepted" if found.is_success else found.json()["type"].rpartition(":")[2]
        for failure in found.json().get("failures", []):
            self.answers[failure["reason"]] += 1
        self.answers[reason] += 1

    def heard(self) -> bytes:
        return self.draw.choice(self.wiretap.records)

    def garbage(self) -> bytes:
        return self.draw.randbytes(self.draw.randrange(1, 2000))

    def nothing(self) -> bytes:
        return b""

    def flood(self) -> bytes:
        """As many records as are taken at once, all of one account, none of which opens."""
        record = bytearray(self.heard())
        return b"".join(bytes(record[:-1] + bytes([self.draw.randrange(256)])) for _ in range(200))

    def too_long(self) -> bytes:
        return bytes(2**20 + 1)

    def replay(self) -> bytes:
        return self.heard()

    def wrong_length(self) -> bytes:
        return self.heard() + b"\x01" if self.draw.random() < 0.5 else self.heard()[:-1]

    def other_bytes_for_a_known_id(self) -> bytes:
        record = bytearray(self.heard())
        record[-1] ^= 1
        return bytes(record)

    def garbage_in_somebodys_name(self) -> bytes:
        record = self.heard()
        start = wire.record_length(0)
        account = start - wire.ACCOUNT
        fresh = account - wire.REPORT_ID
        name = self.draw.randbytes(wire.REPORT_ID)
        sealed = self.draw.randbytes(len(record) - start)
        return record[:fresh] + name + record[account:start] + sealed

    def another_version(self) -> bytes:
        return bytes([self.draw.randrange(2, 256)]) + self.heard()[1:]


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return 1024 * int(found.group(1))


@dataclass
class Battle:
    """What happened: what devices did, what attackers were told, how the shuffler grew."""

    played: list[DeviceRound]
    answers: Counter[str]
    growth: int
    model: str
    entries: int


def fight(directory: Path, plan: Plan, honest: int, hostile: int) -> Battle:
    with LocalServices(directory / "services", plan, Transport.SEALED) as services:
        settings = dataclasses.replace(services.settings, allow_unproved=True)
        pid = services.processes["shuffler"].pid
        wiretap, over = Wiretap(), threading.Event()
        attackers = [
            Attacker(settings, wiretap, httpx.Client(trust_env=False), random.Random(index))
            for index in range(hostile)
        ]
        threads = [
            threading.Thread(target=_siege, args=(attackers[start::HOSTILE_THREADS], over))
            for start in range(HOSTILE_THREADS)
        ]
        before = resident(pid)
        for thread in threads:
            thread.start()
        try:
            played = _play(WorkerTask(settings, str(directory), DIM, ARMS, SEED, honest), wiretap)
        finally:
            over.set()
            for thread in threads:
                thread.join()
        while len(entries := fetch_ledger(settings)) < plan.schedule.batches:
            services.require_running()
        services.require_running()
        growth = resident(pid) - before
        place = f"{settings.shuffler_url}/v1/plans/{plan.id}/model"
        model = httpx.get(place, trust_env=False).json()["content"]["model"]["hash"]
    for attacker in attackers:
        attacker.http.close()
    answers = sum((attacker.answers for attacker in attackers), Counter[str]())
    return Battle(played, answers, growth, model, len(entries))


def _siege(attackers: list[Attacker], over: threading.Event) -> None:
    while not over.is_set():
        for attacker in attackers:
            if attacker.wiretap.records:
                attacker.attack()


def _play(people: WorkerTask, wiretap: Wiretap) -> list[DeviceRound]:
    """The honest ones, overheard."""
    with httpx.Client(trust_env=False, event_hooks={"request": [wiretap.hear]}) as http:
        return list(play_all(people, http))


def expected_model(plan: Plan, played: list[DeviceRound]) -> str:
    """What the same reports teach without a network."""
    people, alone = SimulatedUsers(DIM, ARMS, SEED), Analyzer(plan)
    for index in range(plan.schedule.batches):
        members = [one for one in played if one.batch == index]
        reports = []
        for one in members:
            features, means, uniform = people.user(one.user)
            reward = float(uniform < means[one.arm])
            reports.append(Client(plan).report(features[one.arm], reward).messages)
        alone.receive(Batch(plan.id, index, gather(reports)))
    return alone.model.hash


def check(battle: Battle, plan: Plan, honest: int) -> None:
    assert [one.outcome for one in battle.played] == ["accepted"] * honest
    sizes = Counter(one.batch for one in battle.played)
    assert sizes == {index: plan.users(index) for index in range(plan.schedule.batches)}
    assert battle.entries == plan.schedule.batches
    assert battle.model == expected_model(plan, battle.played)
    assert battle.growth < MOST_GROWTH


REFUSALS = {"bad-version", "wrong-length", "body-too-large", "id-conflict"}


def test_sixty_devices_of_which_six_are_hostile(tmp_path: Path) -> None:
    plan = free_plan(18, 3)
    battle = fight(tmp_path, plan, honest=54, hostile=6)
    check(battle, plan, 54)
    assert battle.answers.total() > 50


@pytest.mark.slow
def test_a_thousand_devices_of_which_a_hundred_are_hostile(tmp_path: Path) -> None:
    plan = free_plan(150, 6)
    battle = fight(tmp_path, plan, honest=900, hostile=100)
    check(battle, plan, 900)
    assert battle.answers.keys() >= REFUSALS | {"accepted", "undecryptable"}
    print(battle.answers, f"{battle.growth / 2**20:.1f} MiB")
