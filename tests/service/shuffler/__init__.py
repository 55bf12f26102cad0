"""Tests of ``croupier.service.shuffler``."""
