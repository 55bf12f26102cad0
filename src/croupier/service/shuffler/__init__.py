"""The shuffler: takes reports, completes batches, and hands them on shuffled."""

from croupier.service.extras import require_extra

require_extra("cryptography", "httpx", "prometheus_client", "starlette", "structlog")
