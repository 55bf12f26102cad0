"""Tests of ``croupier.service.device``."""
