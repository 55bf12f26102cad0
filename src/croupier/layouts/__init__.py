"""Layouts: which bounded vector a user's features and reward become, and what its sums say."""

from croupier.layouts.base import Layout, Moments
from croupier.layouts.blocks import Blocks
from croupier.layouts.light_offset import LightOffset
from croupier.layouts.papers import PapersLayout

LAYOUTS: dict[str, type[Layout]] = {kind.name: kind for kind in (LightOffset, Blocks, PapersLayout)}

__all__ = ["LAYOUTS", "Blocks", "Layout", "LightOffset", "Moments", "PapersLayout"]
