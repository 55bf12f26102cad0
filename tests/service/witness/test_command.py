"""``croupier witness`` beside both services, each a process of its own."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import time
from pathlib import Path

import httpx
import numpy as np

from croupier.plan import Plan
from croupier.service.admin.deployment_files import DeploymentFiles
from croupier.service.demo.local_services import LocalServices, end_process, start_process
from croupier.service.device.device import Device
from croupier.service.device.http import LaterRefusal
from croupier.service.device.upload import UploadOutcome

from .witnessed_town import write_witness

ARMS = np.array([[0.6, 0.0], [0.0, 0.6]])
DEADLINE = 60.0


def started(settings: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The process, and the address that it announces."""
    command = ["witness", "--config", str(settings)]
    process = start_process("croupier.cli.main", command, subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline().decode()
    return process, line.split()[4].rstrip(";")


def await_head(url: str, plan: Plan, version: int) -> None:
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        answer = httpx.get(f"{url}/v1/plans/{plan.id}/head", trust_env=False)
        if answer.is_success and answer.json()["content"]["version"] == version:
            return
        time.sleep(0.05)
    raise TimeoutError(answer.text)


def test_three_processes_and_a_device_that_requires_all_of_them(tmp_path: Path) -> None:
    plan = Plan.calibrate(
        "vector-sum", dim=2, batches="fixed", batch_size=2, horizon=4, epsilon=4.0, delta=1e-2
    )
    services = LocalServices(tmp_path / "services", plan)
    homes = [tmp_path / "services" / role / "settings.toml" for role in ("shuffler", "analyzer")]
    ports = [int(services.url(role).rpartition(":")[2]) for role in ("shuffler", "analyzer")]
    settings = write_witness(DeploymentFiles(*homes), (ports[0], ports[1]), 0)
    witness, url = started(settings)
    text = homes[0].read_text().replace('url = "http://127.0.0.1:0"', f'url = "{url}"')
    homes[0].write_text(text)
    try:
        public = (homes[0].parent / "witness-key").read_text().strip()
        careful = dataclasses.replace(services.settings, witness_keys=(public,))
        with services:
            for user in range(4):
                with Device(careful, bytes([user]) * 32, tmp_path / str(user)) as device:
                    end = time.monotonic() + DEADLINE
                    await_head(url, plan, user // 2)
                    while not _has_model(device, user // 2):
                        assert time.monotonic() < end
                    device.reward(device.choose(ARMS), 1.0)
                    assert device.flush(DEADLINE) is UploadOutcome.ACCEPTED
            await_head(url, plan, 2)
        witness.send_signal(signal.SIGTERM)
        assert witness.wait(DEADLINE) == 0
    finally:
        end_process(witness)
        assert witness.stdout is not None
        witness.stdout.close()
    lines = (settings.parent / "heads" / "heads.jsonl").read_text().splitlines()
    # A look between a ledger's entry and the batch after it signs a longer ledger of one model.
    versions = [json.loads(line)["content"]["version"] for line in lines]
    assert sorted(versions) == versions
    assert set(versions) == {0, 1, 2}


def _has_model(device: Device, version: int) -> bool:
    """Whether the witness's word has reached the shuffler, and so this device."""
    try:
        return device.refresh().version == version
    except LaterRefusal:
        time.sleep(0.05)
        return False
