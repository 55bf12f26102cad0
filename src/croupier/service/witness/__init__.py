"""The witness: follows both services from outside and signs what it has seen them agree on."""

from croupier.service.extras import require_extra

require_extra("cryptography", "httpx", "starlette", "structlog")
