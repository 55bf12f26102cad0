"""The page that leads through the service names files that are there, and every step's."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from croupier import service

ROOM = Path(service.__file__).parent
PAGE = (ROOM / "README.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+(?:\.py|/))`", PAGE)
STEPS = re.findall(r"(?m)^(\d+)\. `([\w/]+\.py)`", PAGE)

BESIDE_THE_PATH = {
    "analyzer/metrics.py",
    "analyzer/model_age.py",
    "device/settings.py",
    "shuffler/batch_status.py",
    "shuffler/metrics.py",
    "shuffler/rows.py",
}
"""Values and numbers that steps share; no step of their own."""


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_what_the_page_names_is_there(name: str) -> None:
    path = ROOM / name
    assert path.is_dir() if name.endswith("/") else path.is_file()


def test_steps_are_numbered_without_a_gap() -> None:
    assert [int(number) for number, _ in STEPS] == list(range(1, len(STEPS) + 1))


@pytest.mark.parametrize("role", ["device", "shuffler", "analyzer"])
def test_every_file_of_a_role_is_a_step_or_is_known_to_be_none(role: str) -> None:
    files = {f"{role}/{path.name}" for path in (ROOM / role).glob("[!_]*.py")}
    assert files - set(NAMED) == files & BESIDE_THE_PATH


def test_every_room_is_named() -> None:
    rooms = {f"{path.parent.name}/" for path in ROOM.glob("*/__init__.py")}
    assert rooms - set(NAMED) == {"device/", "shuffler/", "analyzer/"}


def test_the_page_holds_on_a_page() -> None:
    assert len(PAGE.splitlines()) <= 60


def test_no_name_of_a_class_is_used_twice() -> None:
    others: dict[str, Path] = {}
    for path in sorted(ROOM.parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ClassDef):
                continue
            known = others.setdefault(node.name, path)
            if ROOM in path.parents or ROOM in known.parents:
                assert known == path, f"{node.name} is in {known} and in {path}"
