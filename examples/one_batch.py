"""The three roles in one process: devices report, a shuffler mixes, an analyzer learns."""

from __future__ import annotations

import numpy as np

from croupier import Analyzer, Client, Plan, Shuffler

plan = Plan.calibrate(
    "vector-sum",
    dim=3,
    batch_size=50,
    horizon=500,
    epsilon=4.0,
    delta=1e-3,
)
shuffler, analyzer = Shuffler(plan), Analyzer(plan)
rng = np.random.default_rng(0)

for user in range(500):
    arms = rng.uniform(-0.5, 0.5, size=(4, 3))
    device = Client(plan)
    device.update(analyzer.model)
    choice = device.choose(arms)
    chosen = arms[choice.arm]
    reward = float(rng.random() < 0.5 + chosen[0])
    batch = shuffler.collect(device.report(chosen, reward))
    if batch is not None:
        model = analyzer.receive(batch)
        print(f"after user {user + 1}: theta = {np.round(model.theta, 3)}")
