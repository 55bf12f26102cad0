from __future__ import annotations

import json
import math
from decimal import Decimal, getcontext

import pytest

from croupier.cli.main import main

getcontext().prec = 40


def document(capsys: pytest.CaptureFixture[str], protocol: str, *more: str) -> dict[str, object]:
    code = main(["plan", "--protocol", protocol, "--calibration", "theorem", "--json", *more])
    assert code == 0
    printed: dict[str, object] = json.loads(capsys.readouterr().out)
    return printed


def options(epsilon: float, delta: float, dim: int, batch: int, horizon: int) -> list[str]:
    return [
        "--epsilon", str(epsilon), "--delta", str(delta), "--dim", str(dim),
        "--batch-size", str(batch), "--horizon", str(horizon),
    ]  # fmt: skip


def number(value: float) -> Decimal:
    return Decimal(repr(value))


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
@pytest.mark.parametrize(("dim", "batch"), [(5, 20), (15, 20), (5, 1000)])
def test_vector_sum_prints_the_papers_numbers_to_12_digits_before_ceilings(
    epsilon: float, dim: int, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = document(capsys, "vector-sum", *options(epsilon, 0.1, dim, batch, 20000))
    grid = max(2 * Decimal(batch).sqrt(), Decimal(dim), Decimal(4))
    log = (4 * (dim**2 + 1) / number(0.1)).ln()
    bits = 24 * 10**4 * grid**2 * log**2 / (number(epsilon) ** 2 * batch)
    std = (batch * bits * 3 / 16).sqrt() / grid
    shown = printed["before_ceilings"]
    assert isinstance(shown, dict)
    assert shown["grid"] == pytest.approx(float(grid), rel=1e-12)
    assert shown["noise_bits"] == pytest.approx(float(bits), rel=1e-12)
    assert shown["privacy_noise_std"] == pytest.approx(float(std), rel=1e-12)
    parameters = printed["parameters"]
    assert isinstance(parameters, dict)
    ceiling = math.ceil(grid)
    wanted = 24 * 10**4 * ceiling**2 * log**2 / (number(epsilon) ** 2 * batch)
    assert parameters == {"grid": ceiling, "noise_bits": math.ceil(wanted), "bias": 0.25}
    assert printed["privacy_noise_std"] == pytest.approx(float(std), rel=1e-5)


def test_amplified_gaussian_prints_the_papers_sigma_to_12_digits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = document(capsys, "amplified-gaussian", *options(0.05, 0.1, 5, 1000, 20000))
    logs = (Decimal("2.5") * 1000 / number(0.1)).ln() * (2 / number(0.1)).ln()
    sigma = 4 * (2 * logs).sqrt() / (number(0.05) * Decimal(1000).sqrt())
    assert printed["parameters"] == {"sigma": pytest.approx(float(sigma), rel=1e-12)}


def test_local_prints_the_papers_sigma_to_12_digits(capsys: pytest.CaptureFixture[str]) -> None:
    printed = document(capsys, "local", *options(0.5, 1e-5, 5, 1, 20000))
    sigma = 4 * (2 * (Decimal("2.5") / number(1e-5)).ln()).sqrt() / number(0.5)
    assert printed["parameters"] == {"sigma": pytest.approx(float(sigma), rel=1e-12)}


def test_central_prints_the_node_noise_of_shariff_and_sheffet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = document(capsys, "central", *options(0.5, 1e-5, 5, 1, 20000))
    sigma = 4 * Decimal(16).sqrt() * 2 * (4 / number(1e-5)).ln() / number(0.5)
    parameters = printed["parameters"]
    assert isinstance(parameters, dict)
    assert parameters["sigma"] == pytest.approx(float(sigma), rel=1e-12)


def test_returning_users_get_the_papers_composition(capsys: pytest.CaptureFixture[str]) -> None:
    more = [*options(0.5, 1e-5, 5, 1000, 20000), "--max-participations", "20"]
    printed = document(capsys, "vector-sum", *more)
    part = number(0.5) / (2 * (2 * 20 * (2 / number(1e-5)).ln()).sqrt())
    log = (4 * 26 * 2 * 20 / number(1e-5)).ln()
    bits = 24 * 10**4 * 4 * log**2 / part**2
    shown = printed["before_ceilings"]
    assert isinstance(shown, dict)
    assert shown["noise_bits"] == pytest.approx(float(bits), rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 10.0])
def test_every_panel_of_figure_1_is_refused_for_amplification_with_both_numbers(
    epsilon: float, capsys: pytest.CaptureFixture[str]
) -> None:
    more = options(epsilon, 0.1, 5, 20, 20000)
    assert (
        main(["plan", "--protocol", "amplified-gaussian", "--calibration", "theorem", *more]) == 2
    )
    text = capsys.readouterr().err
    local = epsilon * math.sqrt(20 / math.log(20))
    assert f"{local:.6g} > -1.08218" in text
    if epsilon > 0.387:
        assert f"{epsilon:.6g} > 0.387023" in text


@pytest.mark.parametrize("protocol", ["vector-sum", "amplified-gaussian", "local"])
def test_composition_is_refused_from_epsilon_1_on(
    protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [*options(1.0, 1e-5, 5, 1000, 20000), "--max-participations", "20"]
    assert main(["plan", "--protocol", protocol, "--calibration", "theorem", *more]) == 2
    assert "1 >= 1" in capsys.readouterr().err
