"""The operator's page of a role: its public numbers, as HTML and as server-sent events."""

from croupier.service.analyzer.model_age import Ages
from croupier.service.console.analyzer_view import AnalyzerSight
from croupier.service.console.routes import console_routes
from croupier.service.console.shuffler_view import ShufflerSight

__all__ = ["Ages", "AnalyzerSight", "ShufflerSight", "console_routes"]
