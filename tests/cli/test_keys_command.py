from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from croupier.cli import keys
from croupier.cli.main import main


@pytest.fixture
def options(tmp_path: Path) -> list[str]:
    secret = tmp_path / "passphrase"
    secret.write_text("correct horse\n")
    directory = str(tmp_path / "keys")
    return ["--role", "shuffler", "--directory", directory, "--passphrase-file", str(secret)]


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["keys", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_keys_are_made_rotated_and_listed(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = answer(capsys, "new", *options)
    assert (made["kind"], made["role"]) == ("keys", "shuffler")
    assert [(key["use"], key["state"]) for key in made["keys"]] == [
        ("seal", "active"),
        ("sign", "active"),
    ]
    assert [key["state"] for key in answer(capsys, "new", *options)["keys"]] == ["pending"] * 2
    rotated = answer(capsys, "rotate", *options, "--grace-days", "1")
    assert [key["state"] for key in rotated["keys"]] == ["expired"] * 2 + ["active"] * 2
    assert answer(capsys, "list", *options) == rotated


def test_keys_whose_time_is_over_are_deleted_only_if_that_is_asked_for(
    options: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the machine may be days ahead, and a key is deleted for ever."""
    answer(capsys, "new", *options)
    answer(capsys, "new", *options)
    answer(capsys, "rotate", *options)
    answer(capsys, "new", *options)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 8 * 86400)
    kept = answer(capsys, "rotate", *options)
    assert [key["state"] for key in kept["keys"]] == ["expired"] * 4 + ["active"] * 2
    answer(capsys, "new", *options)
    left = answer(capsys, "rotate", *options, "--delete-expired")
    assert [key["state"] for key in left["keys"]] == ["expired"] * 4 + ["active"] * 2
    assert not {key["id"] for key in kept["keys"][:2]} & {key["id"] for key in left["keys"]}


def test_words_show_every_key_whole_on_a_line(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = answer(capsys, "new", *options)["keys"]
    answer(capsys, "new", *options)
    answer(capsys, "rotate", *options)
    assert main(["keys", "list", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for key, line in zip(made, lines[:2], strict=True):
        assert {key["id"], key["public"], "expired", "until"} <= set(line.split())


@pytest.mark.parametrize(
    ("command", "changes", "text"),
    [
        ("list", {}, "has no keys"),
        ("new", {"--role": "reader"}, "role must be one of"),
        ("new", {"--passphrase-file": "/nonexistent/file"}, "/nonexistent/file"),
        ("rotate", {}, "has no keys"),
    ],
)
def test_bad_input_is_one_line_and_exits_2(
    command: str,
    changes: dict[str, str],
    text: str,
    options: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = dict(zip(options[::2], options[1::2], strict=True)) | changes
    assert main(["keys", command, *(word for pair in told.items() for word in pair)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_an_empty_passphrase_is_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(options[-1]).write_text("\n")
    assert main(["keys", "new", *options]) == 2
    assert "passphrase-file must not be empty" in capsys.readouterr().err


def test_the_other_roles_keys_are_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, "new", *options)
    assert main(["keys", "new", "--role", "analyzer", *options[2:]]) == 2
    assert "has keys of the shuffler, not analyzer" in capsys.readouterr().err


def test_every_command_has_an_example_in_its_help() -> None:
    names = {"new": "new", "rotate": "rotate", "list_keys": "list"}
    for command in keys.app.registered_commands:
        assert command.callback is not None
        name = names[command.callback.__name__]
        assert f"Example: croupier keys {name} " in (command.callback.__doc__ or "")


def test_without_the_extra_other_commands_work_and_this_one_says_what_to_install(
    options: list[str],
) -> None:
    code = (
        "import sys\n"
        "sys.modules['cryptography'] = None\n"
        "from croupier.cli.main import main\n"
        "assert main(['protocols', '--json']) == 0\n"
        f"sys.exit(main(['keys', 'new', *{options!r}]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install 'croupier[service]'" in done.stderr
