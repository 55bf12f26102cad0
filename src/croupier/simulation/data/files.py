"""A user's own CSV or Parquet file: columns read into numbers, with one clear line where not."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from croupier.errors import DocumentError
from croupier.simulation.data.sources import Floats, LabelledTable, labelled, need_pandas, one_hot

if TYPE_CHECKING:
    import pandas as pd

MOST_CHOICES = 20
"""Different texts of a context column, each of which becomes a column of 0 and 1."""

MOST_CLASSES = 100
LEAST_ROWS = 20


@dataclass(frozen=True, eq=False)
class Log:
    """What was played in the past: a table whose labels are the arms, rewards, propensities."""

    table: LabelledTable
    rewards: Floats
    propensities: Floats


def digest(path: str | Path) -> str:
    """A short name of a file's content, so that an altered file is another problem."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise DocumentError(f"cannot read {path}: {error.strerror}") from error


def read_labelled(path: str | Path, context: Sequence[str], label: str) -> LabelledTable:
    """Contexts and labels of a file."""
    frame = read_columns(path, context, [label])
    return _classes(_contexts(frame, context), frame[label], path)


def read_log(
    path: str | Path, context: Sequence[str], arm: str, reward: str, propensity: str
) -> Log:
    """Contexts, arms, rewards in [0, 1] and propensities in (0, 1] of a file."""
    frame = read_columns(path, context, [arm, reward, propensity])
    table = _classes(_contexts(frame, context), frame[arm], path)
    rewards, chances = _numbers(frame, reward), _numbers(frame, propensity)
    _within(reward, rewards, (rewards < 0) | (rewards > 1), "in [0, 1]")
    _within(propensity, chances, (chances <= 0) | (chances > 1), "above 0 and at most 1")
    return Log(table, rewards, chances)


def read_columns(path: str | Path, context: Sequence[str], others: Sequence[str]) -> pd.DataFrame:
    """The named columns, none of them missing, doubled or with gaps."""
    names = [*context, *others]
    if not context:
        raise ValueError("context must name at least one column, got none")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"a column must be named once, got {name!r} {names.count(name)} times")
    frame = _frame(Path(path))
    for name in names:
        if name not in frame.columns:
            known = ", ".join(map(str, frame.columns))
            raise ValueError(f"column {name!r} is not in {path}; it has: {known}")
        _refuse_gaps(frame[name], name)
    if len(frame) < LEAST_ROWS:
        raise ValueError(f"{path} must have at least {LEAST_ROWS} rows, got {len(frame)}")
    return frame[names]


def _frame(path: Path) -> pd.DataFrame:
    need_pandas()
    import pandas as pd

    digest(path)
    reader = pd.read_parquet if ".parquet" in path.name.lower() else pd.read_csv
    try:
        return reader(path)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DocumentError(f"cannot read {path} as a table: {reason}") from error


def _refuse_gaps(column: pd.Series, name: str) -> None:
    gaps = np.flatnonzero(column.isna().to_numpy())
    if gaps.size:
        raise ValueError(
            f"column {name!r} must have no gaps, got {gaps.size}, the first in row {gaps[0] + 1}"
        )


def _contexts(frame: pd.DataFrame, context: Sequence[str]) -> pd.DataFrame:
    """Numbers as they are, texts and truth values of few kinds as columns of 0 and 1."""
    import pandas as pd

    return pd.concat([_context(frame, name) for name in context], axis=1)


def _context(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    column = frame[name]
    if is_numeric_dtype(column.dtype) or is_bool_dtype(column.dtype):
        return frame[[name]].assign(**{name: _numbers(frame, name)})
    kinds = int(column.nunique())
    if kinds > MOST_CHOICES:
        raise ValueError(
            f"context column {name!r} must hold numbers or at most {MOST_CHOICES} different "
            f"texts, got {kinds} such as {str(column.iloc[0])!r}"
        )
    return one_hot(frame[[name]].astype(str))


def _numbers(frame: pd.DataFrame, name: str) -> Floats:
    try:
        numbers = frame[name].to_numpy(np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"column {name!r} must hold numbers: {error}") from error
    _within(name, numbers, ~np.isfinite(numbers), "finite")
    return numbers


def _within(name: str, numbers: Floats, wrong: NDArray[np.bool_], words: str) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"column {name!r} must be {words}, got {numbers[row]} in row {row + 1}")


def _classes(contexts: pd.DataFrame, labels: pd.Series, path: str | Path) -> LabelledTable:
    """A table with 2 to 100 classes."""
    kinds = int(labels.nunique())
    if not 2 <= kinds <= MOST_CLASSES:
        raise ValueError(
            f"column {labels.name!r} of {path} must have 2 to {MOST_CLASSES} different values, "
            f"one for each arm, got {kinds}"
        )
    return labelled(contexts, labels)
