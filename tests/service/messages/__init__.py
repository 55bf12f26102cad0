"""Tests of ``croupier.service.messages``."""
