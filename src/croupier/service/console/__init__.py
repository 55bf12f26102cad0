"""The operator's page of a role: its public numbers, as HTML and as server-sent events."""

from croupier.service.console.analyzer_view import analyzer_console
from croupier.service.console.routes import console_routes
from croupier.service.console.shuffler_view import shuffler_console

__all__ = ["analyzer_console", "console_routes", "shuffler_console"]
