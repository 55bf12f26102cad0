"""Keys of a role, and those of the other that it trusts."""

from croupier.service.extras import require_extra

require_extra("cryptography")
