"""Tests of ``croupier.service.http``."""
