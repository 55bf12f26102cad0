"""Every privacy number is computed in this room; it imports nothing above it."""
