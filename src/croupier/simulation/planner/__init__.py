"""The planner: from what somebody needs to a certified plan, or to why there is none."""

from croupier.simulation.planner.choosing import recommend
from croupier.simulation.planner.need import Need
from croupier.simulation.planner.recommendation import Recommendation

__all__ = ["Need", "Recommendation", "recommend"]
