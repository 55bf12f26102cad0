"""What the constants of the paper's script are worth: the claim, and the truth."""

from __future__ import annotations

from croupier import Plan

plan = Plan.calibrate(
    "local",
    dim=5,
    batch_size=1,
    horizon=20_000,
    epsilon=1.0,
    delta=0.1,
    calibration="released",
)
promise = plan.promise
print(f"mu = {promise.mu:.4f} by {promise.method}")
for delta in (0.1, 1e-3, 1e-5, 1e-9):
    print(f"delta {delta:g}: epsilon {promise.epsilon(delta):.4f}")
print(f"claimed (1, 0.1); true delta at epsilon 1 is {promise.delta(1.0):.4f}; met: {plan.met}")
