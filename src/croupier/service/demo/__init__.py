"""All three roles live on one machine, with a crowd of simulated users."""

from croupier.service.extras import require_extra

require_extra("cryptography", "httpx")
