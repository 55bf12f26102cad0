"""The certificate against 18 rows computed by an independent implementation (MATH 4).

Five dimensions, so 20 labels; fair coins; grid = ceil(max(2 sqrt B, d, 4)); honest fraction 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from croupier.privacy.budget import Budget
from croupier.privacy.shuffled_bits.calibration import BatchSum, least_noise_bits
from croupier.privacy.shuffled_bits.quantile_slope import fast_slope

LABELS = 20
SENSITIVITY = math.sqrt(4.5)


@dataclass(frozen=True)
class Row:
    users: int
    epsilon: float
    delta: float
    grid: int
    noise_bits: int
    slope: float
    deviation: float
    mu: float
    certified_delta: float
    noise_std: float
    floor: float

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, self.delta)

    @property
    def batch(self) -> BatchSum:
        return BatchSum(self.users, 1.0, SENSITIVITY, LABELS)


ROWS = [
    Row(
        20,
        0.2,
        0.1,
        9,
        389,
        0.02269024495185522,
        0.00028527622611210105,
        0.43447529801883333,
        0.09989964709512666,
        4.900239349155544,
        4.876971356925164,
    ),
    Row(
        20,
        0.2,
        1e-05,
        9,
        19405,
        0.003210470169350056,
        7.87334652300495e-06,
        0.06132913181983579,
        9.999168303256067e-06,
        34.60981806038338,
        34.58628990981756,
    ),
    Row(
        20,
        1.0,
        0.1,
        9,
        88,
        0.04783762819323318,
        0.0012736632570182972,
        0.9190064001127173,
        0.09946486213652797,
        2.3306863292670035,
        2.303494593920566,
    ),
    Row(
        20,
        1.0,
        1e-05,
        9,
        1021,
        0.014002585003270037,
        0.000149737039303529,
        0.26800536026627086,
        9.981687005336784e-06,
        7.938809190176111,
        7.913864781262214,
    ),
    Row(
        20,
        10.0,
        0.1,
        9,
        8,
        0.16918449751010173,
        0.015055899639466927,
        3.2973826775636055,
        0.05189222631043979,
        0.7027283689263065,
        0.5978136816618767,
    ),
    Row(
        20,
        10.0,
        1e-05,
        9,
        21,
        0.10073168993543762,
        0.00761264604340016,
        1.9572024359959714,
        5.493926395776126e-06,
        1.138550085106622,
        1.0604238985026693,
    ),
    Row(
        1000,
        0.2,
        0.1,
        64,
        391,
        0.003198508413668606,
        5.650631448849824e-06,
        0.43426917227806633,
        0.09981982000465112,
        4.8851556877698386,
        4.876971356925164,
    ),
    Row(
        1000,
        0.2,
        1e-05,
        64,
        19603,
        0.000451719597726771,
        1.5583677601100452e-07,
        0.06132818314682259,
        9.997117545036095e-06,
        34.59005880262059,
        34.58628990981756,
    ),
    Row(
        1000,
        1.0,
        0.1,
        64,
        88,
        0.006742449378065043,
        2.51130176474669e-05,
        0.915497590821143,
        0.09831828000446291,
        2.3175620272173947,
        2.303494593920566,
    ),
    Row(
        1000,
        1.0,
        1e-05,
        64,
        1027,
        0.001973553312641943,
        2.9752515382458067e-06,
        0.26795178836688743,
        9.948628115368378e-06,
        7.9172662875988955,
        7.913864781262214,
    ),
    Row(
        1000,
        10.0,
        0.1,
        64,
        6,
        0.02586195703998841,
        0.00036966023641557224,
        3.512788888802266,
        0.09203647483654892,
        0.6051536478449089,
        0.5978136816618767,
    ),
    Row(
        1000,
        10.0,
        1e-05,
        64,
        19,
        0.014519169639431477,
        0.00016111258133113155,
        1.9719083527437937,
        6.766167865934137e-06,
        1.0768788087570487,
        1.0604238985026693,
    ),
    Row(
        10000,
        0.2,
        0.1,
        200,
        381,
        0.0010246324624679814,
        5.797517605796798e-07,
        0.4347173301901163,
        0.09999338776568897,
        4.879805323985783,
        4.876971356925164,
    ),
    Row(
        10000,
        0.2,
        1e-05,
        200,
        19143,
        0.0001445523036719094,
        1.5957351973892034e-08,
        0.061328419861035356,
        9.99762922150153e-06,
        34.589557672800616,
        34.58628990981756,
    ),
    Row(
        10000,
        1.0,
        0.1,
        200,
        85,
        0.002169319597595701,
        2.5987301216686848e-06,
        0.9203759806878105,
        0.09991356371299506,
        2.3048861143232218,
        2.303494593920566,
    ),
    Row(
        10000,
        1.0,
        1e-05,
        200,
        1003,
        0.0006315095864338322,
        3.0456358456222887e-07,
        0.26792818862102996,
        9.934093999841458e-06,
        7.917543811056557,
        7.913864781262214,
    ),
    Row(
        10000,
        10.0,
        0.1,
        200,
        6,
        0.008166278587562194,
        3.685067799842452e-05,
        3.4648233810397446,
        0.08183942263054986,
        0.6123724356957946,
        0.5978136816618767,
    ),
    Row(
        10000,
        10.0,
        1e-05,
        200,
        18,
        0.004714376577291913,
        1.6978967558124474e-05,
        2.0002165203753783,
        9.979217360040439e-06,
        1.0606601717798214,
        1.0604238985026693,
    ),
]

each_row = pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row.users}-{row.epsilon}-{row.delta}"
)


@each_row
def test_the_fewest_certified_noise_bits_are_those_of_the_row(row: Row) -> None:
    found = least_noise_bits(
        row.budget,
        grid=row.grid,
        users=row.users,
        honest_fraction=1.0,
        sensitivity=SENSITIVITY,
        labels=LABELS,
        participations=1,
    )
    assert found == row.noise_bits


@each_row
def test_slope_deviation_and_mu_are_those_of_the_row(row: Row) -> None:
    distance = row.grid * SENSITIVITY
    tau = 1e-3 * row.delta / LABELS
    found = fast_slope(row.users * row.noise_bits, math.ceil(distance), tau)
    assert found is not None
    assert found.slope == pytest.approx(row.slope, rel=1e-8)
    # The rows take a series for G that is up to 9e-5 above its value; it is worth 2e-7 of mu.
    assert row.deviation * (1 - 1e-4) <= found.deviation <= row.deviation * (1 + 2e-6)
    assert found.mu(distance, LABELS) == pytest.approx(row.mu, rel=1e-6)


@each_row
def test_the_certified_delta_is_that_of_the_row_and_never_above_the_target(row: Row) -> None:
    curve = row.batch.curve(row.grid, row.noise_bits)
    bound = curve.bound(row.epsilon, row.delta)
    assert bound <= row.delta
    assert bound == pytest.approx(row.certified_delta, rel=1e-5)
    assert curve.delta(row.epsilon) <= row.delta
    fewer = row.batch.curve(row.grid, row.noise_bits - 1)
    assert fewer.bound(row.epsilon, row.delta) > row.delta


@each_row
def test_noise_and_floor_are_those_of_the_row(row: Row) -> None:
    std = math.sqrt(row.users * row.noise_bits) / 2 / row.grid
    assert std == pytest.approx(row.noise_std, rel=1e-12)
    assert row.batch.floor(row.budget) == pytest.approx(row.floor, rel=1e-9)
