from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from croupier.errors import CroupierError
from croupier.plan import Plan
from croupier.privacy.composition import composed_epsilon
from croupier.privacy.gdp import compose, epsilon_of
from croupier.privacy.guarantee import gaussian
from croupier.simulation.data.files import digest, read_labelled, read_log
from croupier.simulation.data.own import OwnFile, Scaling, declared
from croupier.testing import check_problem

pd = pytest.importorskip("pandas", reason="the data extra is not installed")
pytest.importorskip("pyarrow", reason="the data extra is not installed")


def visits(rows: int = 400) -> Any:
    rng = np.random.default_rng(0)
    age, region = rng.integers(18, 80, rows), rng.choice(["north", "south"], rows)
    bought = np.where(age + 20 * (region == "south") > 60, "book", "film")
    chance = np.where(age > 40, 0.75, 0.25)
    shown = np.where(rng.random(rows) < chance, "book", "film")
    propensity = np.where(shown == "book", chance, 1 - chance)
    return pd.DataFrame(
        {
            "age": age, "region": region, "bought": bought, "shown": shown,
            "liked": (shown == bought).astype(int), "propensity": propensity,
        }
    )  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "visits.csv"
    visits().to_csv(path, index=False)
    return path


def test_numbers_stay_and_texts_become_choices(file: Path) -> None:
    table, frame = read_labelled(file, ["age", "region"], "bought"), visits()
    assert table.columns == ("age", "region_north", "region_south")
    assert table.classes == ("book", "film")
    np.testing.assert_array_equal(table.contexts[:, 0], frame["age"])
    np.testing.assert_array_equal(table.contexts[:, 2], frame["region"] == "south")
    np.testing.assert_array_equal(table.labels, frame["bought"] == "film")


def test_csv_and_parquet_are_the_same_problem(file: Path) -> None:
    other = file.with_suffix(".parquet")
    visits().to_parquet(other)
    one, two = (read_labelled(path, ["region", "age"], "bought") for path in (file, other))
    np.testing.assert_array_equal(one.contexts, two.contexts)
    np.testing.assert_array_equal(one.labels, two.labels)


def test_a_log_keeps_its_columns(file: Path) -> None:
    log = read_log(file, ["age"], "shown", "liked", "propensity")
    np.testing.assert_array_equal(log.rewards, visits()["liked"])
    np.testing.assert_array_equal(log.propensities, visits()["propensity"])
    assert log.table.classes == ("book", "film")


@pytest.mark.parametrize(
    ("context", "label", "words"),
    [
        (["age", "hobby"], "bought", r"column 'hobby' is not in .*visits.csv; it has: age, region"),
        (["age"], "sold", "column 'sold' is not in"),
        ([], "bought", "context must name at least one column"),
        (["age", "age"], "bought", "named once, got 'age' 2 times"),
        (["age", "bought"], "bought", "named once, got 'bought' 2 times"),
    ],
)
def test_wrong_names_are_refused(context: list[str], label: str, words: str, file: Path) -> None:
    with pytest.raises(ValueError, match=words):
        read_labelled(file, context, label)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": [None] + [1] * 399}, "column 'age' must have no gaps, got 1, the first in row 1"),
        ({"age": [1.0, np.inf] * 200}, r"column 'age' must be finite, got inf in row 2"),
        ({"age": [f"text {i}" for i in range(400)]}, "at most 20 different texts, got 400"),
        ({"bought": ["book"] * 400}, "2 to 100 different values, one for each arm, got 1"),
        ({"bought": range(400)}, "2 to 100 different values, one for each arm, got 400"),
        ({"bought": [None] + ["book"] * 399}, "column 'bought' must have no gaps"),
    ],
)  # fmt: skip
def test_wrong_columns_are_refused(change: dict[str, object], words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    visits().assign(**change).to_csv(path, index=False)
    with pytest.raises(ValueError, match=words):
        read_labelled(path, ["age"], "bought")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"propensity": 0.0}, "'propensity' must be above 0 and at most 1, got 0.0 in row 1"),
        ({"propensity": 1.5}, "'propensity' must be above 0 and at most 1, got 1.5 in row 1"),
        ({"propensity": "often"}, "column 'propensity' must hold numbers"),
        ({"liked": -1}, r"'liked' must be in \[0, 1\], got -1.0 in row 1"),
        ({"liked": 7}, r"'liked' must be in \[0, 1\], got 7.0 in row 1"),
    ],
)
def test_wrong_logs_are_refused(change: dict[str, object], words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    visits().assign(**change).to_csv(path, index=False)
    with pytest.raises(ValueError, match=words):
        read_log(path, ["age"], "shown", "liked", "propensity")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.csv", b"", "cannot read .*empty.csv as a table: No columns"),
        ("torn.csv", b'a,b\n1,2\n"3,4', "cannot read .*torn.csv as a table"),
        ("wide.csv", b"a,b\n1,2\n1,2,3,4\n", "cannot read .*wide.csv as a table"),
        ("bytes.csv", b"a,b\n\xff\xfe\x00,2\n", "cannot read .*bytes.csv as a table"),
        ("text.parquet", b"not parquet", "cannot read .*text.parquet as a table"),
        ("few.csv", b"a,b\n1,2\n3,4\n", "few.csv must have at least 20 rows, got 2"),
        ("head.csv", b"a,b\n", "head.csv must have at least 20 rows, got 0"),
    ],
)
def test_files_that_are_no_tables_are_refused(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises((CroupierError, ValueError), match=words):
        read_labelled(path, ["a"], "b")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(CroupierError, match=r"cannot read /nowhere/x.csv: No such file"):
        OwnFile.read("/nowhere/x.csv", ["a"], "b")


def test_a_files_problem_keeps_every_promise(file: Path) -> None:
    for scaling in (None, Scaling(((18.0, 90.0),)), Scaling(((18.0, 90.0),), 0.2)):
        problem = OwnFile.read(file, ["age"], "bought", scaling)
        assert (problem.dim, problem.arms) == (4, 2)
        assert problem.players == (200 if scaling is None else 400)
        assert not check_problem(problem, seed=1).broken


def test_an_altered_file_is_another_problem(file: Path) -> None:
    before = OwnFile.read(file, ["age"], "bought")
    visits(300).to_csv(file, index=False)
    after = OwnFile.read(file, ["age"], "bought")
    assert (before != after, before.content != digest(file), after.content == digest(file)) == (
        True, True, True,
    )  # fmt: skip
    assert after.players == 150


def test_directions_can_be_left_out_only_if_a_public_half_chooses_them(file: Path) -> None:
    plan = Plan.calibrate("linucb", dim=4, horizon=100)
    problem = OwnFile.read(file, ["age", "region"], "bought").fitted(plan)
    assert problem.playing.contexts.shape == (200, 2)
    fixed = OwnFile.read(file, ["age", "region"], "bought", Scaling(((0.0, 99.0), (0, 1), (0, 1))))
    with pytest.raises(ValueError, match=r"dim must be 8 for .*2 classes, 3 columns.*--dim 8"):
        fixed.fitted(plan)


def test_bounds_are_read_by_name() -> None:
    columns, context = ("age", "region_north", "region_south"), ("age", "region")
    assert declared("age=18:90", columns, context) == ((18.0, 90.0), (0.0, 1.0), (0.0, 1.0))
    for text, words in (
        ("age", "NAME=LOW:HIGH"), ("age=1", "NAME=LOW:HIGH"), ("size=0:1", "got 'size'"),
        ("region_north=0:1", "'age' has none"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            declared(text, columns, context)


@pytest.mark.parametrize(
    ("bounds", "mu", "words"),
    [
        (((3.0, 3.0),), 0.0, "LOW below HIGH, got 3.0:3.0"),
        (((3.0, float("nan")),), 0.0, "LOW below HIGH"),
        (None, 0.5, "map-mu needs --bounds"),
        (((0.0, 1.0),), -1.0, "map-mu must be at least 0"),
    ],
)
def test_scalings_that_make_no_sense_are_refused(
    bounds: tuple[tuple[float, float], ...] | None, mu: float, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Scaling(bounds, mu)


@pytest.mark.parametrize("protocol", ["vector-sum", "central"])
def test_a_charged_map_adds_to_the_plans_epsilon(protocol: str) -> None:
    plan = Plan.calibrate(protocol, dim=4, horizon=4000, epsilon=1.0, delta=1e-6)
    small, large = (
        composed_epsilon([plan.promise, gaussian(mu, "map")], 1e-6) for mu in (1e-6, 0.2)
    )
    promised = plan.promise.epsilon(1e-6)
    assert promised <= small < promised + 0.01
    mu = plan.promise.mu_at(1e-6)
    assert mu is not None
    assert large >= epsilon_of(compose((mu, 0.2)), 1e-6)
    assert promised < large < promised + epsilon_of(0.2, 1e-6)


def test_a_curve_without_mu_is_added_to_the_map() -> None:
    plan = Plan.calibrate(
        "amplified-gaussian", dim=3, horizon=3000, batch_size=1000, batches="fixed",
        epsilon=1.0, delta=1e-5,
    )  # fmt: skip
    assert plan.promise.mu_at(1e-5) is None
    charge = gaussian(0.1, "map")
    both = plan.promise.epsilon(5e-6) + epsilon_of(0.1, 5e-6)
    found = composed_epsilon([plan.promise, charge], 1e-5)
    assert both <= found <= both * (1 + 1e-3)
