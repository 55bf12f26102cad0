"""The commands in processes of their own: start, answer, drain, and what operators are told."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from croupier.cli.main import main
from croupier.client import Client
from croupier.plan import Plan
from croupier.service.account_settings import AccountPolicy
from croupier.service.admin.deployment_files import write_deployment
from croupier.service.http import server
from croupier.service.messages.records import Address, make_record
from croupier.service.messages.sealing import Binding
from croupier.service.messages.signed_documents import verify_model
from croupier.service.settings import Settings, read_settings
from croupier.service.startup import read_peer_keys
from croupier.service.storage.database import Database
from croupier.wire import Transport

from .deployment import Roles, account, made_plan

PATIENCE = 60.0


def free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


class Process:
    """``croupier serve`` in a process that ends with the test."""

    def __init__(self, role: str, config: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "croupier.cli.main",
            "serve",
            role,
            "--config",
            str(config),
        ]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([*command, "--json"], stdout=pipe, stderr=pipe, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(self.end(signal.SIGKILL)[1])
        self.url: str = json.loads(line)["url"]

    def until_ready(self) -> Process:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = httpx.get(f"{self.url}/readyz", trust_env=False)
            if answer.is_success:
                return self
            time.sleep(0.05)
        raise TimeoutError(answer.text)

    def helper(self) -> Path:
        """The process that opens seals for it, once it can."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if "croupier_openers 1.0" in httpx.get(f"{self.url}/metrics", trust_env=False).text:
                lists = Path(f"/proc/{self._process.pid}/task").glob("*/children")
                (child,) = (child for one in lists for child in one.read_text().split())
                return Path("/proc") / child
            time.sleep(0.05)
        raise TimeoutError("no helper is ready")

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Exit code, and what was logged."""
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            _, errors = self._process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise
        return self._process.returncode, errors


@pytest.fixture
def processes() -> Iterator[Callable[[str, Path], Process]]:
    started: list[Process] = []

    def start(role: str, config: Path) -> Process:
        started.append(Process(role, config))
        return started[-1]

    yield start
    for one in started:
        one.end(signal.SIGKILL)


def records(
    plan: Plan, settings: Settings, shuffler: str, analyzer: str, users: range
) -> list[bytes]:
    """What devices upload that know only the two addresses and the analyzer's key."""
    get: Callable[[str], httpx.Response] = lambda url: httpx.get(url, trust_env=False)  # noqa: E731
    told = get(f"{shuffler}/v1/plans/{plan.id}/batch").json()
    text = get(f"{analyzer}/v1/plans/{plan.id}/model").content
    model = verify_model(text, read_peer_keys(settings.peer)).model
    binding = Binding(Transport.BITS, plan.id, told["batch"], model.version, model.hash)
    made = []
    for user in users:
        device = Client(plan)
        device.update(model, told["batch"])
        messages = device.report([0.3, 0.4], 1.0).messages
        made.append(
            make_record(plan, messages, Address(binding, bytes.fromhex(told["key"]), account(user)))
        )
    return made


class Uploads:
    """Devices that upload one record after the other until they cannot."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.accepted: set[bytes] = set()
        self.refused: set[str] = set()

    def start(self, sent: list[bytes], threads: int = 4) -> list[threading.Thread]:
        made = [
            threading.Thread(target=self._send, args=(sent[number::threads],))
            for number in range(threads)
        ]
        for one in made:
            one.start()
        return made

    def _send(self, part: list[bytes]) -> None:
        with httpx.Client(trust_env=False) as client:
            for record in part:
                try:
                    answer = client.post(self._place, content=record)
                except httpx.HTTPError as error:
                    self.refused.add(type(error).__name__)
                    return
                if answer.status_code == 201:
                    self.accepted.add(record)
                else:
                    self.refused.add(answer.json()["type"])


GONE = {"urn:croupier:problem:draining", "ConnectError", "RemoteProtocolError", "ReadError"}


def test_two_processes_learn_and_drain_without_losing_what_they_accepted(
    tmp_path: Path, processes: Callable[[str, Path], Process]
) -> None:
    """The shuffler is told to stop under load, starts again, and completes its batch."""
    plan = made_plan(batch_size=400, horizon=800)
    layout = write_deployment(
        tmp_path / "roles", plan, Transport.BITS, free_ports(), accounts=AccountPolicy.ANYONE
    )
    with layout.shuffler.open("a") as file:
        file.write("[courier]\nevery = 0.05\nfirst_wait = 0.05\n[limits]\nopeners = 1\n")
    analyzer = processes("analyzer", layout.analyzer)
    shuffler = processes("shuffler", layout.shuffler).until_ready()
    settings = read_settings(layout.shuffler)
    sent = records(plan, settings, shuffler.url, analyzer.url, range(400))
    place = f"{shuffler.url}/v1/plans/{plan.id}/reports"
    uploads = Uploads(place)
    threads = uploads.start(sent[:360])
    while len(uploads.accepted) < 60:
        time.sleep(0.005)
    code, logged = shuffler.end(signal.SIGTERM)
    for thread in threads:
        thread.join()
    assert code == 0
    assert 60 <= len(uploads.accepted) < 360
    assert uploads.refused <= GONE
    assert kept(settings) >= len(uploads.accepted)
    assert "127.0.0.1" not in logged
    assert json.loads(logged.splitlines()[-1])["event"] == "stopped"

    shuffler = processes("shuffler", layout.shuffler).until_ready()
    helper = shuffler.helper()
    for start in (0, 200):
        told = httpx.post(place, content=b"".join(sent[start : start + 200]), trust_env=False)
        assert told.json() == {"accepted": 200, "failures": []}
    await_model(f"{analyzer.url}/v1/plans/{plan.id}/model", 1)
    assert helper.exists()
    code, logged = shuffler.end(signal.SIGINT)
    assert (code, helper.exists(), "opener" in logged) == (0, False, False)
    code, logged = analyzer.end()
    assert code == 0
    assert "127.0.0.1" not in logged


def await_model(url: str, version: int) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = httpx.get(url, trust_env=False).json()["content"]["model"]["version"]
        if found == version:
            return
        time.sleep(0.05)
    raise TimeoutError(f"model {found} is published, {version} was expected")


def kept(settings: Settings) -> int:
    database = Database.open(settings.database, "shuffler")
    with database.reading() as transaction:
        row = transaction.one("SELECT count(*) FROM reports")
    database.close()
    assert row is not None
    return int(row[0])


# The commands


@pytest.fixture
def layout_files(roles_of: Callable[[Transport], Roles], tmp_path: Path) -> tuple[Path, Path]:
    """Settings of both roles on databases of their own, on ports that nobody listens on."""
    directory = roles_of(Transport.BITS).directory
    paths = []
    for role, port in zip(("shuffler", "analyzer"), free_ports(), strict=True):
        home = directory / role
        text = (home / "settings.toml").read_text()
        text = text.replace(f'"{role}.db"', f'"{tmp_path / role}.db"')
        text = text.replace("[keys]", f'[keys]\nnever_back_up = "{tmp_path / "beside"}"')
        path = home / f"{tmp_path.name}.toml"
        path.touch(mode=0o600)
        # Whole numbers only: the hash of a token may have the same digits in it.
        path.write_text(re.sub(r"\b810[12]\b", str(port), text))
        paths.append(path)
    return paths[0], paths[1]


def test_init_writes_what_serve_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(made_plan(honest_fraction=0.8).to_json())
    told = ["init", str(tmp_path / "made"), "--plan", str(plan)]
    assert main([*told, "--json"]) == 0
    paths = json.loads(capsys.readouterr().out)
    assert read_settings(Path(paths["shuffler"])).transport is Transport.BITS
    assert main(told) == 2
    assert "File exists" in capsys.readouterr().err
    assert main(["init", str(tmp_path / "x"), "--plan", str(plan), "--transport", "sealed"]) == 2
    assert "transport must be one of bits, shares" in capsys.readouterr().err
    assert main(["init", str(tmp_path / "x"), "--plan", str(plan), "--transport", "no"]) == 2
    assert "transport must be one of bits, shares, sealed, got 'no'" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_serve_refuses_settings_of_the_other_role(
    layout_files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "analyzer", "--config", str(layout_files[0])]) == 2
    said = capsys.readouterr().err
    assert "is for the shuffler, not for 'analyzer'" in said
    assert said.count("\n") == 1


def test_status_and_doctor_of_services_that_do_not_run(
    layout_files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    shuffler, analyzer = layout_files
    assert main(["status", "--config", str(shuffler)]) == 1
    said = capsys.readouterr().out
    assert "The plan has not begun" in said
    assert "Start the shuffler" in said
    assert main(["status", "--config", str(analyzer), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["answer"] == "The plan has not begun."
    assert main(["doctor", "--config", str(shuffler)]) == 1
    said = capsys.readouterr().out
    assert "ok   keys" in said
    assert "FAIL peer" in said
    assert "does not answer (ConnectError); start it, or check peer.url" in said


def test_doctor_names_what_is_wrong(
    layout_files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--config", str(tmp_path / "none.toml")]) == 1
    assert "FAIL settings" in capsys.readouterr().out
    broken = layout_files[0]
    text = broken.read_text().replace('"passphrase"', '"service-token"')
    broken.write_text(text.replace('"plan.json"', '"none.json"'))
    assert main(["doctor", "--config", str(broken), "--json"]) == 1
    found = {one["check"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    assert not found["plan"]["ok"]
    assert "none.json" in found["plan"]["words"]
    assert "the passphrase is wrong" in found["keys"]["words"]
    assert "none.json" in found["database"]["words"]
    assert found["disk"]["ok"]


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "croupier.service.admin.commands", None)
    monkeypatch.delattr("croupier.service.admin.commands", raising=False)
    assert main(["status", "--config", str(tmp_path / "x.toml")]) == 2
    assert "pip install 'croupier[service]'" in capsys.readouterr().err


def test_whoever_connects_before_the_server_runs_is_kept_waiting() -> None:
    bound = server.listen("127.0.0.1", 0)
    with bound, socket.create_connection(bound.getsockname(), timeout=PATIENCE) as early:
        taken, address = bound.accept()
        assert address == early.getsockname()
        taken.close()


def test_a_port_that_is_taken_is_named(
    layout_files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = layout_files[1]
    port = read_settings(path).listen.port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert main(["serve", "analyzer", "--config", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in said
