"""Tests of ``croupier.service.demo``."""
