"""Batches of liars whose reports are well-formed, and honest ones that look like them."""
