"""Policies: released sums to a model on the server, a model to an arm on the device."""
