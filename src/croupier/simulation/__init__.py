"""Simulated users, a vectorised engine, sweeps over trials, and results on disk."""
