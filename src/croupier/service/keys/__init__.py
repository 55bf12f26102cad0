"""Keys of a role, and those of the other that it trusts."""
