"""The analyzer: learns from every batch once, and publishes models."""
