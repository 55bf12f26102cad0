"""Private contextual bandits in the shuffle model.

>>> import numpy as np
>>> from croupier import Analyzer, Client, Plan, Shuffler
>>> plan = Plan.calibrate("vector-sum", dim=3, batch_size=50, horizon=500, epsilon=4.0, delta=1e-3)
>>> shuffler, analyzer, rng = Shuffler(plan), Analyzer(plan), np.random.default_rng(0)
>>> theta, constant = np.array([0.7, 0.0, 0.7]), np.full((4, 1), 0.5**0.5)
>>> for user in range(500):
...     device, arms = Client(plan), np.hstack([rng.uniform(-0.5, 0.5, (4, 2)), constant])
...     device.update(analyzer.model)
...     chosen = arms[device.choose(arms).arm]
...     batch = shuffler.collect(device.report(chosen, float(rng.random() < chosen @ theta)))
...     if batch is not None:
...         model = analyzer.receive(batch)
>>> model.version, model.theta.shape
(4, (3,))

Expected rewards are linear in the features, as every policy assumes; the constant last feature
carries their mean. Who sees what, and what is proved: ``plan.guarantees()`` and ``docs/``.
"""

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.contribution import contribution
from croupier.errors import CroupierError, GuaranteeError
from croupier.layouts import Layout
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee
from croupier.shuffler import Shuffler, shuffle
from croupier.version import __version__

__all__ = [
    "Analyzer",
    "Budget",
    "Client",
    "CroupierError",
    "Guarantee",
    "GuaranteeError",
    "Layout",
    "Model",
    "Plan",
    "ReleasedSums",
    "Shuffler",
    "__version__",
    "contribution",
    "shuffle",
]
