"""Starting, asking and mending a role."""

from croupier.service.extras import require_extra

require_extra("cryptography", "httpx", "prometheus_client", "starlette", "structlog", "uvicorn")
