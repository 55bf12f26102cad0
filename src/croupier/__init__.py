"""Private contextual bandits in the shuffle model.

>>> from croupier import Plan
>>> plan = Plan.calibrate("vector-sum", dim=5, batch_size=1000, horizon=100_000,
...                       epsilon=1.0, delta=1e-5, calibration="theorem")
>>> plan.deployable
True
"""

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.contribution import Layout, contribution
from croupier.errors import CroupierError, GuaranteeError
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee
from croupier.shuffler import Shuffler, shuffle

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
    "contribution",
    "shuffle",
]
