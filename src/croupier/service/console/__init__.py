"""The operator's page of a role: its public numbers, as HTML and as server-sent events."""

from croupier.service.analyzer.model_age import ModelAge
from croupier.service.console.analyzer_view import AnalyzerView
from croupier.service.console.routes import console_routes
from croupier.service.console.shuffler_view import ShufflerView

__all__ = ["AnalyzerView", "ModelAge", "ShufflerView", "console_routes"]
