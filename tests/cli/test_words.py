from __future__ import annotations

from dataclasses import dataclass

import pytest

from croupier.cli.words import delta_words, verdict
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import GaussianCurve, Guarantee, gaussian


@dataclass(frozen=True)
class Flat(GaussianCurve):
    """The same delta at every epsilon."""

    found: float = 0.0

    def delta(self, epsilon: float) -> float:
        return self.found


def test_a_delta_that_floating_point_loses_is_never_printed_as_nought() -> None:
    underflown = gaussian(0.01, "exact").delta(5.0)
    assert underflown == 0.0
    assert delta_words(underflown) == "below 1e-300"
    assert delta_words(5e-324) == "below 1e-300"
    assert delta_words(1.2345e-299) == "1.234e-299"


@pytest.mark.parametrize(("found", "shown"), [(1e-200, "1e-200"), (0.25, "0.25")])
def test_a_claim_that_fails_names_the_proved_delta(found: float, shown: str) -> None:
    guarantee = Guarantee("exact", Flat(1.0, found))
    text = verdict(guarantee, Budget(1.0, 1e-299))
    assert text == f"does NOT hold, the proved delta is {shown}"
