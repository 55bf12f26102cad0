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

CERTIFICATE = [
    "tests/privacy/test_pace.py",
    "tests/privacy/test_rounding.py",
    "tests/privacy/test_moves.py",
    "tests/privacy/test_single.py",
    "tests/privacy/test_spread.py",
    "tests/privacy/test_slopes.py",
    "tests/privacy/test_counts.py",
    "tests/privacy/test_binomial.py",
    "tests/privacy/test_binomial_reference.py",
    "tests/laws/test_binomial_exact.py",
]
SEVERAL = [
    "tests/privacy/test_told.py",
    "tests/privacy/test_shares.py",
    "tests/privacy/test_groups.py",
    "tests/privacy/test_several.py",
]
APART = ["tests/privacy/test_apart.py", "tests/privacy/test_losses.py"]
FAR = ["tests/privacy/test_far.py", "tests/laws/test_binomial_far.py"]
SEARCHES = ["tests/privacy/test_searches.py"]
SHUFFLED = ["tests/privacy/test_clones.py", "tests/privacy/test_shuffled_gaussian.py"]

TESTS = {
    "apart": APART,
    "attacks": ["tests/privacy/test_attacks.py"],
    "auditing": ["tests/privacy/test_auditing.py"],
    "binomial": [*FAR, *APART, *CERTIFICATE],
    "bits": ["tests/privacy/test_bits.py"],
    "budget": ["tests/privacy/test_budget.py"],
    "central": ["tests/privacy/test_central_sensitivity.py", "tests/baselines"],
    "clones": SHUFFLED,
    "counts": [*FAR, *APART, *CERTIFICATE],
    "far": FAR,
    "gdp": ["tests/privacy/test_gdp.py"],
    "groups": SEVERAL,
    "guarantee": ["tests/privacy/test_guarantee.py"],
    "journeys": [*SEVERAL, *APART, *FAR],
    "levels": CERTIFICATE[2:3],
    "losses": [*APART, *FAR, *SHUFFLED],
    "moments": ["tests/privacy/test_moments.py"],
    "moves": CERTIFICATE[2:4],
    "node_bits": [
        *FAR,
        "tests/privacy/test_node_bits.py",
        "tests/protocols/test_concurrent_tree.py",
    ],
    "nodes": ["tests/privacy/test_nodes.py"],
    "pace": CERTIFICATE[:1],
    "placements": ["tests/privacy/test_placements.py", *FAR, *APART],
    "rounding": CERTIFICATE[1:2],
    "skewness": CERTIFICATE[2:3],
    "several": [*SEVERAL, *APART],
    "searches": SEARCHES,
    "shares": SEVERAL,
    "shuffled_gaussian": SHUFFLED,
    "shuffled_local": ["tests/privacy/test_shuffled_local.py"],
    "single": CERTIFICATE[3:5],
    "slopes": CERTIFICATE,
    "spread": CERTIFICATE[4:5],
    "tails": ["tests/privacy/test_tails.py", *CERTIFICATE[:9]],
    "told": SEVERAL,
    "theorem": ["tests/privacy/test_theorem.py"],
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
            yield Mutant(path.stem, getattr(node, "lineno", 0), what, source)


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
