"""Compiled inner loops of the simulator; importing this package compiles and imports nothing."""
