"""The device: chooses and reports in its user's interest, and trusts nobody it need not."""
