from __future__ import annotations

from importlib import metadata

import pytest

from croupier.baselines.central import Central
from croupier.errors import UnknownNameError
from croupier.protocols import registry
from croupier.protocols.base import Mechanism
from croupier.protocols.vector_sum import VectorSum


def plant(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    point = metadata.EntryPoint(name, value, registry.GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda **_: (point,))


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_a_built_in_is_found_under_its_own_name(name: str) -> None:
    found = registry.find(name)
    assert issubclass(found, Mechanism)
    assert found.name == name


def test_baselines_and_protocols_are_told_apart() -> None:
    assert hasattr(registry.find("vector-sum").release_type, "randomize")
    assert registry.find("central") is Central
    assert not hasattr(Central.release_type, "randomize")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown protocol 'vector'; known: .*vector-sum"):
        registry.find("vector")


def test_a_built_in_name_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "vector-sum", "collections:OrderedDict")
    assert registry.find("vector-sum") is VectorSum


def test_an_entry_point_that_is_no_mechanism_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "mine", "collections:OrderedDict")
    with pytest.raises(TypeError, match="collections:OrderedDict must be a Mechanism"):
        registry.find("mine")


def test_an_entry_point_must_carry_the_mechanisms_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # The plan's document holds the mechanism's name; under another one it could not be loaded.
    plant(monkeypatch, "mine", "croupier.protocols.vector_sum:VectorSum")
    with pytest.raises(TypeError, match="must be called 'mine', got 'vector-sum'"):
        registry.find("mine")
