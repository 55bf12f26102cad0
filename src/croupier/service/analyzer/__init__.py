"""The analyzer: learns from every batch once, and publishes models."""

from croupier.service.extras import require_extra

require_extra("cryptography", "httpx", "prometheus_client", "starlette", "structlog")
