"""The device: chooses and reports in its user's interest, and trusts nobody it need not."""

from croupier.service.extras import require_extra

require_extra("cryptography", "httpx")
