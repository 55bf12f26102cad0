"""A mutation pass over ``croupier.privacy``: break one thing at a time, see that a test fails.

    python tests/mutants.py --count 150 --seed 0

Mutants swap signs, operators, comparisons, min and max, ceil and floor, and move constants. Each is
run against the quick tests of its own module. What survives is printed for a person to judge: a
survivor is harmless only if it cannot weaken a guarantee. So is what takes too long: a mutant that
never ends is dead, a slow machine proves nothing.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PRIVACY = ROOT / "src" / "croupier" / "privacy"

BITS = "tests/privacy/shuffled_bits"
REPORTS = "tests/privacy/shuffled_reports"
CERTIFICATE = [
    f"{BITS}/test_quantile_slope.py",
    f"{BITS}/test_count_release.py",
    f"{BITS}/test_curve.py",
    f"{BITS}/test_reference.py",
    "tests/laws/test_binomial_exact.py",
]
CLONES = [f"{REPORTS}/test_clones.py", f"{REPORTS}/test_gaussian.py"]

TESTS = {
    "audit_statistics": ["tests/privacy/test_audit_statistics.py"],
    "composition": ["tests/privacy/test_composition.py"],
    "budget": ["tests/privacy/test_budget.py"],
    "central": ["tests/privacy/test_central_sensitivity.py", "tests/baselines"],
    "feature_moments": ["tests/privacy/test_feature_moments.py"],
    "gdp": ["tests/privacy/test_gdp.py"],
    "guarantee": ["tests/privacy/test_guarantee.py"],
    "search": ["tests/privacy/test_search.py"],
    "shuffled_bits/binomial_tails": [f"{BITS}/test_binomial_tails.py", *CERTIFICATE],
    "shuffled_bits/calibration": [f"{BITS}/test_calibration.py"],
    "shuffled_bits/count_release": CERTIFICATE,
    "shuffled_bits/curve": CERTIFICATE,
    "shuffled_bits/placements": [f"{BITS}/test_placements.py"],
    "shuffled_bits/quantile_slope": CERTIFICATE,
    "shuffled_bits/tree": [f"{BITS}/test_tree.py"],
    "shuffled_bits/tree_calibration": [
        f"{BITS}/test_tree_calibration.py",
        "tests/protocols/test_concurrent_tree.py",
    ],
    "shuffled_reports/attack": [f"{REPORTS}/test_attack.py"],
    "shuffled_reports/clones": CLONES,
    "shuffled_reports/gaussian": CLONES,
    "shuffled_reports/local": [f"{REPORTS}/test_local.py"],
    "shuffled_reports/loss_distribution": [f"{REPORTS}/test_loss_distribution.py", *CLONES],
}

PATIENCE = 600
"""Seconds."""

OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "ceil": "floor", "floor": "ceil", "log1p": "log"}


@dataclass(frozen=True)
class Mutant:
    """One change: the module, the line, and the module's new source."""

    module: str
    line: int
    what: str
    source: str


def changes(node: ast.AST) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ways to break one node: a description and the fields to set."""
    if isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPERATORS:
        yield _named(node.op, "op")
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OPERATORS:
        what, fields = _named(node.ops[0], "op")
        yield what, {"ops": [fields["op"], *node.ops[1:]]}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "minus to plus", {"op": ast.UAdd()}
    if isinstance(node, ast.Constant):
        yield from _moved(node.value)
    for field in ("id", "attr"):
        if getattr(node, field, None) in NAMES:
            old = getattr(node, field)
            yield f"{old} to {NAMES[old]}", {field: NAMES[old]}


def _named(old: ast.AST, field: str) -> tuple[str, dict[str, Any]]:
    new = OPERATORS[type(old)]
    return f"{type(old).__name__} to {new.__name__}", {field: new()}


def _moved(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        for moved in (value + 1, value * 0.97):
            if moved != value:
                yield f"{value} to {moved}", {"value": moved}


def room(path: Path) -> str:
    """The module's name inside ``privacy``, as TESTS has it."""
    return path.relative_to(PRIVACY).with_suffix("").as_posix()


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    text = path.read_text()
    count = sum(1 for _ in ast.walk(ast.parse(text)))
    for position in range(count):
        node = list(ast.walk(ast.parse(text)))[position]
        for number, (what, _) in enumerate(changes(node)):
            tree = ast.parse(text)
            target = list(ast.walk(tree))[position]
            _, fields = list(changes(target))[number]
            for name, value in fields.items():
                setattr(target, name, value)
            source = ast.unparse(ast.fix_missing_locations(tree))
            yield Mutant(room(path), getattr(node, "lineno", 0), what, source)


def outcome(mutant: Mutant) -> str:
    """Whether a test of the module fails."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "src"
        shutil.copytree(
            ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
        (copy / "croupier" / "privacy" / f"{mutant.module}.py").write_text(mutant.source)
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow", "-p",
                   "no:cacheprovider", *TESTS[mutant.module]]  # fmt: skip
        place = {**os.environ, "PYTHONPATH": str(copy)}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=place, capture_output=True, check=False, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return "took too long"
        return "killed" if done.returncode else "survived"


def main() -> None:
    """Run a sample of mutants and print the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--module", action="append", help="only these modules")
    arguments = parser.parse_args()
    modules = arguments.module or sorted(TESTS)
    every = [one for name in modules for one in mutants(PRIVACY / f"{name}.py")]
    chosen = random.Random(arguments.seed).sample(every, min(arguments.count, len(every)))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        ends = list(zip(chosen, pool.map(outcome, chosen), strict=True))
    killed = sum(end == "killed" for _, end in ends)
    print(f"{len(chosen)} mutants of {len(every)}, {killed} killed")
    for one, end in sorted(ends, key=lambda pair: (pair[1], pair[0].module, pair[0].line)):
        if end != "killed":
            print(f"{end}: privacy/{one.module}.py:{one.line}: {one.what}")


if __name__ == "__main__":
    main()
