"""Tests of ``croupier.service.analyzer``."""
