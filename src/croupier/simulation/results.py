"""Results on disk: rows with a manifest, written as they are made, never half a file.

Rows are the same wherever they were computed. The line that closes a file also says how many CPU
seconds they took, which is not.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from croupier.errors import MissingExtraError, ResultsError
from croupier.model import canonical
from croupier.simulation.engine import RegretCurves

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("algorithm", "plan", "problem", "epsilon", "seed", "trial", "round", "regret")
_CLOSED = re.compile(
    r"# complete rows=(\d+) repairs=(\d+) publications=(\d+(?: \d+)*) seconds=(\S+)\n"
)


@dataclass(frozen=True)
class ResultPart:
    """One group of trials of one algorithm: the unit that is computed, written and resumed."""

    algorithm: str
    plan: str
    problem: str
    epsilon: float | None
    seed: int
    trials: range

    @property
    def file(self) -> str:
        """A file name that says what is inside, and that no other part has."""
        # The hash tells labels apart that differ in signs only.
        content = {"algorithm": self.algorithm, "plan": self.plan, "problem": self.problem}
        whose = hashlib.sha256(canonical(content)).hexdigest()[:12]
        names = f"{_plain(self.algorithm)}.{_plain(self.problem)}.{whose}"
        return f"{names}.seed-{self.seed}.trials-{self.trials.start}-{self.trials.stop}.csv"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


@dataclass(frozen=True, eq=False)
class PlayedPart:
    """The curves of a part and the CPU seconds they took."""

    curves: RegretCurves
    seconds: float


class Results:
    """A directory of parts that all belong to one manifest."""

    def __init__(self, directory: Path, manifest: dict[str, Any]) -> None:
        self._directory = directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ResultsError(f"cannot make {directory}: {error.strerror}") from error
        self._claim(manifest)

    def _claim(self, manifest: dict[str, Any]) -> None:
        """Write the manifest, or insist that the one there is the same."""
        path = self._directory / "manifest.json"
        text = json.dumps(manifest, indent=1, sort_keys=True)
        if not path.exists():
            write_whole(path, text)
        elif path.read_text() != text:
            raise ResultsError(
                f"{self._directory} holds results of another run: {_difference(path, manifest)}; "
                "choose another directory"
            )

    def load(self, part: ResultPart) -> PlayedPart | None:
        """A part that was already computed, None if it was not."""
        path = self._directory / part.file
        return read_part(path, len(part.trials)) if path.exists() else None

    def save(self, part: ResultPart, played: PlayedPart) -> None:
        """Write a part; a crash leaves the old file or the new one, never half of one."""
        write_whole(self._directory / part.file, _rows(part, played))


def write_whole(path: Path, text: str) -> None:
    """Write, flush to disk, then rename into place."""
    draft = path.with_suffix(path.suffix + ".draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def _rows(part: ResultPart, played: PlayedPart) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    curves = played.curves
    for trial, regret in zip(part.trials, curves.regret.tolist(), strict=True):
        for round_index, value in zip(curves.rounds.tolist(), regret, strict=True):
            writer.writerow((*_about(part), trial, round_index, repr(value)))
    publications = " ".join(map(str, curves.publications.tolist()))
    text.write(
        f"# complete rows={curves.regret.size} repairs={curves.repairs} "
        f"publications={publications} seconds={played.seconds:.3f}\n"
    )
    return text.getvalue()


def _about(part: ResultPart) -> tuple[str | float | None, ...]:
    """What is the same in all rows of a part."""
    return (part.algorithm, part.plan, part.problem, part.epsilon, part.seed)


def read_part(path: Path, trials: int) -> PlayedPart:
    """Read a part back; one that does not end as it should is refused."""
    *lines, last = path.read_text().splitlines(keepends=True) or [""]
    closed = _CLOSED.fullmatch(last)
    if closed is None or len(lines) - 1 != int(closed[1]) or int(closed[1]) % trials:
        raise ResultsError(f"{path} is truncated or damaged; delete it to compute it again")
    try:
        values = np.array([[float(x) for x in row[-2:]] for row in csv.reader(lines[1:])])
    except ValueError as error:
        raise ResultsError(f"{path} is damaged: {error}; delete it to compute it again") from error
    rounds, regret = values.reshape(trials, -1, 2).transpose(2, 0, 1)
    publications = np.array(closed[3].split(), dtype=np.int64)
    if publications.size != trials:
        raise ResultsError(
            f"{path} counts publications of {publications.size} trials, not {trials}"
        )
    curves = RegretCurves(
        rounds[0].astype(np.int64), np.ascontiguousarray(regret), int(closed[2]), publications
    )
    return PlayedPart(curves, float(closed[4]))


def _difference(path: Path, manifest: dict[str, Any]) -> str:
    """The first field in which two manifests differ."""
    try:
        there = json.loads(path.read_text())
    except json.JSONDecodeError:
        return f"{path} is damaged"
    for key in sorted(manifest):
        if there.get(key) != manifest[key]:
            return f"{key} there is {_short(there.get(key))}, asked for is {_short(manifest[key])}"
    return "it has further fields"


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) < 80 else text[:77] + "..."


def load_frame(directory: str | Path) -> pd.DataFrame:
    """All rows of a results directory as a pandas table."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtraError("pandas", "pandas") from error
    files = sorted(Path(directory).glob("*.csv"))
    if not files:
        raise ResultsError(f"{directory} has no results")
    tables = [pd.read_csv(path, comment="#") for path in files]
    return pd.concat(tables, ignore_index=True)
