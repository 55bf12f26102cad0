"""Which of the paper's panels have the shuffle model between the central and the local one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from croupier.figures import catalogue
from croupier.figures.data import Panel
from croupier.simulation.sweep import sweep

VECTOR, AMPLIFIED = "LinUCB-SDP-Vec", "LinUCB-SDP-Amp"
PANELS = [
    pytest.param("fig1", 0, False, id="epsilon 0.2"),
    pytest.param("fig1", 1, True, id="epsilon 1"),
    pytest.param("fig1", 2, False, id="epsilon 10"),
    pytest.param("fig2", 0, True, id="d = 10"),
    pytest.param("fig2", 1, True, id="d = 15"),
]


def clearly_below(less: NDArray[np.float64], more: NDArray[np.float64]) -> bool:
    """By two standard errors of the difference on the same users."""
    gap = more - less
    return bool(gap.mean() > 2 * gap.std(ddof=1) / math.sqrt(gap.size))


def last_regrets(panel: Panel) -> dict[str, NDArray[np.float64]]:
    jobs = [job for job in panel.jobs if job.label != "LinUCB"]
    return {out.job.label: out.regret[:, -1] for out in sweep(jobs, trials=50, points=1)}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "place", "holds"), PANELS)
def test_p_vec_lies_in_between_in_three_of_five_panels_and_p_amp_in_all(
    name: str, place: int, holds: bool
) -> None:
    found = last_regrets(catalogue.figure(name, calibration="released").panels[place])
    for label, expected in ((VECTOR, holds), (AMPLIFIED, True)):
        above = clearly_below(found["LinUCB-JDP"], found[label])
        below = clearly_below(found[label], found["LinUCB-LDP"])
        assert below
        assert above == expected, label
