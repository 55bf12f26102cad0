"""Tests of ``croupier.service.keys``."""
