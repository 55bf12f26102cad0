"""Whole noisy reports, permuted: what their local privacy becomes, and what attacks reach."""
