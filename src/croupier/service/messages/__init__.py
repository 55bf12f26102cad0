"""What goes from role to role: seals, shares, signed documents, and how a batch travels."""
