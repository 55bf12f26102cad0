"""Compare two plans on the same simulated users and load the rows into pandas."""

from __future__ import annotations

import tempfile

from croupier.simulation.compare import LINUCB, VECTOR, Arena, line_up
from croupier.simulation.results import load_frame
from croupier.simulation.sweep import sweep

arena = Arena(
    dim=5, horizon=2000, batch_size=20, epsilon=10.0, delta=1e-5, calibration="certified", arms=50
)
with tempfile.TemporaryDirectory() as directory:
    for outcome in sweep(line_up((LINUCB, VECTOR), arena), trials=5, seed=0, out=directory):
        print(
            f"{outcome.job.label}: regret {outcome.mean[-1]:.0f} after {outcome.rounds[-1]} rounds"
        )
    table = load_frame(directory)

last = table[table["round"] == table["round"].max()]
print(last.groupby("algorithm")["regret"].describe()[["count", "mean", "std"]])
