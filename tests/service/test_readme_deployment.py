from __future__ import annotations

import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PORTS = (8101, 8102)


def commands() -> list[list[str]]:
    """The five commands of the README, as words."""
    text = (ROOT / "README.md").read_text()
    block = re.search(r"## Deployment in five commands\n.*?```bash\n(.*?)```", text, re.DOTALL)
    assert block is not None
    lines = block.group(1).replace("\\\n", " ").strip().splitlines()
    return [shlex.split(line, comments=True) for line in lines]


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def words(command: list[str]) -> list[str]:
    """The same, by this interpreter."""
    module = [sys.executable, "-m", "croupier.cli.main"]
    return [*(module if command[0] == "croupier" else [sys.executable]), *command[1:]]


def test_there_are_five_and_the_last_one_is_an_example_that_exists() -> None:
    plan, init, *serve, device = commands()
    assert (plan[1], init[1], [one[1:3] for one in serve]) == (
        "plan",
        "init",
        [["serve", "analyzer"], ["serve", "shuffler"]],
    )
    assert (ROOT / device[1]).exists()


@pytest.mark.slow
def test_the_five_commands_of_the_readme_work(tmp_path: Path) -> None:
    if any(answers(port) for port in PORTS):
        pytest.skip(f"a port of {PORTS} is taken")
    plan, init, analyzer, shuffler, device = (words(one) for one in commands())
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command in (plan, init):
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    serving = [
        subprocess.Popen(one, cwd=tmp_path, stderr=subprocess.DEVNULL)
        for one in (analyzer, shuffler)
    ]
    try:
        while not all(answers(port) for port in PORTS):
            assert [one.poll() for one in serving] == [None, None]
            time.sleep(0.1)
        done = subprocess.run(device, cwd=tmp_path, check=False, capture_output=True, text=True)
    finally:
        for one in serving:
            one.terminate()
        assert [one.wait(30) for one in serving] == [0, 0]
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("durably") == 60
    assert "model 2" in done.stdout
