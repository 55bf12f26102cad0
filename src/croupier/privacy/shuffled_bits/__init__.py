"""The certificate for shuffled bits."""
