"""Attacks that worked once, each as a test of what stops it."""
