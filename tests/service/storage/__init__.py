"""Tests of ``croupier.service.storage``."""
