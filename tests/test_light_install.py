"""What runs without the extras, and what a missing one is called."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import croupier

PYPROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())

PLAN = """
from croupier import Analyzer, Client, Plan, Shuffler
plan = Plan.calibrate("vector-sum", dim=2, batch_size=50, horizon=100, epsilon=4.0, delta=1e-3)
"""


def without(modules: str, code: str) -> subprocess.CompletedProcess[str]:
    """A process in which none of the ``modules`` can be imported."""
    block = "import sys\nfor name in {!r}.split(): sys.modules[name] = None\n".format
    command = [sys.executable, "-c", block(modules) + code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_roles_run_without_any_extra() -> None:
    code = f"""{PLAN}
import numpy as np
device, shuffler, analyzer = Client(plan), Shuffler(plan), Analyzer(plan)
arms = np.full((2, 2), 0.5)
device.update(analyzer.model)
for user in range(50):
    batch = shuffler.collect(Client(plan).report(arms[device.choose(arms).arm], 1.0))
print(analyzer.receive(batch).version, Plan.from_json(plan.to_json()) == plan)
"""
    extras = "numba typer rich matplotlib pandas distributed opendp cryptography httpx starlette"
    done = without(extras, code)
    assert done.stdout.split() == ["1", "True"], done.stderr


@pytest.mark.parametrize("command", ["show {plan}", "epsilon {plan} --delta 1e-4", "protocols"])
def test_plans_are_made_and_read_on_the_command_line_without_a_compiler(
    command: str, tmp_path: Path
) -> None:
    words = f"plan --dim 2 --protocol vector-sum --batch-size 50 --horizon 100 --epsilon 4 \
        --delta 1e-3 --out {tmp_path}/plan.json"
    code = f"""from croupier.cli.main import main
assert main({words.split()!r}) == 0
sys.exit(main({command.format(plan=tmp_path / "plan.json").split()!r}))"""
    done = without("numba matplotlib", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("missing", "extra", "code"),
    [
        (
            "numba",
            "simulate",
            "simulate(plan, Contextual(2, 3), trials=1)",
        ),
        ("matplotlib", "cli", "from croupier.figures.draw import pyplot; pyplot()"),
        ("distributed", "sweep", "simulate(plan, Contextual(2, 3), trials=1, scheduler=AT)"),
    ],
)
def test_a_missing_library_says_which_extra_to_install(missing: str, extra: str, code: str) -> None:
    head = f"""{PLAN}
from croupier.simulation.sweep import simulate
from croupier.simulation.synthetic import Contextual
AT = "tcp://localhost:1"
"""
    done = without(missing, head + code)
    last = done.stderr.strip().splitlines()[-1]
    assert last.endswith(
        f"{missing} is not installed; install it with: pip install 'croupier[{extra}]'"
    )
    assert "MissingExtraError" in last


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_the_command_line_without_its_extra_is_one_line(missing: str) -> None:
    done = without(missing, "import croupier.cli.main")
    assert done.returncode == 1
    assert done.stderr == (
        f"croupier: {missing} is not installed; install it with: pip install 'croupier[cli]'\n"
    )


def test_the_version_is_in_one_place() -> None:
    assert croupier.__version__ == version("croupier")
    assert "version" in PYPROJECT["project"]["dynamic"]
    assert PYPROJECT["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "croupier.version.__version__"
    }


def test_the_library_needs_three_packages_and_developers_need_every_extra() -> None:
    names = [one.split(">")[0] for one in PYPROJECT["project"]["dependencies"]]
    assert names == ["numpy", "rfc8785", "scipy"]
    extras = PYPROJECT["project"]["optional-dependencies"]
    own = {name for name in extras if name not in {"dev", "browser"}}
    listed = next(one for one in extras["dev"] if one.startswith("croupier["))
    assert set(listed.removeprefix("croupier[").removesuffix("]").split(",")) == own


def test_help_opens_with_the_readmes_example() -> None:
    assert croupier.__doc__ is not None
    shown = {line.lstrip(">. ") for line in croupier.__doc__.splitlines()}
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    lines = readme.split("```python\n")[1].split("```")[0].splitlines()
    assert {line.strip() for line in lines[:-1] if line} <= shown
