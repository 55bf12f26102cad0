"""The version, in one place: packaging reads it from this file."""

__version__ = "0.1.0"
