"""Tests of ``croupier.service.console``."""
