"""Baselines of the other trust models: plannable and simulable, never deployable."""
